/* SPDX-License-Identifier: Apache-2.0 */
/*
 * untar_file - makes what entries of a foreign archive say, below one directory.
 *
 * The way to an entry may lead through symlinks of the archive itself ("bin/ls" where
 * "bin" links to "usr/bin"). They are followed as the image will follow them when it is a
 * root: an absolute one begins at the tree's own top, and none leaves it. The kernel does
 * that (RESOLVE_IN_ROOT); no path is ever put together here and opened by its text.
 */
#include "roles/untar.h"

#include "base/util.h"

#include <archive.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define DIRS_MAX (256u << 20)
#define ENTRY_COST 4096 /* what even an empty file takes on a disk */

struct made_dir { /* followed by the path with its NUL */
	int64_t seconds;
	long nanoseconds;
	size_t path_len;
};

void tree_init(struct tree *t, int root, uint64_t bytes_max)
{
	t->root = root;
	t->parent = -1;
	t->left = bytes_max;
	buf_init(&t->dirs, DIRS_MAX);
}

/* ---- paths ---------------------------------------------------------------------- */

int untar_clean(const char *path, char out[PATH_MAX])
{
	size_t n = 0;

	while (*path) {
		size_t len = strcspn(path, "/");

		if (len == 2 && memcmp(path, "..", 2) == 0)
			return -EINVAL;
		if (len && !(len == 1 && *path == '.')) {
			if (len > NAME_MAX || n + len + 2 > PATH_MAX)
				return -ENAMETOOLONG;
			if (n)
				out[n++] = '/';
			memcpy(out + n, path, len);
			n += len;
		}
		path += len + (path[len] == '/');
	}
	out[n] = '\0';
	return 0;
}

