/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/stat.h"

#include <errno.h>
#include <linux/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* <fcntl.h> would bring in libc's stat. */
#define AT_SYMLINK_NOFOLLOW_ 0x100
#define AT_NO_AUTOMOUNT_ 0x800
#define AT_EMPTY_PATH_ 0x1000
#ifndef STATX_MNT_ID
#define STATX_MNT_ID 0x1000u
#endif

#define WANTED (STATX_BASIC_STATS | STATX_BTIME | STATX_MNT_ID)

static struct fs_time time_of(const struct statx_timestamp *t)
{
	return (struct fs_time){t->tv_sec, t->tv_nsec};
}

static uint32_t device(uint32_t major, uint32_t minor)
{
	return (minor & 0xff) | (major << 8) | ((minor & ~0xffu) << 12);
}

int fs_stat_at(int dir, const char *name, struct fs_stat *ret)
{
	int flags = AT_SYMLINK_NOFOLLOW_ | AT_NO_AUTOMOUNT_ | AT_EMPTY_PATH_;
	struct statx x;

	if (syscall(SYS_statx, dir, name, flags, WANTED, &x) < 0)
		return -errno;
	*ret = (struct fs_stat){
		.id = {.dev = (uint64_t)x.stx_dev_major << 32 | x.stx_dev_minor,
		       .ino = x.stx_ino,
		       .mount = x.stx_mnt_id},
		.size = x.stx_size,
		.blocks = x.stx_blocks,
		.mode = x.stx_mode,
		.nlink = x.stx_nlink,
		.uid = x.stx_uid,
		.gid = x.stx_gid,
		.rdev = device(x.stx_rdev_major, x.stx_rdev_minor),
		.blksize = x.stx_blksize,
		.atime = time_of(&x.stx_atime),
		.mtime = time_of(&x.stx_mtime),
		.ctime = time_of(&x.stx_ctime),
	};
	if (x.stx_mask & STATX_BTIME)
		ret->id.birth = time_of(&x.stx_btime);
	return 0;
}
