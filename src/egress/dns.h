/* SPDX-License-Identifier: Apache-2.0 */
/* dns - questions and answers as bytes. Pure. And dns_serve.c, which answers. */
#ifndef COVE_EGRESS_DNS_H
#define COVE_EGRESS_DNS_H

#include "egress/egress.h"

#define DNS_MAX 4096      /* of an answer; over UDP 1232 or what the client's EDNS says */
#define DNS_UDP_EDNS 1232 /* what fits everywhere */
#define DNS_UDP_PLAIN 512 /* without EDNS */
#define DNS_EDE_TEXT 96   /* bytes of a reason at most */

enum dns_type {
	DNS_A = 1,
	DNS_PTR = 12,
	DNS_TXT = 16,
	DNS_AAAA = 28,
	DNS_OPT = 41,
	DNS_SVCB = 64,
	DNS_HTTPS = 65,
	DNS_IXFR = 251,
	DNS_AXFR = 252,
	DNS_ANY = 255
};
enum dns_rcode {
	DNS_NOERROR,
	DNS_FORMERR,
	DNS_SERVFAIL,
	DNS_NXDOMAIN,
	DNS_NOTIMP,
	DNS_REFUSED,
	DNS_BADVERS = 16
};
enum dns_class { DNS_IN = 1 };
enum dns_ede { DNS_EDE_OTHER, DNS_EDE_BLOCKED = 15, DNS_EDE_NETWORK = 23 };

struct dns_question {
	uint16_t id, type, class;
	char name[HOST_MAX + 1]; /* normalised; "" if it is no host name (bad_name) */
	bool bad_name;
	bool recursion, has_edns;
	bool no_check, dnssec; /* CD and DO: sent back as they came */
	uint8_t edns_version;  /* only 0 is known; others get BADVERS */
	uint16_t udp_size;
	uint8_t opcode;
	size_t question_len; /* bytes of the question section, for the echo */
	const uint8_t *question;
};
/* -EPROTO: not answerable, drop; -ENOTSUP: answer NOTIMP; -EBADMSG: answer FORMERR. For
 * the last two *ret has what dns_write() needs. question points into p. */
int dns_parse(const uint8_t *p, size_t n, struct dns_question *ret);

struct dns_answer {
	unsigned rcode;
	const struct addr *addrs; /* of the question's family */
	size_t n;
	const char *ptr; /* answer to PTR: a normalised name, or NULL */
	uint32_t ttl;
	unsigned ede; /* extended error code (RFC 8914; 0 is other, if with a text) */
	const char *ede_text; /* the reason, bounded */
};
/* Bytes written, or 0 if it cannot be. truncated to max with TC set. */
size_t dns_write(const struct dns_question *q, const struct dns_answer *a, uint8_t *out,
		 size_t max);
/* The address that a name below in-addr.arpa or ip6.arpa stands for. 0 or -EINVAL. */
int dns_reverse(const char *name, struct addr *ret);

/* dns_serve.c: datagrams on fd (v4 or v6, bound to port 53 of every address), answered
 * from the address that was asked. Takes the descriptor. */
int dns_serve_udp(struct egress *e, int fd);
/* One that came by a machine's stream. */
void dns_serve_datagram(struct egress *e, const struct netmux_ends *ends,
			const uint8_t *p, size_t n);
/* A captured TCP connection to port 53: takes it over; length-prefixed messages. */
void dns_serve_tcp(struct conn *c);
/* Datagrams are no longer answered. Connections must have ended. */
void dns_stop(struct egress *e);

#endif
