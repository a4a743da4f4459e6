/* SPDX-License-Identifier: Apache-2.0 */
/* machine_disk - the disks that the host gave a machine, before the root covers /dev. */
#ifndef COVE_GUEST_MACHINE_DISK_H
#define COVE_GUEST_MACHINE_DISK_H

#include <stddef.h>

/* "vda", by what the host named it. -1 with errno. */
int machine_disk_find(const char *serial, char *out, size_t size);

/* The window of base/fusemsg.h, open; -1: this machine has none. */
int machine_window(void);

void machine_swap_find(void);
int machine_swap_on(void); /* later, and once. -1 with errno */

/* Mounts the image's root file system with the sandbox's layer on it at `root`. NULL, or
 * what failed, with errno. */
const char *machine_disk_root(const char *root);
/* What was written there is on the disk. */
void machine_disk_sync(void);

#endif
