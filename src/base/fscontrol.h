/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fscontrol - what whoever saves a machine says to the server of its files: one letter in
 * a packet, answered by an int32_t, 0 or -errno.
 */
#ifndef COVE_BASE_FSCONTROL_H
#define COVE_BASE_FSCONTROL_H

enum fs_control {
	FS_HOLD = 'h',    /* tell the guest nothing; answered when it has heard all */
	FS_SAVE = 's',    /* the tables, while the guest is quiet too */
	FS_RELEASE = 'r', /* tell it again */
	FS_SETTLE =
		'w', /* answered when the guest knows of all that is not as it was told */
};

#endif
