/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpio - writes an archive in the "newc" format, the one that a Linux kernel unpacks into
 * its first root file system. Pure.
 *
 * The same calls give the same bytes: no times, numbered inodes, everything is root's.
 * The first failure sticks and is told by cpio_end().
 */
#ifndef COVE_VM_CPIO_H
#define COVE_VM_CPIO_H

#include "base/buf.h"

#include <stdint.h>

struct cpio {
	struct buf *out;
	uint32_t inode;
	int error; /* 0 or -errno */
};

struct cpio cpio_begin(struct buf *out);
/* Paths are relative, parents come before what is in them; mode: permission bits. */
void cpio_dir(struct cpio *c, const char *path, uint32_t mode);
void cpio_file(struct cpio *c, const char *path, uint32_t mode, const void *data,
	       size_t n);
void cpio_device(struct cpio *c, const char *path, uint32_t mode, uint32_t major,
		 uint32_t minor); /* a character device */
int cpio_end(struct cpio *c);     /* 0 or -errno */

#endif
