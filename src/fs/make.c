/* SPDX-License-Identifier: Apache-2.0 */
/* make - requests that make entries of directories. */
#include "base/util.h"
#include "fs/fresh.h"
#include "fs/impl.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

int dir_changing(struct fs *fs, struct node *dir)
{
	int fd = dir->device->hidden ? -EPERM : open_dir(fs, dir);

	if (fd >= 0)
		fresh_before(fs, dir, fd);
	return fd;
}

void dir_changed(struct fs *fs, struct node *dir)
{
	int fd = open_dir(fs, dir);

	if (fd >= 0)
		fresh_after(fs, dir, fd);
}

/* The answer for what was just made; if there is no room for its node it is taken away
 * again. */
static ssize_t made(struct fs *fs, struct node *dir, const char *name, int remove,
		    uint8_t *out)
{
	struct node *new;
	ssize_t n;
	int fd;

	dir_changed(fs, dir);
	n = entry_answer(fs, dir, name, out);
	new = node_child(fs, dir, name);
	if (new)
		new->whole = true;
	if (n != -ENFILE && n != -ENOMEM)
		return n;
	fd = open_dir(fs, dir);
	if (fd >= 0)
		unlinkat(fd, name, remove);
	return n;
}

ssize_t do_mkdir(struct fs *fs, struct request *q, uint8_t *out)
{
	struct fuse_mkdir_in in;
	size_t at = sizeof(in);
	int err, dir;
	const char *name = request_name(q, &at, &err);

	if (!name)
		return err;
	request_take(q, &in);
	dir = dir_changing(fs, q->node);
	if (dir < 0)
		return dir;
	if (mode_check(in.mode) < 0)
		return -EPERM;
	if (mkdirat(dir, name, in.mode & 01777) < 0)
		return -errno;
	return made(fs, q->node, name, AT_REMOVEDIR, out);
}

/* Plain files, fifos and sockets; a device node would be hardware. */
ssize_t do_mknod(struct fs *fs, struct request *q, uint8_t *out)
{
	struct fuse_mknod_in in;
	size_t at = sizeof(in);
	int err, dir;
	const char *name = request_name(q, &at, &err);
	mode_t type;

	if (!name)
		return err;
	request_take(q, &in);
	type = in.mode & S_IFMT;
	if (type != S_IFREG && type != S_IFIFO && type != S_IFSOCK)
		return -EPERM;
	if (mode_check(in.mode) < 0)
		return -EPERM;
	dir = dir_changing(fs, q->node);
	if (dir < 0)
		return dir;
	if (mknodat(dir, name, type | (in.mode & 01777), 0) < 0)
		return -errno;
	return made(fs, q->node, name, 0, out);
}

ssize_t do_symlink(struct fs *fs, struct request *q, uint8_t *out)
{
	size_t at = 0;
	int err, dir;
	const char *name = request_name(q, &at, &err);
	const char *target = (const char *)q->arg + at;

	if (!name)
		return err;
	if (!memchr(target, '\0', q->n - at))
		return -EINVAL;
	dir = dir_changing(fs, q->node);
	if (dir < 0)
		return dir;
	if (symlinkat(target, dir, name) < 0)
		return -errno;
	return made(fs, q->node, name, 0, out);
}

/* ---- links --------------------------------------------------------------------------
 */

/* A file without a name (O_TMPFILE) gets one through its descriptor. */
static int link_nameless(struct fs *fs, const struct node *n, int dir, const char *name)
{
	char number[16];

	if (n->desc.fd < 0)
		return -ESTALE;
	if (linkat(n->desc.fd, "", dir, name, AT_EMPTY_PATH) == 0)
		return 0;
	if (fs->proc_fds < 0 || (errno != ENOENT && errno != EPERM))
		return -errno;
	snprintf(number, sizeof(number), "%d", n->desc.fd);
	return linkat(fs->proc_fds, number, dir, name, AT_SYMLINK_FOLLOW) < 0 ? -errno
									      : 0;
}

static int link_named(struct fs *fs, struct node *n, struct node *dir, const char *name)
{
	struct fs_stat st;
	int to, from, r = node_stat(fs, n, &st);

	if (r < 0)
		return r;
	r = open_two(fs, n->parent, dir, &from, &to);
	if (r < 0)
		return r;
	return linkat(from, n->name, to, name, 0) < 0 ? -errno : 0;
}

