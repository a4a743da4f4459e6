/* SPDX-License-Identifier: Apache-2.0 */
/* userns - a user namespace that exists only as a descriptor, for id-mapped mounts. */
#ifndef COVE_OS_USERNS_H
#define COVE_OS_USERNS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The process that held a namespace until it was opened: killed, but not waited for,
 * because that takes as long as all the rest. */
struct userns_holder {
	pid_t pid; /* 0: none */
	char *stack;
};

/* A namespace that maps uid -> host_uid and gid -> host_gid, one id each. Needs
 * CAP_SETUID and CAP_SETGID. A descriptor, or -errno; *ret_holder is to be reaped later
 * either way. */
int userns_open(uid_t uid, uid_t host_uid, gid_t gid, gid_t host_gid,
		struct userns_holder *ret_holder);
void userns_reap(struct userns_holder *h);

/* Writes the one-line maps of a process in a new user namespace. 0 or -errno. */
int userns_write_maps(pid_t pid, uid_t uid, uid_t host_uid, gid_t gid, gid_t host_gid);

/* Does this process hold the capability in the initial user namespace's sense: that is,
 * may it mount and map ids outside any namespace of its own? */
bool have_sys_admin(void);

#endif
