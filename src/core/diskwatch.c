/* SPDX-License-Identifier: Apache-2.0 */
#include "core/diskwatch.h"

#include "base/util.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#define LOOK_MS 1000
#define DEPTH_MAX 256

void diskwatch_init(struct diskwatch *w, int boxes, const char *name, uint64_t limit,
		    int64_t now_ms)
{
	*w = (struct diskwatch){.boxes = boxes, .name = name, .limit = limit};
	w->next_ms = limit ? now_ms + LOOK_MS : 0;
}

/* What cove keeps in a record for the user, and the sandbox did not write. */
static bool is_ours(const char *name)
{
	return strcmp(name, "snapshots") == 0 || strncmp(name, "undo", 4) == 0 ||
	       strncmp(name, "apply.", 6) == 0 || strncmp(name, "audit.", 6) == 0;
}

/* watched: not all of a record counts. A disk (root/disk) has a size of its own, and is
 * full inside before it could be here. */
static bool skipped(const char *parent, const char *name, int depth)
{
	return depth == 0 ? is_ours(name)
			  : depth == 1 && strcmp(parent, "root") == 0 &&
				    strcmp(name, "disk") == 0;
}

static uint64_t add_up(int dir, const char *name, int depth, bool watched)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	uint64_t sum = 0;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	while ((e = readdir(d))) {
		struct stat st;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    (watched && skipped(name, e->d_name, depth)) ||
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		sum += (uint64_t)st.st_blocks * 512 /
		       (st.st_nlink > 1 && !S_ISDIR(st.st_mode) ? st.st_nlink : 1);
		if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
			sum += add_up(dirfd(d), e->d_name, depth + 1, watched);
	}
	closedir(d);
	return sum;
}

uint64_t disk_usage(int dir, const char *name)
{
	return add_up(dir, name, 0, false);
}

static int64_t clock_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

bool diskwatch_over(struct diskwatch *w, int64_t now_ms)
{
	struct statvfs fs;
	uint64_t available, written;
	int64_t cost;

	if (!w->next_ms || now_ms < w->next_ms)
		return false;
	w->next_ms = now_ms + LOOK_MS;
	if (fstatvfs(w->boxes, &fs) < 0)
		return false;
	available = (uint64_t)fs.f_bavail * fs.f_frsize;
	/* What left the file system since the last count, by whomever, is the most that
	 * this sandbox can have written. */
	written = w->free_then > available ? w->free_then - available : 0;
	if (w->free_then && w->used + written < w->limit)
		return false;
	w->used = add_up(w->boxes, w->name, 0, true);
	w->free_then = available;
	cost = clock_ms() - now_ms;
	if (cost * 20 > LOOK_MS) /* at most a twentieth of the time */
		w->next_ms = now_ms + cost * 20;
	return w->used > w->limit;
}
