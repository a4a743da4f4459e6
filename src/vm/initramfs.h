/* SPDX-License-Identifier: Apache-2.0 */
/*
 * initramfs - the first root file system of a machine: cove-guest as /init, the modules
 * and the order in which to load them. Pure, and the same for the same input.
 */
#ifndef COVE_VM_INITRAMFS_H
#define COVE_VM_INITRAMFS_H

#include "base/buf.h"

#include <stdbool.h>

#define INITRAMFS_MAX (512u << 20)

struct initramfs_module {
	const char *name; /* "fuse.ko" */
	const void *data;
	size_t size;
};

int initramfs_build(struct buf *out, const void *guest, size_t guest_size,
		    const struct initramfs_module *v, size_t n); /* -errno */

/* There is nothing beside it in there: it must be a program that needs no loader. */
bool initramfs_can_start(const void *guest, size_t n);

#endif
