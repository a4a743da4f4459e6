/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn - one captured connection, from accept to its last byte.
 *
 * Until the decision it belongs to conn.c; then exactly one carrier owns both
 * descriptors: pass.c (bytes, spliced), l7.c (opened), or refuse.c (an answer, then
 * the end). A carrier ends with conn_end(), which records, closes and frees.
 */
#ifndef COVE_EGRESS_CONN_H
#define COVE_EGRESS_CONN_H

#include "egress/egress.h"
#include "egress/names.h"

enum conn_stage {
	CONN_WHO,
	CONN_ASK,
	CONN_LOOKUP,
	CONN_DIAL,
	CONN_FIRST, /* waiting for the first bytes of the client */
	CONN_PASS,
	CONN_OPEN,
	CONN_REFUSE,
};

/* When a carrier gets a connection, cw and uw are stopped, timer is not armed and data is
 * NULL; it sets stage, carrier and data. end() frees what data is; whoever calls it calls
 * conn_reset() next, which stops watches and timer and closes the descriptors. A carrier
 * that ends by itself frees its data and calls conn_end() or conn_reset(). */
struct carrier {
	void (*end)(
		struct conn *c); /* the policy changed: stop now, free what is yours */
	/* NULL, or: does a new policy still allow what it carries at this moment? */
	bool (*stands)(struct conn *c);
};

struct conn {
	struct egress *egress;
	struct conn *next, **link;
	uint64_t id;
	enum conn_stage stage;
	int client, upstream; /* descriptors; -1 */
	struct mux_stream
		*stream;     /* of a machine: the other half of client is its; or NULL */
	struct watch cw, uw; /* of these */
	struct timer timer;  /* the stage's deadline */
	struct sockaddr_storage from, to; /* the program's end; what it asked for */
	uint16_t port;
	const struct name *name; /* referenced (name_ref); NULL: an address was dialled */
	struct addr ip;          /* what it asked for, if no name */
	struct addr dialled;     /* the upstream's address */
	struct policy_subject who; /* strings owned by who_text */
	char *who_text;
	struct question naming; /* who it is, for the log only */
	bool named;             /* that was asked */
	uint32_t pid;
	char program[32];
	char exec[24]; /* exec id, for the log */
	char *sni;     /* the name that a ClientHello to an address was allowed for */
	struct policy_decision decision;
	int64_t started_ms;
	uint64_t sent, received; /* client to upstream, and back */
	const struct carrier *carrier;
	void *data;     /* the carrier's */
	bool undecided; /* counted in n_undecided */
	bool asked;     /* somebody said yes to the question of the mode */
	bool recorded;  /* its line in the log is written */
};

/* The name, or the address as text. */
const char *conn_host(const struct conn *c, char buf[ADDR_TEXT]);

/* listen.c hands over; takes the descriptor. */
void conn_accept(struct egress *e, int fd, const struct sockaddr_storage *from);
/* The same for mux.c: the other half of a pair, and what the program asked for. */
void conn_open(struct egress *e, int fd, const struct netmux_ends *ends,
	       struct mux_stream *s);
/* Everything of it ends; verdict and reason go to the log. */
void conn_end(struct conn *c, const char *verdict, const char *reason);
/* The same, but both ends see a reset: what they have is not complete. */
void conn_reset(struct conn *c, const char *verdict, const char *reason);
/* A new policy is in force: those whose decision changed end. Returns how many. */
unsigned conn_review_all(struct egress *e);

/* l7.c: read requests. tls: the client begins with a ClientHello (still in the socket).
 * With c->decision.verdict == VERDICT_ALLOW and plain HTTP, only the authority of each
 * request is checked. */
void l7_start(struct conn *c, bool tls);
/* refuse.c: answers in the client's own protocol (403 with JSON, TLS alert, reset) as
 * soon as the first bytes say which, and ends. reason: static or copied. */
void refuse_start(struct conn *c, const char *rule, const char *reason);

/* The body of a refusal: {"error":"denied by cove","rule","reason","host","port","how"}.
 * Also used by l7.c. */
int refuse_body(const struct conn *c, const char *rule, const char *reason,
		struct buf *out);

#endif
