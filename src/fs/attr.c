/* SPDX-License-Identifier: Apache-2.0 */
/* attr - what the guest is told about a file, and the devices that files lie on. */
#include "base/util.h"
#include "fs/fresh.h"
#include "fs/impl.h"
#include "fs/watch.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>

/* ---- devices ------------------------------------------------------------------------
 */

/* File systems that are the kernel's (or a driver's) own face. */
static const uint32_t faces[] = {
	PROC_SUPER_MAGIC,
	SYSFS_MAGIC,
	DEVPTS_SUPER_MAGIC,
	CGROUP_SUPER_MAGIC,
	CGROUP2_SUPER_MAGIC,
	DEBUGFS_MAGIC,
	TRACEFS_MAGIC,
	SECURITYFS_MAGIC,
	SELINUX_MAGIC,
	SMACK_MAGIC,
	BPF_FS_MAGIC,
	NSFS_MAGIC,
	BINFMTFS_MAGIC,
	BINDERFS_SUPER_MAGIC,
	EFIVARFS_MAGIC,
	PSTOREFS_MAGIC,
	0x07655821, /* resctrl */
	USBDEVICE_SUPER_MAGIC,
	0x62656570, /* configfs */
	0x19800202, /* mqueue */
	0x65735543, /* fusectl */
	0x5a3c69f0, /* aafs: apparmor's */
	0x67596969, /* rpc_pipefs */
	0x6e667364, /* nfsd */
};

static bool is_face(uint64_t type)
{
	for (size_t i = 0; i < ARRAY_LEN(faces); i++)
		if (faces[i] == (uint32_t)type)
			return true;
	return false;
}

/* The device table never shrinks: a tree has as many as it has mounts, and more than
 * DEVICES_MAX are not served. dir < 0: only if it is known already. */
const struct device *device_of(struct fs *fs, int dir, const char *name, uint64_t dev)
{
	struct nodes *all = &fs->nodes;
	struct statfs s;
	struct device *d;
	int fd, r;

	for (uint32_t i = 0; i < all->n_devices; i++)
		if (all->device[i].dev == dev)
			return &all->device[i];
	if (dir < 0 || all->n_devices == DEVICES_MAX)
		return NULL;
	fd = *name ? openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC)
		   : fcntl(dir, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return NULL;
	r = fstatfs(fd, &s);
	close(fd);
	if (r < 0)
		return NULL;
	d = &all->device[all->n_devices];
	*d = (struct device){.dev = dev, .index = all->n_devices++};
	d->overlay = (uint32_t)s.f_type == OVERLAYFS_SUPER_MAGIC;
	d->hidden = is_face((uint64_t)s.f_type);
	d->brief = d->hidden || (uint32_t)s.f_type == TMPFS_MAGIC;
	return d;
}

/* ---- attributes ----------------------------------------------------------------------
 */

/* Numbers of several file systems in one: the device's index goes to the upper bits. Few
 * file systems use those (an overlay does, for the same purpose: there they are mixed).
 */
uint64_t attr_ino(const struct device *d, uint64_t ino)
{
	return ino ^ (uint64_t)d->index << 48;
}

void attr_fill(const struct fs *fs, const struct node *n, const struct fs_stat *st,
	       struct fuse_attr *ret)
{
	(void)fs;
	*ret = (struct fuse_attr){
		.ino = attr_ino(n->device, st->id.ino),
		.size = st->size,
		.blocks = st->blocks,
		.atime = (uint64_t)st->atime.sec,
		.mtime = (uint64_t)st->mtime.sec,
		.ctime = (uint64_t)st->ctime.sec,
		.atimensec = st->atime.nsec,
		.mtimensec = st->mtime.nsec,
		.ctimensec = st->ctime.nsec,
		.mode = st->mode,
		.nlink = st->nlink,
		.uid = st->uid,
		.gid = st->gid,
		.rdev = st->rdev,
		.blksize = st->blksize,
	};
}

void entry_fill(struct fs *fs, struct node *n, const struct fs_stat *st,
		struct fuse_entry_out *ret)
{
	if (fs->for_template) /* so that the guest may keep its name for long */
		watch_dir(fs, n);
	*ret = (struct fuse_entry_out){
		.nodeid = node_number(fs, n),
		.entry_valid = fresh_entry(fs, n, st),
		.attr_valid = watch_file(fs, n) ? 0 : fresh_attr(fs, n, st),
	};
	attr_fill(fs, n, st, &ret->attr);
	fresh_told(fs, n, st);
	n->lookups++;
}

ssize_t attr_answer(struct fs *fs, struct node *n, const struct fs_stat *st, uint8_t *out)
{
	struct fuse_attr_out a = {.attr_valid = fresh_attr(fs, n, st)};

	attr_fill(fs, n, st, &a.attr);
	fresh_told(fs, n, st);
	memcpy(out, &a, sizeof(a));
	return sizeof(a);
}

ssize_t entry_answer(struct fs *fs, struct node *dir, const char *name, uint8_t *out)
{
	struct fuse_entry_out e;
	struct fs_stat st;
	struct node *n;
	int fd = open_dir(fs, dir);
	int r = fd < 0 ? fd : fs_stat_at(fd, name, &st);

	if (r == 0)
		r = node_get(fs, dir, name, &st, &n);
	if (r < 0)
		return r;
	entry_fill(fs, n, &st, &e);
	memcpy(out, &e, sizeof(e));
	return sizeof(e);
}
