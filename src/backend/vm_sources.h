/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm_sources - the lower directories of a machine's overlays, for cove-fs to watch (see
 * fs/watch.h): the host changes them, and the guest is told at once.
 */
#ifndef COVE_BACKEND_VM_SOURCES_H
#define COVE_BACKEND_VM_SOURCES_H

#include "backend/backend.h"
#include "backend/proc_internal.h"

/* Of further overlays the guest looks again after a second. */
#define VM_SOURCES_MAX (PROC_FDS_MAX - 3)

struct vm_sources {
	size_t n;
	int fd[VM_SOURCES_MAX];
	const char *argv[VM_SOURCES_MAX + 3];
};

/* Opens them; the arguments of cove-fs that go with the descriptors. how: see
 * roles/fs.c; NULL: as ever. */
const char *const *vm_sources_argv(struct vm_sources *s, const struct place_config *c,
				   const char *how);
void vm_sources_close(struct vm_sources *s);

#define cleanup_sources __attribute__((cleanup(vm_sources_close)))

#endif
