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
/* mounts: the MOUNT attributes of SETUP, NULL-terminated. disk: the root is on one, and
 * only mounts come over the port. NULL, or what failed, with errno. Afterwards "/" is the
 * sandbox's, and files we touch are touched as this user. */
const char *machine_root(int port, bool disk, const struct machine_user *user,
			 char **mounts);
int machine_loopback(void);

#endif
