/* SPDX-License-Identifier: Apache-2.0 */
/*
 * evil_machine - the evil guest as the first process of a machine: modules and the port,
 * as src/guest/machine.c does it, without its care.
 */
#include "evil_guest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PORTS "/sys/class/virtio-ports"

static void load_modules(void)
{
	FILE *f = fopen("/modules/order", "re");
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		int fd;

		line[strcspn(line, "\n")] = '\0';
		fd = open(line, O_RDONLY | O_CLOEXEC);
		if (fd >= 0)
			syscall(SYS_finit_module, fd, "", 0);
		close(fd);
	}
	if (f)
		fclose(f);
}

static int is_link(const char *entry)
{
	char path[300], name[64] = "";
	FILE *f;

	snprintf(path, sizeof(path), PORTS "/%s/name", entry);
	f = fopen(path, "re");
	if (f && !fgets(name, sizeof(name), f))
		name[0] = '\0';
	if (f)
		fclose(f);
	return strcmp(name, "cove.link\n") == 0;
}

static int open_link(void)
{
	char path[300] = "";
	DIR *d = opendir(PORTS);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (is_link(e->d_name))
			snprintf(path, sizeof(path), "/dev/%.200s", e->d_name);
	if (d)
		closedir(d);
	return path[0] ? open(path, O_RDWR) : -1;
}

int evil_machine_link(void)
{
	struct pollfd p = {.events = POLLIN};

	mkdir("/dev", 0755);
	mkdir("/sys", 0755);
	mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	load_modules();
	for (int i = 0; i < 10000 && (p.fd = open_link()) < 0; i++)
		usleep(1000);
	if (p.fd < 0 || write(p.fd, "R", 1) != 1)
		return -1;
	while (poll(&p, 1, -1) < 0 || !(p.revents & POLLIN))
		usleep(1000);
	return p.fd;
}
