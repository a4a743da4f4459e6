/* SPDX-License-Identifier: Apache-2.0 */
/* dns_impl - what dns_serve.c, dns_udp.c and dns_tcp.c know of each other. */
#ifndef COVE_EGRESS_DNS_IMPL_H
#define COVE_EGRESS_DNS_IMPL_H

#include "egress/dns.h"
#include "egress/lookup.h"

#include <sodium/crypto_shorthash.h>

#define DNS_QUESTION_MAX 259    /* bytes: a name of 255, type and class */
#define DNS_PENDING_MAX 512     /* questions that wait for upstream; then SERVFAIL */
#define DNS_DENIALS 1024        /* names whose refusal was recorded lately */
#define DNS_DENIAL_MS 60000     /* not recorded again within that */
#define DNS_DENIALS_A_SECOND 20 /* recorded; of others only how many */

struct dns_udp;
struct dns_state {
	struct egress *egress;
	struct dns_udp *udp[2];
	unsigned n_udp, pending;
	struct {
		uint64_t hash;
		int64_t at_ms;
	} denied[DNS_DENIALS];
	uint8_t key[crypto_shorthash_KEYBYTES];
	unsigned recorded, not_recorded; /* in this second */
	struct timer second;
};
/* NULL: no memory. */
struct dns_state *dns_state(struct egress *e);

/* What is to be done about one message. */
struct dns_plan {
	bool lookup; /* ask upstream first; else answer is what to say */
	struct dns_answer answer;
	struct addr addr; /* storage behind it */
};
/* parsed: what dns_parse() said, but not -EPROTO. */
void dns_decide(struct egress *e, int parsed, const struct dns_question *q,
		struct dns_plan *ret);

/* A question that waits for upstream; embedded in what belongs to its way here. */
struct dns_query {
	struct egress *egress;
	struct dns_question q;
	uint8_t wire[DNS_QUESTION_MAX]; /* q.question is here */
	struct lookup_wait wait;
	void (*done)(struct dns_query *dq, const struct dns_answer *a);
};
bool dns_query_room(const struct egress *e);
/* done is called exactly once, maybe before this returns, unless dns_query_cancel(). */
void dns_query_start(struct egress *e, struct dns_query *dq, const struct dns_question *q,
		     void (*done)(struct dns_query *, const struct dns_answer *));
void dns_query_cancel(struct dns_query *dq);

extern const struct dns_answer dns_busy; /* SERVFAIL */

/* dns_udp.c */
void dns_udp_free(struct dns_udp *u);

#endif
