/* SPDX-License-Identifier: Apache-2.0 */
/* netpump - a machine's connections, out over a port to the host. */
#ifndef COVE_GUEST_NETPUMP_H
#define COVE_GUEST_NETPUMP_H

#include "ipc/netmux.h"

/* Brings lo up, makes the kernel catch every connection, and carries them from now on, in
 * a thread of its own. Takes over the port. 0 or -errno. */
int netpump_start(int port_fd);
/* After netpump_start(), when the machine goes on from a saved state and the host's end
 * is another one: every connection is reset, and the stream begins anew with these bytes.
 * 0 or -errno. */
int netpump_restart(const uint8_t nonce[NETMUX_NONCE]);

#endif