static int open_inside(int root, const char *path, int flags, uint64_t resolve)
{
	struct open_how how = {.flags = (uint64_t)flags | O_CLOEXEC, .resolve = resolve};
	int fd = (int)syscall(SYS_openat2, root, *path ? path : ".", &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

static int open_dir(int root, const char *path)
{
	return open_inside(root, path, O_PATH | O_DIRECTORY,
			   RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

/* Directories that have no entry of their own, or a later one. */
static int make_way(int root, const char *path)
{
	cleanup_fd int at = open_dir(root, "");
	char part[PATH_MAX];
	size_t n = 0;

	while (at >= 0 && path[n]) {
		const char *name = path + n;
		size_t len = strcspn(name, "/");
		int next;

		n += len;
		memcpy(part, path, n);
		part[n] = '\0';
		next = open_dir(root, part);
		if (next == -ENOENT) {
			const char *last = part + n - len;

			/* a symlink that leads nowhere is EEXIST */
			if (mkdirat(at, last, 0755) < 0)
				return -errno;
			next = open_inside(at, last, O_PATH | O_DIRECTORY,
					   RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
		}
		close_fd(&at);
		at = next;
		n += path[n] == '/';
	}
	return at < 0 ? at : take_fd(&at);
}

/* The directory that path lies in, kept open for the next one; *ret_name: the rest. */
static int enter(struct tree *t, const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;
	char dir[PATH_MAX];
	int fd;

	*ret_name = slash ? slash + 1 : path;
	memcpy(dir, path, n);
	dir[n] = '\0';
	if (t->parent >= 0 && strcmp(dir, t->parent_path) == 0)
		return t->parent;
	fd = open_dir(t->root, dir);
	if (fd == -ENOENT)
		fd = make_way(t->root, dir);
	if (fd < 0)
		return fd;
	close_fd(&t->parent);
	t->parent = fd;
	memcpy(t->parent_path, dir, n + 1);
	return fd;
}

/* Whoever comes later wins, as with every tar; but what is in a directory stays. */
static int remove_old(int dir, const char *name)
{
	if (unlinkat(dir, name, 0) == 0)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	return unlinkat(dir, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

/* ---- what an entry may be ------------------------------------------------------- */

static int charge(struct tree *t, uint64_t n)
{
	if (n > t->left)
		return -EFBIG;
	t->left -= n;
	return 0;
}

static void times_of(const struct item *item, struct timespec out[2])
{
	for (int i = 0; i < 2; i++)
		out[i] = (struct timespec){item->seconds, item->nanoseconds};
}

static int write_at(int fd, const char *data, size_t n, off_t at)
{
	while (n) {
		ssize_t w = pwrite(fd, data, n, at);

		if (w < 0 && errno != EINTR)
			return -errno;
		if (w > 0) {
			data += w;
			at += w;
			n -= (size_t)w;
		}
	}
	return 0;
}

/* Holes stay holes: the archive skips them. */
static int copy_data(struct tree *t, struct archive *a, int fd, uint64_t size)
{
	const void *data;
	la_int64_t at;
	size_t n;
	int r;

	while ((r = archive_read_data_block(a, &data, &n, &at)) == ARCHIVE_OK ||
	       r == ARCHIVE_WARN) {
		if (at < 0 || (uint64_t)at > size || n > size - (uint64_t)at)
			return -EBADMSG;
		if (charge(t, n) < 0)
			return -EFBIG;
		r = write_at(fd, data, n, at);
		if (r < 0)
			return r;
	}
	if (r != ARCHIVE_EOF)
		return -EBADMSG;
	return ftruncate(fd, (off_t)size) < 0 ? -errno : 0;
}

/* Its owner may always read a file, and enter and change a directory: inside there is no
 * privilege that would let even root do without. */
static int make_file(struct tree *t, int dir, const char *name, const struct item *item,
		     struct archive *a)
{
	cleanup_fd int fd = openat(
		dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct timespec times[2];
	int r = fd < 0 ? -errno : copy_data(t, a, fd, item->size);

	if (r < 0)
		return r;
	times_of(item, times);
	return fchmod(fd, (item->mode & 0777) | 0400) < 0 || futimens(fd, times) < 0
		       ? -errno
		       : 0;
}

static int make_dir(struct tree *t, int dir, const char *name, const struct item *item)
{
	struct made_dir d = {item->seconds, item->nanoseconds, strlen(item->path)};
	int r = 0;

	if (mkdirat(dir, name, 0700) < 0)
		r = -errno;
	if (r < 0 && r != -EEXIST)
		return r;
	cleanup_fd int fd = open_inside(dir, name, O_RDONLY | O_DIRECTORY,
					RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	if (fd < 0)
		return r < 0 ? r : fd; /* something else has the name */
	if (fchmod(fd, (item->mode & 01777) | 0700) < 0)
		return -errno;
	r = buf_append(&t->dirs, &d, sizeof(d));
	if (r == 0)
		r = buf_append(&t->dirs, item->path, d.path_len + 1);
	return r;
}

static int make_symlink(int dir, const char *name, const struct item *item)
{
	struct timespec times[2];

	times_of(item, times);
	if (symlinkat(item->link, dir, name) < 0 ||
	    utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

static int make_fifo(int dir, const char *name, const struct item *item)
{
	return mknodat(dir, name, S_IFIFO | (item->mode & 0777), 0) < 0 ? -errno : 0;
}

/* To a path that is there already, by its name: a symlink there is linked itself. */
static int make_hard_link(struct tree *t, int dir, const char *name,
			  const struct item *item)
{
	const char *slash = strrchr(item->link, '/');
	size_t n = slash ? (size_t)(slash - item->link) : 0;
	char from[PATH_MAX];

	memcpy(from, item->link, n);
	from[n] = '\0';
	cleanup_fd int at = open_dir(t->root, from);
	if (at < 0)
		return at;
	return linkat(at, slash ? slash + 1 : item->link, dir, name, 0) < 0 ? -errno : 0;
}

static int make_one(struct tree *t, int dir, const char *name, const struct item *item,
		    struct archive *a)
{
	switch (item->type) {
	case S_IFDIR:
		return make_dir(t, dir, name, item);
	case S_IFLNK:
		return make_symlink(dir, name, item);
	case S_IFIFO:
		return make_fifo(dir, name, item);
	case S_IFREG:
		return make_file(t, dir, name, item, a);
	default:
		return make_hard_link(t, dir, name, item);
	}
}

/* A file that is linked to itself is there already. */
static bool links_itself(const struct item *item)
{
	return item->type == 0 && strcmp(item->path, item->link) == 0;
}

int tree_make(struct tree *t, const struct item *item, struct archive *a)
{
	const char *name;
	int dir, r;

	if (!item->path[0] || links_itself(item))
		return 0;
	r = charge(t, ENTRY_COST);
	dir = r < 0 ? r : enter(t, item->path, &name);
	if (dir < 0)
		return dir;
	r = make_one(t, dir, name, item, a);
	if (r != -EEXIST)
		return r;
	r = remove_old(dir, name);
	return r < 0 ? r : make_one(t, dir, name, item, a);
}

/* From the first to the last: nothing is made any more that would touch them. */
int tree_finish(struct tree *t)
{
	size_t at = 0;

	while (at < t->dirs.len) {
		struct timespec times[2];
		struct made_dir d;

		memcpy(&d, t->dirs.data + at, sizeof(d));
		at += sizeof(d);
		cleanup_fd int fd =
			open_inside(t->root, t->dirs.data + at, O_RDONLY | O_DIRECTORY,
				    RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
		at += d.path_len + 1;
		for (int i = 0; i < 2; i++)
			times[i] = (struct timespec){d.seconds, d.nanoseconds};
		/* one that a later entry replaced needs none */
		if (fd >= 0 && futimens(fd, times) < 0)
			return -errno;
	}
	return 0;
}
