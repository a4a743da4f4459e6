/* SPDX-License-Identifier: Apache-2.0 */
/* machine_root - the root file system of a machine: what the host serves, and what is
 * the guest's own on top of it. */
#ifndef COVE_GUEST_MACHINE_ROOT_H
#define COVE_GUEST_MACHINE_ROOT_H

#include <stdbool.h>
#include <sys/types.h>

struct machine_user {
	uid_t uid;
	gid_t gid;
};

/* Before the host is there, and once: what every sandbox needs. NULL, or what failed,
 * with errno. */
const char *machine_root_prepare(void);
/* mounts: MOUNT attributes, NULL-terminated. disk: the root is on one, and only mounts
 * come over the port. NULL, or what failed, with errno. Afterwards "/" is the sandbox's;
 * what is its alone is missing yet. */
const char *machine_root(int port, bool disk, const struct machine_user *user,
			 char **mounts);
/* The rest: mounts as before, and an identity. NULL, or what failed, with errno. Files we
 * touch afterwards are touched as this user. */
const char *machine_root_finish(const struct machine_user *user, char **mounts);
int machine_root_rename(void); /* an identity that is new again; -1 with errno */
int machine_loopback(void);

#endif
