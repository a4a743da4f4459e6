/* SPDX-License-Identifier: Apache-2.0 */
/*
 * content - reading regular files that somebody else may change or swap at any moment.
 * Nothing but a regular file is ever read, and the file offset is never used.
 */
#ifndef COVE_WORK_CONTENT_H
#define COVE_WORK_CONTENT_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define DIGEST_HEX 65

/* Opens name in dir; -EINVAL if it is not a regular file. st may be NULL. */
int content_open(int dir, const char *name, struct stat *st);

int content_same(int a, int b); /* 1, 0 or -errno */

/* -EFBIG if there is more than max. */
int content_digest(int fd, uint64_t max, char ret[DIGEST_HEX]);
int content_read(int fd, struct buf *out); /* up to out's cap; -ENOBUFS if larger */
int digest_of(const void *data, size_t n, char ret[DIGEST_HEX]);

/* The target of a symlink, allocated. */
int link_read(int dir, const char *name, char **ret);

#endif
