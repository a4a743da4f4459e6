/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture - makes a network namespace catch every connection (os/netcapture.h), and opens
 * the sockets that get them: from outside for a sandbox of processes, inside a machine by
 * its first process.
 *
 * Raw system calls only (os/raw.h): the child of a vfork-like clone calls this.
 */
#ifndef COVE_OS_CAPTURE_H
#define COVE_OS_CAPTURE_H

#include "os/netcapture.h"

/* Two listeners that get every TCP connection (getsockname() of an accepted one is what
 * the program asked for), two that get every datagram to port 53, and one that can be
 * asked who has a socket there. All but the last are non-blocking. */
enum capture_socket {
	CAPTURE_TCP4,
	CAPTURE_TCP6,
	CAPTURE_UDP4,
	CAPTURE_UDP6,
	CAPTURE_DIAG,
	CAPTURE_COUNT
};

/* In a namespace where lo is up. 0 or -errno; then fds are not set. */
long capture_open(const struct netcapture *n, int fds[CAPTURE_COUNT]);
/* Its two steps: the first once, the second again whenever they were closed. */
long capture_rules(const struct netcapture *n);
long capture_sockets(bool six, int fds[CAPTURE_COUNT]);

#endif
