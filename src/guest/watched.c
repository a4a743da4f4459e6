/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/watched.h"

#include "base/util.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INOTIFY "anon_inode:inotify"

/* Eight digits: four bytes of a handle, least significant first. */
static bool word(const char *hex, uint32_t *ret)
{
	uint32_t v = 0;

	for (unsigned i = 0; i < 8; i++) {
		const char *digits = "0123456789abcdef";
		const char *at = hex[i] ? strchr(digits, hex[i]) : NULL;

		if (!at)
			return false;
		v |= (uint32_t)(at - digits) << (i / 2 * 8 + (i % 2 ? 0 : 4));
	}
	*ret = v;
	return true;
}

uint64_t watched_line(const char *line)
{
	const char *type = strstr(line, " fhandle-type:81 ");
	const char *handle = strstr(line, " f_handle:");
	uint32_t high, low;

	if (strncmp(line, "inotify wd:", 11) != 0 || !type || !handle)
		return 0;
	handle += strlen(" f_handle:");
	if (!word(handle, &high) || !word(handle + 8, &low))
		return 0;
	return (uint64_t)high << 32 | low;
}

static void add_line(struct watched *w, const char *line)
{
	uint64_t node = watched_line(line);

	if (!node)
		return;
	if (w->n == WATCHED_MAX)
		w->all = true;
	else
		w->node[w->n++] = node;
}

static void read_watches(struct watched *w, int proc, const char *pid, const char *number)
{
	char path[64], line[512];
	FILE *f;
	int fd;

	snprintf(path, sizeof(path), "%.20s/fdinfo/%.20s", pid, number);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	f = fd < 0 ? NULL : fdopen(fd, "r");
	if (!f) {
		closep(&fd);
		return;
	}
	while (fgets(line, sizeof(line), f))
		add_line(w, line);
	fclose(f);
}

static void look_at_process(struct watched *w, int proc, const char *pid)
{
	char path[32], to[sizeof(INOTIFY) + 1];
	const struct dirent *d;
	DIR *fds;
	int fd;

	snprintf(path, sizeof(path), "%.20s/fd", pid);
	fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fds = fd < 0 ? NULL : fdopendir(fd);
	if (!fds) {
		closep(&fd);
		return;
	}
	while ((d = readdir(fds))) {
		ssize_t n = readlinkat(fd, d->d_name, to, sizeof(to));

		if (n == sizeof(INOTIFY) - 1 && memcmp(to, INOTIFY, (size_t)n) == 0)
			read_watches(w, proc, pid, d->d_name);
	}
	closedir(fds);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

void watched_find(struct watched *w)
{
	DIR *proc = opendir("/proc");
	const struct dirent *d;

	w->n = 0;
	w->all = false;
	while (proc && (d = readdir(proc)))
		if (isdigit((unsigned char)d->d_name[0]))
			look_at_process(w, dirfd(proc), d->d_name);
	if (proc)
		closedir(proc);
	qsort(w->node, w->n, sizeof(w->node[0]), compare);
}

bool watched_has(const struct watched *w, uint64_t node)
{
	return node &&
	       (w->all || bsearch(&node, w->node, w->n, sizeof(w->node[0]), compare));
}
