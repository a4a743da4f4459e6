/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_unpack - undoes compression, with the programs of the host. */
#ifndef COVE_VM_KERNEL_UNPACK_H
#define COVE_VM_KERNEL_UNPACK_H

#include "vm/modules.h"

/* Appends the unpacked bytes to out, whose cap holds. */
int unpack_bytes(enum module_packing packing, const void *data, size_t n, struct buf *out,
		 struct cove_error *err);

/* The tree of a .deb as one tar archive, in an unnamed file below dir. tick (or NULL) is
 * told meanwhile how large it is. */
int unpack_deb(const char *deb, const char *dir, int *ret_fd,
	       void (*tick)(void *arg, uint64_t bytes), void *arg,
	       struct cove_error *err);

#endif