ssize_t do_link(struct fs *fs, struct request *q, uint8_t *out)
{
	struct fuse_link_in in;
	size_t at = sizeof(in);
	int err, r, dir;
	const char *name = request_name(q, &at, &err);
	struct fs_stat st;
	struct node *n;

	if (!name)
		return err;
	request_take(q, &in);
	n = node_find(fs, in.oldnodeid);
	if (!n)
		return -ESTALE;
	dir = dir_changing(fs, q->node);
	if (dir < 0)
		return dir;
	if (node_is_dir(n))
		return -EPERM;
	r = n->parent ? link_named(fs, n, q->node, name)
		      : link_nameless(fs, n, dir, name);
	if (r < 0)
		return r;
	n->whole = true; /* an overlay copied it up for this */
	if (node_stat_changed(fs, n, &st) == 0)
		fresh_changed(fs, n, &st);
	return made(fs, q->node, name, 0, out);
}

/* ---- files that are open at once -----------------------------------------------------
 */

static ssize_t answer_open(struct fs *fs, struct node *n, const struct fs_stat *st,
			   uint8_t *out)
{
	struct fuse_open_out open = {.open_flags = FOPEN_KEEP_CACHE | FOPEN_NOFLUSH};
	struct fuse_entry_out e;

	entry_fill(fs, n, st, &e);
	memcpy(out, &e, sizeof(e));
	memcpy(out + sizeof(e), &open, sizeof(open));
	return sizeof(e) + sizeof(open);
}

static int create_file(struct fs *fs, struct node *dir, const char *name, mode_t mode,
		       int *ret)
{
	int at = dir_changing(fs, dir);

	if (at < 0)
		return at;
	*ret = open_entry(fs, at, name,
			  O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, mode);
	return *ret < 0 ? *ret : 0;
}

/* It was there already: what open(2) without O_EXCL does with it. */
static ssize_t create_existing(struct fs *fs, struct request *q, const char *name,
			       uint32_t flags, uint8_t *out)
{
	struct fs_stat st;
	struct node *n;
	int dir = open_dir(fs, q->node), fd;
	int r = dir < 0 ? dir : fs_stat_at(dir, name, &st);

	if (r == 0)
		r = node_get(fs, q->node, name, &st, &n);
	if (r < 0)
		return r;
	node_hold(n);
	if (S_ISREG(n->type) && flags & O_TRUNC) {
		fd = open_file(fs, n, true);
		r = fd < 0 ? fd : ftruncate(fd, 0) < 0 ? -errno : 0;
		if (r == 0)
			r = node_stat_changed(fs, n, &st);
		if (r == 0)
			fresh_changed(fs, n, &st);
	} else if (!S_ISREG(n->type)) {
		r = -EEXIST; /* the guest looks again and sees what it is */
	}
	if (r == 0)
		r = (int)answer_open(fs, n, &st, out);
	node_drop(fs, n);
	return r;
}

ssize_t do_create(struct fs *fs, struct request *q, uint8_t *out)
{
	struct fuse_create_in in;
	size_t at = sizeof(in);
	int err, r;
	const char *name = request_name(q, &at, &err);
	cleanup_fd int fd = -1;
	struct fs_stat st;
	struct node *n;

	if (!name)
		return err;
	request_take(q, &in);
	if (mode_check(in.mode) < 0)
		return -EPERM;
	r = create_file(fs, q->node, name, in.mode & 01777, &fd);
	if (r == -EEXIST && !(in.flags & O_EXCL))
		return create_existing(fs, q, name, in.flags, out);
	if (r == 0)
		r = fs_stat_at(fd, "", &st);
	if (r < 0)
		return r;
	dir_changed(fs, q->node);
	r = node_get(fs, q->node, name, &st, &n);
	if (r < 0) {
		int dir = open_dir(fs, q->node);

		if (dir >= 0)
			unlinkat(dir, name, 0);
		return r;
	}
	desc_set(&fs->descs, &n->desc, take_fd(&fd));
	n->reads = n->writes = n->whole = true;
	return answer_open(fs, n, &st, out);
}

/* The name in the request is the kernel's own and means nothing. */
ssize_t do_tmpfile(struct fs *fs, struct request *q, uint8_t *out)
{
	struct fuse_create_in in;
	cleanup_fd int fd = -1;
	struct fs_stat st;
	struct node *n;
	int dir, r;

	request_take(q, &in);
	if (mode_check(in.mode) < 0)
		return -EPERM;
	dir = dir_changing(fs, q->node);
	if (dir < 0)
		return dir;
	fd = open_entry(fs, dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, in.mode & 01777);
	r = fd < 0 ? fd : fs_stat_at(fd, "", &st);
	if (r == 0)
		r = node_get_nameless(fs, &st, &fd, &n);
	if (r < 0)
		return r;
	n->whole = true;
	return answer_open(fs, n, &st, out);
}
