/* SPDX-License-Identifier: Apache-2.0 */
/*
 * change - SETATTR: mode, owner, size and times of a file.
 *
 * There is one user here, so an owner can only be changed to what it is (EPERM). Bits
 * that would let a program run as somebody else are refused: on the host this is an
 * ordinary file of the caller.
 */
#include "base/util.h"
#include "fs/fresh.h"
#include "fs/impl.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

int mode_check(uint32_t mode)
{
	return mode & (S_ISUID | S_ISGID) ? -EPERM : 0;
}

/* fchmodat2 (Linux 6.6) follows no symlink. Before it there is only fchmodat, which
 * would follow one that the host puts there in this very moment. */
static int change_named_mode(struct fs *fs, struct node *n, mode_t mode)
{
	int dir = open_dir(fs, n->parent);

	if (dir < 0)
		return dir;
	if (syscall(SYS_fchmodat2, dir, n->name, mode, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (errno != ENOSYS)
		return -errno;
	return fchmodat(dir, n->name, mode, 0) < 0 ? -errno : 0;
}

static int change_mode(struct fs *fs, struct node *n, uint32_t mode)
{
	if (mode_check(mode) < 0)
		return -EPERM;
	if (S_ISLNK(n->type))
		return -EOPNOTSUPP;
	if (n->desc.fd >= 0 && n->type == S_IFREG && (n->reads || n->writes))
		return fchmod(n->desc.fd, mode & 01777) < 0 ? -errno : 0;
	if (n->parent)
		return change_named_mode(fs, n, mode & 01777);
	if (n->desc.fd < 0)
		return -ESTALE;
	return syscall(SYS_fchmodat2, n->desc.fd, "", mode & 01777, AT_EMPTY_PATH) < 0
		       ? -errno
		       : 0;
}

static int change_owner(struct fs *fs, struct node *n, const struct fuse_setattr_in *in)
{
	uid_t uid = in->valid & FATTR_UID ? in->uid : (uid_t)-1;
	gid_t gid = in->valid & FATTR_GID ? in->gid : (gid_t)-1;
	const char *name;
	int dir = open_at(fs, n, &name);

	if (dir < 0)
		return dir;
	if (fchownat(dir, name, uid, gid, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) == 0)
		return 0;
	return errno == EINVAL ? -EPERM : -errno; /* an id that is not mapped */
}

static int change_size(struct fs *fs, struct node *n, uint64_t size)
{
	int fd = open_file(fs, n, true);

	if (fd < 0)
		return fd;
	if (size > INT64_MAX)
		return -EFBIG;
	return ftruncate(fd, (off_t)size) < 0 ? -errno : 0;
}

static struct timespec new_time(uint32_t valid, uint32_t set, uint32_t now, uint64_t sec,
				uint32_t nsec)
{
	if (valid & now)
		return (struct timespec){.tv_nsec = UTIME_NOW};
	if (!(valid & set))
		return (struct timespec){.tv_nsec = UTIME_OMIT};
	if (nsec >= 1000000000u)
		nsec = 0; /* never one of the two special values */
	return (struct timespec){.tv_sec = (time_t)sec, .tv_nsec = nsec};
}

static int change_times(struct fs *fs, struct node *n, const struct fuse_setattr_in *in)
{
	struct timespec t[2] = {
		new_time(in->valid, FATTR_ATIME, FATTR_ATIME_NOW, in->atime,
			 in->atimensec),
		new_time(in->valid, FATTR_MTIME, FATTR_MTIME_NOW, in->mtime,
			 in->mtimensec),
	};
	const char *name;
	int dir = open_at(fs, n, &name);

	if (dir < 0)
		return dir;
	return utimensat(dir, name, t, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0 ? -errno
										: 0;
}

static int change_all(struct fs *fs, struct node *n, const struct fuse_setattr_in *in)
{
	uint32_t times = FATTR_ATIME | FATTR_MTIME | FATTR_ATIME_NOW | FATTR_MTIME_NOW;
	int r = 0;

	if (in->valid & (FATTR_UID | FATTR_GID))
		r = change_owner(fs, n, in);
	if (r == 0 && in->valid & FATTR_MODE)
		r = change_mode(fs, n, in->mode);
	if (r == 0 && in->valid & FATTR_SIZE)
		r = change_size(fs, n, in->size);
	if (r == 0 && in->valid & times)
		r = change_times(fs, n, in);
	return r;
}

ssize_t do_setattr(struct fs *fs, struct request *q, uint8_t *out)
{
	struct fuse_setattr_in in;
	struct fs_stat st;
	int r;

	request_take(q, &in);
	if (q->node->device->hidden)
		return -EPERM;
	r = node_stat(fs, q->node, &st);
	if (r < 0)
		return r;
	fresh_compare(fs, q->node, &st);
	r = change_all(fs, q->node, &in);
	if (r == 0)
		r = node_stat_changed(fs, q->node, &st);
	if (r < 0)
		return r;
	fresh_changed(fs, q->node, &st);
	return attr_answer(fs, q->node, &st, out);
}
