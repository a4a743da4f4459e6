/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io - whole reads, whole writes, whole files. Leaf helpers: they return -errno.
 */
#ifndef COVE_BASE_IO_H
#define COVE_BASE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct buf;

int write_all(int fd, const void *data, size_t n); /* blocking; 0 or -errno */

/* Appends what can be read to b, up to b's cap (-ENOBUFS when the file is larger). */
int read_fd(int fd, struct buf *b);
int read_file_at(int dirfd, const char *name, struct buf *b);

/* Writes name so that a crash leaves the old or the new content, never a mixture:
 * temporary file, fsync, rename, fsync of the directory. sync=0 skips both fsyncs (for
 * files that may be lost with the host, not with the process). */
int write_file_atomic(int dirfd, const char *name, const void *data, size_t n,
		      mode_t mode, int sync);

/* The same for a name in a directory that is given by its path. */
int write_file_in(const char *dir, const char *name, const void *data, size_t n,
		  mode_t mode, int sync);

/* Is it a relative path that stays below where it starts: names of 1 to 255 bytes, none
 * of them "." or "..", with single slashes between them? */
bool path_stays_below(const char *path);

/* renameat2(2), which not every C library has; flags are those of <linux/fs.h>. -errno.
 */
int rename_at(int from_dir, const char *from, int to_dir, const char *to, unsigned flags);

/* One short write to an existing file (a cgroup or proc knob). */
int write_knob_at(int dirfd, const char *name, const char *text);

int mkdir_p(const char *path, mode_t mode);

/* Removes name below dirfd with everything in it, never following a symlink and never
 * leaving the file system it starts on. A missing name is success. */
int remove_tree_at(int dirfd, const char *name);

#endif
