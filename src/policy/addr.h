/* SPDX-License-Identifier: Apache-2.0 */
/* addr - IP addresses, their classes, and prefixes. Pure. */
#ifndef COVE_POLICY_ADDR_H
#define COVE_POLICY_ADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define ADDR_TEXT 48

/* Always in 16 bytes: an IPv4 address is ::ffff:a.b.c.d here, so that mapped forms cannot
 * be another address. */
struct addr {
	uint8_t b[16];
};

struct prefix {
	struct addr addr;
	uint8_t bits; /* of the 128: a /8 of IPv4 is 104 */
};

/* What an address is, the reason why a name may not resolve to it. NAT64 (64:ff9b::/96,
 * 64:ff9b:1::/48), 6to4 and Teredo forms are classed by the IPv4 address that they
 * carry. */
enum addr_class {
	ADDR_PUBLIC,
	ADDR_UNSPECIFIED, /* 0.0.0.0/8, :: */
	ADDR_LOOPBACK,
	ADDR_LINK_LOCAL, /* 169.254/16, fe80::/10 */
	ADDR_METADATA, /* 169.254.169.254, fd00:ec2::254, ... before LINK_LOCAL and ULA */
	ADDR_PRIVATE,  /* RFC 1918 */
	ADDR_SHARED,   /* 100.64/10 */
	ADDR_ULA,
	ADDR_MULTICAST,
	ADDR_RESERVED, /* documentation, benchmarking, broadcast, 240/4, ... */
	ADDR_SELF,     /* one of this host's own; only policy_address() says so */
};
const char *addr_class_name(enum addr_class c); /* "loopback", "metadata", ... */
enum addr_class addr_classify(const struct addr *a);
/* The IPv4 addresses that an IPv6 address carries, by its form; how many. */
#define ADDR_INNER_MAX 12
size_t addr_inner(const struct addr *a, struct addr ret[ADDR_INNER_MAX]);

bool addr_is_v4(const struct addr *a);
int addr_parse(const char *text, struct addr *ret); /* no scope ids; 0 or -EINVAL */
const char *addr_text(const struct addr *a, char out[ADDR_TEXT]);
int prefix_parse(const char *text, struct prefix *ret); /* with or without "/BITS" */
bool prefix_has(const struct prefix *p, const struct addr *a);
bool addr_equal(const struct addr *a, const struct addr *b);

int addr_from_sockaddr(const struct sockaddr *sa, struct addr *ret, uint16_t *ret_port);
/* IPv4 as AF_INET, others as AF_INET6. */
socklen_t addr_to_sockaddr(const struct addr *a, uint16_t port,
			   struct sockaddr_storage *ret);

#endif
