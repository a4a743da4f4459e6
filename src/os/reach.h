/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reach - looking at files of our own that their modes close even to us.
 *
 * A sandbox may leave a file or directory of mode 0 behind. It belongs to the user, but
 * only root, or its owner after a chmod, can read it; and a chmod of what is only to be
 * copied would be lost work if we were killed before we take it back. So the call is made
 * again by a helper that is root in a user namespace of its own, in which there is nobody
 * but this user: it may read all of his files, and nobody else's.
 *
 * Each is the call of the same name, and returns -errno.
 */
#ifndef COVE_OS_REACH_H
#define COVE_OS_REACH_H

#include <sys/stat.h>
#include <sys/types.h>

int reach_openat(int dir, const char *name, int flags); /* to read; close-on-exec */
int reach_lstat(int dir, const char *name, struct stat *ret);
ssize_t reach_readlink(int dir, const char *name, char *out, size_t n);
ssize_t reach_getxattr(int fd, const char *name, void *out, size_t n);

#endif
