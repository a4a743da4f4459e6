/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stat - statx(2) in one structure of our own: the kernel's header for it does not go
 * together with libc's <sys/stat.h>, so only stat.c includes it.
 */
#ifndef COVE_FS_STAT_H
#define COVE_FS_STAT_H

#include <stdbool.h>
#include <stdint.h>

struct fs_time {
	int64_t sec;
	uint32_t nsec;
};

/* What makes a file this file. The birth time tells a reused inode number from the file
 * that had it before; it is 0 where the file system keeps none. The mount matters because
 * the same file may be read-only under one and writable under another. */
struct fs_ident {
	uint64_t dev, ino, mount;
	struct fs_time birth;
};

struct fs_stat {
	struct fs_ident id;
	uint64_t size, blocks;
	uint32_t mode, nlink, uid, gid, rdev, blksize;
	struct fs_time atime, mtime, ctime;
};

/* An entry of a directory, never what a symlink points to; name "": dir itself. -errno.
 */
int fs_stat_at(int dir, const char *name, struct fs_stat *ret);

static inline bool fs_time_equal(struct fs_time a, struct fs_time b)
{
	return a.sec == b.sec && a.nsec == b.nsec;
}

static inline bool fs_ident_equal(const struct fs_ident *a, const struct fs_ident *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->mount == b->mount &&
	       fs_time_equal(a->birth, b->birth);
}

#endif
