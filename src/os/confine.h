/* SPDX-License-Identifier: Apache-2.0 */
/*
 * confine - how a role gives up what it does not need: its inheritance, its privileges,
 * the file system, and all system calls but a list. For the role's own main().
 */
#ifndef COVE_OS_CONFINE_H
#define COVE_OS_CONFINE_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

/* Closes every descriptor above last_fd; no new privileges, no capability, no core file,
 * not to be traced, no further process, at most that much memory. 0 or -errno. */
int confine_alone(int last_fd, uint64_t memory_max);
/* A lower hard limit that is there already serves as well. */
void confine_limit(int what, rlim_t value);
/* No file can be opened but below dir (-1: none at all), with these LL_* rights there.
 * connect: TCP connections may still be made. -EOPNOTSUPP: this kernel has no Landlock.
 */
int confine_files(int dir, uint64_t rights, bool connect);
/* A generated filter. The sanitizers' run time needs more than the program does: there it
 * is left out. */
int confine_calls(const struct sock_filter *filter, unsigned short n);

#endif
