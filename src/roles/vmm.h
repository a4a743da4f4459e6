/* SPDX-License-Identifier: Apache-2.0 */
/* vmm - what the files of cove-vmm share. */
#ifndef COVE_ROLES_VMM_H
#define COVE_ROLES_VMM_H

/* In the process that becomes QEMU: from here on, who holds the returned descriptor (-1:
 * errno) answers every open that is not read-only. */
int vmm_open_watch(void);
void vmm_open_answer(int listener); /* one question, when it is readable */

#endif
