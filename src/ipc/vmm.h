/* SPDX-License-Identifier: Apache-2.0 */
/* vmm - what cove-vmm and the backend agree on. */
#ifndef COVE_IPC_VMM_H
#define COVE_IPC_VMM_H

#define VMM_CONSOLE_MAX 16384 /* of the console is kept */
#define VMM_STATUS_MAX 64     /* "running", "exit N" or "signal N", and a newline */

#endif
