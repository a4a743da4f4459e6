/* SPDX-License-Identifier: Apache-2.0 */
#include "core/copymount.h"

#include "base/io.h"
#include "base/util.h"
#include "os/copytree.h"
#include "os/treewalk.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

/* Beside "copy" while it is made, and what tells when it was complete. */
#define HALF "copy.new"
#define DONE "copied"

static int copy_file(int from, const struct stat *st, int layer, struct cove_error *err)
{
	bool no_reflink = false;
	cleanup_fd int to =
		openat(layer, HALF, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r = to < 0 ? -errno : copy_content(from, to, st, &no_reflink);

	if (r == 0)
		r = copy_xattrs(from, to);
	/* The owner by right: an ordinary user's copy is his own. */
	if (r == 0 && geteuid() == 0 && fchown(to, st->st_uid, st->st_gid) < 0)
		r = -errno;
	if (r == 0 && fchmod(to, st->st_mode & 0777) < 0)
		r = -errno;
	return r < 0 ? fail(err, COVE_EIO, -r, "copy") : 0;
}

static int copy_source(const char *source, int layer, struct cove_error *err)
{
	struct copytree c = {.label = HALF, .known_dir = -1};
	cleanup_fd int from = open(source, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (from < 0 || fstat(from, &st) < 0)
		return fail(err, COVE_EIO, errno, "open");
	if (S_ISDIR(st.st_mode))
		return copytree(&c, from, layer, HALF, err);
	if (!S_ISREG(st.st_mode))
		return fail(err, COVE_EINVAL, 0, "neither a file nor a directory");
	return copy_file(from, &st, layer, err);
}

/* Times of files come from a clock that ticks slowly: what the sandbox does must fall
 * into a later tick than the mark. */
static void next_tick(int layer)
{
	static const struct timespec pause = {.tv_nsec = 1000000};
	struct timespec now;
	struct stat st;

	if (fstatat(layer, DONE, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	for (int i = 0; i < 100; i++) {
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
		if (now.tv_sec != st.st_ctim.tv_sec || now.tv_nsec > st.st_ctim.tv_nsec)
			break;
		nanosleep(&pause, NULL);
	}
}

int copymount_make(int record, const char *name, const char *source,
		   struct cove_error *err)
{
	struct stat st;
	int r;

	if (mkdirat(record, name, 0700) < 0 && errno != EEXIST)
		return fail(err, COVE_EIO, errno, "copy of %s", source);
	cleanup_fd int layer =
		openat(record, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (layer < 0)
		return fail(err, COVE_EIO, errno, "copy of %s", source);
	if (fstatat(layer, DONE, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    fstatat(layer, "copy", &st, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	r = remove_tree_at(layer, HALF);
	if (r == 0)
		r = remove_tree_at(layer, "copy");
	if (r < 0)
		return fail(err, COVE_EIO, -r, "copy of %s", source);
	if (copy_source(source, layer, err) < 0)
		return wrap(err, "copy of %s", source);
	if (renameat(layer, HALF, layer, "copy") < 0)
		return fail(err, COVE_EIO, errno, "copy of %s", source);
	r = write_file_atomic(layer, DONE, "", 0, 0600, 0);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "copy of %s", source);
	next_tick(layer);
	return 0;
}

/* ---- what changed in it --------------------------------------------------------- */

struct count {
	struct timespec since;
	uint64_t n, max;
};

static bool newer(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

/* The change time cannot be set from inside. */
static int count_one(void *arg, const struct tree_entry *e)
{
	struct count *c = arg;

	c->n += newer(&e->st->st_ctim, &c->since);
	return c->n >= c->max;
}

static int leave_one(void *arg, const struct tree_entry *e)
{
	(void)arg;
	(void)e;
	return 0;
}

uint64_t copymount_changes(int record, const char *name, uint64_t max)
{
	static const struct tree_ops ops = {count_one, leave_one, count_one};
	cleanup_buf struct buf where = BUF_INIT(TREE_PATH_MAX);
	struct count c = {.max = max};
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "%s/" DONE, name);
	if (fstatat(record, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	c.since = st.st_ctim;
	snprintf(path, sizeof(path), "%s/copy", name);
	cleanup_fd int fd =
		openat(record, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return errno != ENOENT; /* unreadable counts as changed */
	if (!S_ISDIR(st.st_mode))
		return newer(&st.st_ctim, &c.since);
	if (tree_walk(fd, &ops, &c, &where) < 0)
		return c.n ? c.n : 1;
	return c.n;
}
