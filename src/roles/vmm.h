/* SPDX-License-Identifier: Apache-2.0 */
/* vmm - what the files of cove-vmm share. */
#ifndef COVE_ROLES_VMM_H
#define COVE_ROLES_VMM_H

#include <stdbool.h>

/* What a template's memory is in QEMU; vm/monitor.seccomp knows it. */
#define VMM_MEMORY_FD 500

/* In the process that becomes QEMU: what only we need is gone (vm/monitor.seccomp serves
 * both). 0, or -1 with errno. */
int vmm_leave_to_us(void);
/* What QEMU may open for writing, see vmm_open.c. */
struct vmm_open {
	bool shared;  /* its memory file is one that others map too */
	int ram;      /* its memory file, whatever lies at the name; -1: that */
	int kvm;      /* /dev/kvm, opened by who may; -1: none */
	int listener; /* where it asks; -1: nothing is asked of us */
};

/* The same: from here on every open that is not read-only is asked of who holds the
 * listener, where that matters. 0, or -1 with errno. */
int vmm_open_watch(struct vmm_open *o);
void vmm_open_answer(const struct vmm_open *o); /* one question, when it is readable */

#endif
