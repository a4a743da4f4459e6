/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seccomp - the system-call filter for everything that runs inside a sandbox.
 *
 * The program is made at build time from guest.seccomp by tools/seccomp-gen and only
 * pointed at here, so that installing it after the clone is one system call without
 * allocation. It wants no_new_privs (or CAP_SYS_ADMIN) set before.
 */
#ifndef COVE_OS_SECCOMP_H
#define COVE_OS_SECCOMP_H

#include <linux/filter.h>

/* Static and never written to. */
const struct sock_fprog *seccomp_guest_program(void);

/* SHA-256 of the instructions in hex: which filter this build enforces. */
const char *seccomp_guest_digest(void);

#endif
