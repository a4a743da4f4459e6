/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xattr - extended attributes. The calls that take a directory descriptor are too new
 * (Linux 6.13), so the process moves to the directory and names the entry from there: it
 * has one thread, and no path of it depends on where it stands.
 */
#include "base/util.h"
#include "fs/fresh.h"
#include "fs/impl.h"

#include <linux/limits.h>
#include <sys/stat.h>
#include <sys/xattr.h>

/* Where the l*xattr() calls find the node; fd >= 0: by the f*xattr() calls. */
struct place {
	int fd;
	const char *path;
};

static int place_of(struct fs *fs, struct node *n, struct place *ret)
{
	int dir;

	*ret = (struct place){.fd = -1, .path = "."};
	if (n->type == S_IFREG && n->desc.fd >= 0 && (n->reads || n->writes)) {
		ret->fd = n->desc.fd;
		return 0;
	}
	if (n->device->hidden)
		return -EOPNOTSUPP;
	if (n->parent)
		ret->path = n->name;
	else if (n != fs->nodes.root)
		return -ESTALE;
	dir = open_dir(fs, n->parent ? n->parent : n);
	if (dir < 0)
		return dir;
	return fchdir(dir) < 0 ? -errno : 0;
}

/* The name of an attribute at *at; not one of a file. */
static const char *attribute(const struct request *q, size_t *at)
{
	const char *name = (const char *)q->arg + *at;
	const char *end = memchr(name, '\0', q->n - *at);

	if (!end || end == name || end - name > XATTR_NAME_MAX)
		return NULL;
	*at += (size_t)(end - name) + 1;
	return name;
}

static void changed(struct fs *fs, struct node *n)
{
	struct fs_stat st;

	if (node_stat_changed(fs, n, &st) == 0)
		fresh_changed(fs, n, &st);
}

ssize_t do_setxattr(struct fs *fs, struct request *q, uint8_t *out)
{
	struct fuse_setxattr_in in;
	size_t at = FUSE_COMPAT_SETXATTR_IN_SIZE;
	const uint8_t *value;
	const char *name = attribute(q, &at);
	struct place p;
	int r;

	(void)out;
	memcpy(&in, q->arg, FUSE_COMPAT_SETXATTR_IN_SIZE);
	if (!name || in.size > q->n - at)
		return -EINVAL;
	value = q->arg + at;
	r = place_of(fs, q->node, &p);
	if (r < 0)
		return r;
	r = p.fd >= 0 ? fsetxattr(p.fd, name, value, in.size, (int)in.flags)
		      : lsetxattr(p.path, name, value, in.size, (int)in.flags);
	if (r < 0)
		return -errno;
	changed(fs, q->node);
	return 0;
}

/* With size 0 the guest asks how long it is, and gets that instead of the value. */
static ssize_t sized(ssize_t n, uint32_t asked, uint8_t *out)
{
	struct fuse_getxattr_out answer = {0};

	if (n < 0)
		return -errno;
	if (asked)
		return n;
	answer.size = (uint32_t)n;
	memcpy(out, &answer, sizeof(answer));
	return sizeof(answer);
}

ssize_t do_getxattr(struct fs *fs, struct request *q, uint8_t *out)
{
	struct fuse_getxattr_in in;
	size_t at = sizeof(in), room;
	const char *name = attribute(q, &at);
	struct place p;
	int r;

	request_take(q, &in);
	if (!name)
		return -EINVAL;
	if (strncmp(name, "security.", 9) == 0)
		return -ENODATA; /* those of the host say nothing about the guest */
	r = place_of(fs, q->node, &p);
	if (r < 0)
		return r;
	room = min_size(in.size, XATTR_SIZE_MAX);
	return sized(p.fd >= 0 ? fgetxattr(p.fd, name, out, room)
			       : lgetxattr(p.path, name, out, room),
		     in.size, out);
}

ssize_t do_listxattr(struct fs *fs, struct request *q, uint8_t *out)
{
	struct fuse_getxattr_in in;
	struct place p;
	size_t room;
	int r;

	request_take(q, &in);
	r = place_of(fs, q->node, &p);
	if (r < 0)
		return r;
	room = min_size(in.size, XATTR_LIST_MAX);
	return sized(p.fd >= 0 ? flistxattr(p.fd, (char *)out, room)
			       : llistxattr(p.path, (char *)out, room),
		     in.size, out);
}

ssize_t do_removexattr(struct fs *fs, struct request *q, uint8_t *out)
{
	size_t at = 0;
	const char *name = attribute(q, &at);
	struct place p;
	int r;

	(void)out;
	if (!name)
		return -EINVAL;
	r = place_of(fs, q->node, &p);
	if (r < 0)
		return r;
	r = p.fd >= 0 ? fremovexattr(p.fd, name) : lremovexattr(p.path, name);
	if (r < 0)
		return -errno;
	changed(fs, q->node);
	return 0;
}
