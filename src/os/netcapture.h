/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netcapture - the netlink messages that make a network namespace catch every connection.
 *
 * Theory of operation. The namespace has nothing but lo. A local route for every address
 * makes each of them ours, and one rule (tproxy, before routing) hands every TCP
 * connection that does not go to a loopback address to a listener; the accepted socket
 * still has the address that was asked for. Datagrams need no rule: a socket on the
 * wildcard address gets those to its port, and for the other ports the kernel answers
 * "refused" by itself.
 *
 * Pure: who sends the bytes (capture.c) may not allocate or call libc.
 */
#ifndef COVE_OS_NETCAPTURE_H
#define COVE_OS_NETCAPTURE_H

#include <stdbool.h>
#include <stdint.h>

/* Where the rule sends connections: addresses of lo that nothing inside uses. */
#define NETCAPTURE_ADDR4 0x7ffffffeu /* 127.255.255.254; IPv6 has only ::1 */
#define NETCAPTURE_PORT 1
/* The sandbox's own address. libc's name lookup takes a host with nothing but 127.0.0.1
 * for one without IPv4 (AI_ADDRCONFIG); this one is reserved as a dummy by RFC 7600. */
#define NETCAPTURE_OWN4 0xc0000008u /* 192.0.0.8 */

struct netcapture_batch {
	int protocol;  /* NETLINK_* */
	uint32_t acks; /* how many answers come */
	uint32_t size; /* 0: a bug, it did not fit */
	uint8_t data[1280];
};

struct netcapture {
	bool six;                              /* this kernel has IPv6 */
	struct netcapture_batch routes, rules; /* to be sent in this order, lo being up */
};

/* six: whether there is IPv6 to catch, see netcapture_has_ipv6(). */
void netcapture_build(struct netcapture *n, bool six);
bool netcapture_has_ipv6(void);

#endif
