/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netwho - whose connection is it? Answered by a thread of its own: to look through the
 * descriptors of every process takes its time, and connections must not stand still.
 *
 * What it says goes to the host, which judges by it. The host cannot look for itself, so
 * a machine's root, who can change our memory, can say here what he likes: what depends
 * on who connects is as strong as the machine's own separation of its users.
 */
#ifndef COVE_GUEST_NETWHO_H
#define COVE_GUEST_NETWHO_H

#include "ipc/netmux.h"

/* Starts the thread. diag: a NETLINK_SOCK_DIAG socket, taken over. A socket for the two
 * calls below, readable when there is an answer; or -errno. */
int netwho_start(int *diag);
int netwho_ask(int fd, uint32_t id, const struct netmux_ends *e); /* 0, -EAGAIN: busy */
int netwho_answer(int fd, uint32_t *ret_id, struct netmux_who *ret); /* 0, -EAGAIN */

#endif
