/* SPDX-License-Identifier: Apache-2.0 */
/* vmm - what the files of cove-vmm share. */
#ifndef COVE_ROLES_VMM_H
#define COVE_ROLES_VMM_H

/* In the process that becomes QEMU: what only we need is gone (vm/monitor.seccomp serves
 * both). 0, or -1 with errno. */
int vmm_leave_to_us(void);
/* The same: from here on, who holds the returned descriptor (-1:
 * errno) answers every open that is not read-only. */
int vmm_open_watch(void);
/* Its memory file is this descriptor, as it is, whatever lies at the name. */
void vmm_open_memory(int fd);
void vmm_open_answer(int listener); /* one question, when it is readable */

#endif
