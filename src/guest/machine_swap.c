/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/machine_swap.h"

#include "base/util.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/swap.h>

#define DISKS "/sys/block"
#define SERIAL "cove.swap"

static bool is_swap(const char *disk)
{
	char path[300], text[64];
	ssize_t n;

	snprintf(path, sizeof(path), DISKS "/%s/serial", disk);
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text));
	return n >= (ssize_t)strlen(SERIAL) && memcmp(text, SERIAL, strlen(SERIAL)) == 0;
}

int machine_swap_on(void)
{
	DIR *d = opendir(DISKS);
	struct dirent *e;
	char path[300] = "";

	while (d && !path[0] && (e = readdir(d)))
		if (e->d_name[0] != '.' && is_swap(e->d_name))
			snprintf(path, sizeof(path), "/dev/%s", e->d_name);
	if (d)
		closedir(d);
	errno = ENODEV;
	return path[0] ? swapon(path, 0) : -1;
}
