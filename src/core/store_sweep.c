/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_sweep - what becomes of a record when its sandbox has ended: kept because it
 * holds changes, recycled, or removed; by its keeper, or by the next command if that was
 * killed.
 */
#include "core/store_impl.h"

#include "base/io.h"
#include "base/util.h"
#include "core/audit.h"
#include "core/quarantine.h"
#include "core/workspace.h"
#include "os/cgroup.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

static uint64_t count_paths(int dir, const char *name, uint64_t max, int depth)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	uint64_t n = 0;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return fd < 0 && errno != ENOENT; /* unreadable counts as changed */
	}
	while (n < max && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		n++;
		if (e->d_type == DT_DIR && depth < 64)
			n += count_paths(dirfd(d), e->d_name, max - n, depth + 1);
	}
	closedir(d);
	return n;
}

uint64_t store_count_changes(struct store *s, const char *name, uint64_t max)
{
	DIR *d = store_open_record(s, name);
	struct dirent *e;
	uint64_t n = 0;

	if (!d)
		return 0;
	while (n < max && (e = readdir(d))) {
		char upper[300];

		if (!store_is_layer(e->d_name))
			continue;
		snprintf(upper, sizeof(upper), "%s/upper", e->d_name);
		n += count_paths(dirfd(d), upper, max - n, 0);
	}
	closedir(d);
	return n;
}

uint64_t store_count_layer(struct store *s, const char *name, int layer, uint64_t max)
{
	char upper[SPEC_NAME_MAX + 40];

	snprintf(upper, sizeof(upper), "%s/m%d/upper", name, layer);
	return count_paths(s->boxes, upper, max, 0);
}

#define SPARE ".spare"

int store_claim(struct store *s, const char *name)
{
	if (renameat(s->boxes, SPARE, s->boxes, name) == 0)
		return 0;
	return mkdirat(s->boxes, name, 0700);
}

/* Nothing but one layer in it? Names are ours: "m0". */
static bool only_first_layer(struct store *s, const char *name)
{
	DIR *d = store_open_record(s, name);
	struct dirent *e;
	bool only = d != NULL, seen = false;

	while (d && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		seen = strcmp(e->d_name, "m0") == 0;
		only = only && seen;
	}
	if (d)
		closedir(d);
	return only && seen;
}

/* An empty record becomes the spare. The upper directory is made anew, mode and
 * attributes and all: nothing of one sandbox may reach another. */
static int recycle(struct store *s, const char *name, struct cove_error *err)
{
	char used[SPEC_NAME_MAX + 32], upper[SPEC_NAME_MAX + 32];

	snprintf(used, sizeof(used), "%s/m0/work/work", name);
	snprintf(upper, sizeof(upper), "%s/m0/upper", name);
	if (only_first_layer(s, name) && remove_tree_at(s->boxes, used) == 0 &&
	    unlinkat(s->boxes, upper, AT_REMOVEDIR) == 0 &&
	    store_rename_new(s->boxes, name, SPARE) == 0)
		return 0;
	return store_remove(s, name, err);
}

int store_settle(struct store *s, const char *name, uint64_t *ret_changes,
		 struct cove_error *err)
{
	char from[SPEC_NAME_MAX + 32], to[SPEC_NAME_MAX + 32];
	struct stat st;
	uint64_t n;

	*ret_changes = 0;
	snprintf(to, sizeof(to), "%s/%s", name, SPEC_FILE);
	if (!store_exists(s, name))
		return 0;
	if (fstatat(s->boxes, to, &st, 0) == 0) { /* kept before */
		*ret_changes = store_count_changes(s, name, 100000);
		return 0;
	}
	n = store_count_changes(s, name, 100000);
	if (n == 0 && !quarantine_any(s, name))
		return recycle(s, name, err);
	syncfs(s->boxes); /* the overlay was volatile: from now on it lasts */
	*ret_changes = n;
	snprintf(from, sizeof(from), "%s/%s", name, SPEC_FILE);
	cleanup_buf struct buf text = BUF_INIT(SPEC_TEXT_MAX);
	cleanup_fd int dir = openat(s->boxes, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = dir < 0 ? -errno : read_file_at(s->run_fd, from, &text);
	if (r == 0)
		r = write_file_atomic(dir, SPEC_FILE, text.data, text.len, 0600, 1);
	return r < 0 ? fail(err, COVE_EIO, -r, "keep the changes of %s", name) : 0;
}

/* A holder that was killed could not remove its cgroup. */
static void sweep_cgroup(struct store *s, const char *name)
{
	cleanup_buf struct buf text = BUF_INIT(16384);
	char path[SPEC_NAME_MAX + 16];

	snprintf(path, sizeof(path), "%s/cgroup", name);
	if (read_file_at(s->run_fd, path, &text) == 0 && text.len)
		cgroup_remove_saved(text.data);
}

/* Its maker has still to put his lock there, or his number in it: leave him a while. */
static bool just_made(struct store *s, const char *name, int fd)
{
	struct stat st;

	if (fd >= 0 && (fstat(fd, &st) < 0 || st.st_size > 0))
		return false;
	return fstatat(s->run_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	       st.st_mtime + 10 > time(NULL);
}

static void sweep_run(struct store *s, const char *name)
{
	struct cove_error err = {0};
	uint64_t changes;
	cleanup_fd int fd = store_open_lock(s, name, false);

	if (fd < 0 && fd != -ENOENT)
		return;
	if (fd >= 0 &&
	    (flock(fd, LOCK_EX | LOCK_NB) < 0 || !store_lock_counts(s, name, fd)))
		return; /* running, or running again */
	if (just_made(s, name, fd))
		return;
	sweep_cgroup(s, name);
	if (store_settle(s, name, &changes, &err) == 0) {
		audit_swept(s, name);
		store_clear_run(s, name);
	}
}

/* Directories on their way in or out, whose maker is gone. */
static void sweep_halves(int parent)
{
	int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		char proc[32];
		struct stat st;

		if (strncmp(e->d_name, ".new-", 5) != 0 &&
		    strncmp(e->d_name, ".old-", 5) != 0)
			continue;
		snprintf(proc, sizeof(proc), "/proc/%.12s", strrchr(e->d_name, '-') + 1);
		if (stat(proc, &st) < 0)
			remove_tree_at(parent, e->d_name);
	}
	if (d)
		closedir(d);
}

void store_sweep(struct store *s)
{
	int fd = openat(s->run_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d)
		return;
	while ((e = readdir(d)))
		if (spec_name_ok(e->d_name))
			sweep_run(s, e->d_name);
	closedir(d);
	sweep_halves(s->run_fd);
	sweep_halves(s->boxes);
	workspace_sweep(s);
}
