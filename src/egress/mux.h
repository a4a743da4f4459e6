/* SPDX-License-Identifier: Apache-2.0 */
/* mux - what of a machine's stream is no connection: datagrams, and who somebody is. */
#ifndef COVE_EGRESS_MUX_H
#define COVE_EGRESS_MUX_H

#include "egress/egress.h"

/* Answers a datagram; lost if there is no room, as datagrams are. */
void mux_dgram(struct egress *e, const struct netmux_ends *ends, const uint8_t *p,
	       size_t n);
/* Asks the guest, which answers with control_guest_says(). 0, -ENOBUFS. */
int mux_who(struct egress *e, uint32_t id, const struct netmux_ends *ends);

#endif
