/* SPDX-License-Identifier: Apache-2.0 */
/* machine_swap - the disk that the host gave for swap, before the root covers /dev. */
#ifndef COVE_GUEST_MACHINE_SWAP_H
#define COVE_GUEST_MACHINE_SWAP_H

int machine_swap_on(void); /* -1 with errno */

#endif
