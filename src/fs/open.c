/* SPDX-License-Identifier: Apache-2.0 */
/*
 * open - how a node becomes a descriptor, or a directory and a name.
 *
 * Directories are O_PATH descriptors, opened from their parent's by name. A regular file
 * is opened from its directory's descriptor by name too, not through /proc/self/fd: one
 * call less, no need for /proc, and Landlock judges it by its path as it would judge a
 * program. The price is a moment between name and file in which the host may put another
 * file there: O_NOFOLLOW and O_NONBLOCK keep that harmless, and the identity check after
 * the open refuses it. Only what has no name any more is opened again through /proc.
 */
#include "base/util.h"
#include "fs/impl.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define OPEN_ALWAYS (O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

int open_entry(struct fs *fs, int dir, const char *name, int flags, mode_t mode)
{
	for (;;) {
		int fd = openat(dir, name, flags, mode);

		if (fd >= 0)
			return fd;
		if (errno != EMFILE || !desc_spare(&fs->descs))
			return -errno;
	}
}

int open_again(struct fs *fs, int fd, int flags)
{
	char number[16];
	int again;

	if (fs->proc_fds < 0)
		return -ESTALE;
	snprintf(number, sizeof(number), "%d", fd);
	again = openat(fs->proc_fds, number, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return again < 0 ? -errno : again;
}

/* ---- directories --------------------------------------------------------------------
 */

static int open_child_dir(struct fs *fs, int parent, struct node *n)
{
	int fd = open_entry(fs, parent, n->name,
			    O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
	struct fs_stat st;
	int r = fd < 0 ? fd : fs_stat_at(fd, "", &st);

	if (r >= 0 && !fs_ident_equal(&n->ident, &st.id) && !node_same_dir(n, &st))
		r = -ESTALE;
	if (r < 0) {
		closep(&fd);
		return r == -ENOENT || r == -ENOTDIR || r == -ELOOP ? -ESTALE : r;
	}
	if (!fs_ident_equal(&n->ident, &st.id))
		node_identify(fs, n, &st.id);
	desc_set(&fs->descs, &n->desc, fd);
	return fd;
}

int open_dir(struct fs *fs, struct node *n)
{
	size_t depth = 0;
	int fd;

	if (!node_is_dir(n))
		return -ENOTDIR;
	for (; n->desc.fd < 0; n = n->parent) {
		if (!n->parent)
			return -ESTALE;
		if (depth == DEPTH_MAX)
			return -ENAMETOOLONG;
		fs->chain[depth++] = n;
	}
	desc_used(&fs->descs, &n->desc);
	fd = n->desc.fd;
	while (depth > 0 && fd >= 0)
		fd = open_child_dir(fs, fd, fs->chain[--depth]);
	return fd;
}

/* While the second is opened, the cache may not close the first. */
int open_two(struct fs *fs, struct node *a, struct node *b, int *ret_a, int *ret_b)
{
	bool was = a->desc.pinned;

	*ret_a = open_dir(fs, a);
	if (*ret_a < 0)
		return *ret_a;
	desc_keep(&fs->descs, &a->desc);
	*ret_b = open_dir(fs, b);
	if (!was)
		desc_unpin(&fs->descs, &a->desc);
	return *ret_b < 0 ? *ret_b : 0;
}

/* ---- regular files ------------------------------------------------------------------
 */

/* Opening for writing makes an overlay copy the file up, with a new identity. It was the
 * right one a moment ago. */
static int check_opened(struct fs *fs, struct node *n, int fd, bool write)
{
	struct fs_stat st;
	int r = fs_stat_at(fd, "", &st);

	if (r < 0)
		return r;
	if (!S_ISREG(st.mode))
		return -ESTALE;
	if (fs_ident_equal(&n->ident, &st.id))
		return 0;
	if (!write || !n->device->overlay)
		return -ESTALE;
	node_identify(fs, n, &st.id);
	return 0;
}

static int check_named(struct fs *fs, struct node *n, int dir)
{
	struct fs_stat st;
	int r = fs_stat_at(dir, n->name, &st);

	(void)fs;
	if (r < 0)
		return r == -ENOENT ? -ESTALE : r;
	return fs_ident_equal(&n->ident, &st.id) ? 0 : -ESTALE;
}

/* A file that may only be written is opened for that alone. */
static int open_named(struct fs *fs, struct node *n, int dir, bool write)
{
	int fd = open_entry(fs, dir, n->name, (write ? O_RDWR : O_RDONLY) | OPEN_ALWAYS,
			    0);

	n->reads = true;
	if (fd == -EACCES && write) {
		fd = open_entry(fs, dir, n->name, O_WRONLY | OPEN_ALWAYS, 0);
		n->reads = false;
	}
	return fd == -ENOENT || fd == -ELOOP || fd == -ENXIO ? -ESTALE : fd;
}

static int open_by_name(struct fs *fs, struct node *n, bool write)
{
	int dir = open_dir(fs, n->parent), fd, r;

	if (dir < 0)
		return dir;
	r = write && n->device->overlay ? check_named(fs, n, dir) : 0;
	if (r < 0)
		return r;
	fd = open_named(fs, n, dir, write);
	if (fd < 0)
		return fd;
	r = check_opened(fs, n, fd, write);
	if (r < 0) {
		close(fd);
		return r;
	}
	return fd;
}

int open_file(struct fs *fs, struct node *n, bool write)
{
	bool pinned = n->desc.pinned;
	int fd;

	if (n->type != S_IFREG)
		return node_is_dir(n) ? -EISDIR : -EINVAL;
	if (n->desc.fd >= 0 && (write ? n->writes : n->reads)) {
		desc_used(&fs->descs, &n->desc);
		return n->desc.fd;
	}
	if (n->parent)
		fd = open_by_name(fs, n, write);
	else
		fd = n->desc.fd < 0
			     ? -ESTALE
			     : open_again(fs, n->desc.fd, write ? O_RDWR : O_RDONLY);
	if (fd < 0)
		return fd;
	desc_set(&fs->descs, &n->desc, fd);
	if (pinned)
		desc_pin(&fs->descs, &n->desc);
	n->writes = write;
	n->reads = n->parent ? n->reads : true;
	return fd;
}

void node_keep_open(struct fs *fs, struct node *n)
{
	const char *name;
	int dir, fd;

	if (n->desc.fd < 0 && n->type == S_IFREG)
		open_file(fs, n, false);
	if (node_is_dir(n) && open_dir(fs, n) < 0)
		return;
	if (n->desc.fd < 0) { /* it cannot be read, or is none that is opened */
		dir = open_at(fs, n, &name);
		fd = dir < 0 ? dir
			     : open_entry(fs, dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC,
					  0);
		if (fd < 0)
			return;
		desc_set(&fs->descs, &n->desc, fd);
		n->reads = n->writes = false;
	}
	desc_pin(&fs->descs, &n->desc);
}

/* ---- by name or by descriptor --------------------------------------------------------
 */

int open_at(struct fs *fs, struct node *n, const char **name)
{
	*name = "";
	if (node_is_dir(n))
		return open_dir(fs, n);
	if (n->desc.fd >= 0)
		return n->desc.fd;
	if (!n->parent)
		return -ESTALE;
	*name = n->name;
	return open_dir(fs, n->parent);
}

static int stat_checked(struct fs *fs, struct node *n, struct fs_stat *ret, bool changed)
{
	const char *name;
	int dir = open_at(fs, n, &name);
	int r = dir < 0 ? dir : fs_stat_at(dir, name, ret);

	if (r < 0)
		return r == -ENOENT ? -ESTALE : r;
	if (fs_ident_equal(&n->ident, &ret->id))
		return 0;
	if ((ret->mode & S_IFMT) != n->type)
		return -ESTALE;
	if (!n->device->overlay || !(changed || node_is_dir(n) || !*name))
		return -ESTALE;
	node_identify(fs, n, &ret->id);
	return 0;
}

int node_stat(struct fs *fs, struct node *n, struct fs_stat *ret)
{
	return stat_checked(fs, n, ret, false);
}

int node_stat_changed(struct fs *fs, struct node *n, struct fs_stat *ret)
{
	return stat_checked(fs, n, ret, true);
}
