/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attack_machine - root of a machine at the host's end of its ports. The guest holds them
 * open, once each, so its descriptors are taken from it.
 */
#include "attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PORTS "/sys/class/virtio-ports"

/* The device of a port: "cove.link", "cove.fs", "cove.net". */
static int find_device(const char *name, char *out, size_t size)
{
	DIR *d = opendir(PORTS);
	struct dirent *e;
	int found = 0;

	while (d && !found && (e = readdir(d))) {
		char path[300], text[64];

		snprintf(path, sizeof(path), PORTS "/%s/name", e->d_name);
		if (e->d_name[0] == '.' || read_some(path, text, sizeof(text)) <= 0)
			continue;
		text[strcspn(text, "\n")] = '\0';
		found = strcmp(text, name) == 0;
		snprintf(out, size, "/dev/%.100s", e->d_name);
	}
	if (d)
		closedir(d);
	return found;
}

static int steal(const char *device)
{
	int pidfd = (int)syscall(SYS_pidfd_open, 1, 0);

	for (int fd = 0; fd < 64; fd++) {
		char path[64], target[128];
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/1/fd/%d", fd);
		n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		if (strcmp(target, device) == 0)
			return (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	}
	errno = ENOENT;
	return -1;
}

static int64_t seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

static uint32_t noise(void)
{
	static uint32_t x = 1;

	x = x * 1103515245 + 12345;
	return x >> 8;
}

/* One message of the kind that is asked for; its length. */
static size_t compose(const char *kind, char *out, size_t size)
{
	static const uint32_t lengths[] = {0xffffffff, 0x7fffffff, 0, 1, 7, 1u << 20};
	struct fuse_in_header h = {.unique = noise()};

	for (size_t i = 0; i < size; i++)
		out[i] = (char)noise();
	if (strcmp(kind, "lengths") == 0) {
		uint32_t n = lengths[noise() % (sizeof(lengths) / sizeof(lengths[0]))];

		memcpy(out, &n, sizeof(n));
		return 64;
	}
	if (strcmp(kind, "forged") == 0) { /* requests that are well made */
		static const char *const names[] = {"..", "../../etc/passwd",
						    "/etc/passwd", "."};
		const char *name = names[noise() % 4];

		h.opcode = noise() % 4 ? FUSE_LOOKUP : noise() % 60;
		h.nodeid = noise() % 2 ? 1 + noise() % 64 : noise() * 0x100000001ull;
		h.len = (uint32_t)(sizeof(h) + strlen(name) + 1);
		memcpy(out, &h, sizeof(h));
		memcpy(out + sizeof(h), name, strlen(name) + 1);
		return h.len;
	}
	return size;
}

/* Writes for so long, reads nothing; the host may hang up, or not listen any more. */
static int port(char **args)
{
	int64_t until = seconds() + strtol(args[2], NULL, 10);
	char device[128], message[4096];
	unsigned long sent = 0;
	int fd;

	if (!find_device(args[0], device, sizeof(device)))
		return refused("port %s", args[0]);
	fd = steal(device);
	if (fd < 0)
		return refused("the guest's end of %s", device);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	while (seconds() < until) {
		size_t n = compose(args[1], message, sizeof(message));
		ssize_t done = write(fd, message, n);

		if (done < 0 && errno != EAGAIN)
			break;
		if (done < 0)
			poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, 100);
		sent += done > 0 ? (unsigned long)done : 0;
	}
	return worked("%lu bytes of %s to %s", sent, args[1], args[0]);
}

/* The device itself, which only one may have open. */
static int port_open(char **args)
{
	char device[128];

	if (!find_device(args[0], device, sizeof(device)))
		return refused("port %s", args[0]);
	return judge(open(device, O_RDWR | O_CLOEXEC), device);
}

const struct attack machine_attacks[] = {
	{"port",      3, port     },
	{"port-open", 1, port_open},
	{NULL,        0, NULL     },
};
