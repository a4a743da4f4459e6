/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COVE_TESTS_EVIL_GUEST_H
#define COVE_TESTS_EVIL_GUEST_H

/* Of a machine whose first process we are: the link, once the host has said something. */
int evil_machine_link(void);

#endif
