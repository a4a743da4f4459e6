/* SPDX-License-Identifier: Apache-2.0 */
/* conn_impl - what conn.c, dial.c, first.c, pass.c and listen.c know of each other. */
#ifndef COVE_EGRESS_CONN_IMPL_H
#define COVE_EGRESS_CONN_IMPL_H

#include "egress/conn.h"
#include "egress/lookup.h"

#include <sys/epoll.h>

/* Registered once and for all: edges of everything. */
#define CONN_EVENTS (EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDHUP | EPOLLET)

#define DIAL_PARALLEL 3 /* attempts at the same time */

struct attempt {
	struct watch watch;
	struct pending *pending;
	struct addr addr;
};

/* The data of a connection until it has an upstream. */
struct pending {
	struct conn *conn;
	struct question question;
	bool asking; /* question is the control's */
	struct lookup_wait lookup;
	struct timer next_try;
	struct attempt attempts[DIAL_PARALLEL];
	struct addr addrs[LOOKUP_ADDRS_MAX]; /* each was checked */
	size_t n_addrs, next;
	int error; /* of the last attempt */
};

/* listen.c: one more than there is room for; it is reset. */
void egress_turn_away(struct egress *e, int fd);
void egress_limited(struct egress *e); /* counts it, and tells the log now and then */

/* mux.c */
void mux_stop(struct egress *e);
void mux_reset(struct conn *c); /* the program sees a reset; it has no stream any more */

/* conn.c */
void pending_free(struct conn *c); /* carrier's end() until then */
void conn_decided(struct conn *c); /* no longer undecided */
/* For another carrier: watches stopped, timer not armed, no data. */
void conn_release(struct conn *c);

/* What refuses this address to the connection, by its decision; ADDR_PUBLIC: nothing. */
enum addr_class conn_address(const struct conn *c, const struct addr *a);
/* Would a connection to this name be allowed, without a look inside? */
bool conn_name_allowed(const struct conn *c, const char *name);

/* dial.c: finds the addresses, checks each, connects to one of them; then first.c. */
void dial_start(struct conn *c);
bool dial_stands(struct conn *c); /* carrier's stands() until then */
void dial_clear(struct pending *p);

/* first.c: connected; events of the upstream that were seen. */
void first_start(struct conn *c, uint32_t events);

/* pass.c. With a gate, only what the server sends is passed, until pass_open(); the gate
 * is called when the client has sent something or ended, and may end the connection. 0 or
 * -errno; nothing is called before this returns. */
int pass_begin(struct conn *c, void (*gate)(struct conn *c, bool ended));
/* Runs what can be run after pass_begin(); the connection may be gone after this. */
void pass_kick(struct conn *c, uint32_t client_events, uint32_t upstream_events);
void pass_open(struct conn *c);
void pass_leave(struct conn *c); /* another carrier takes it */

#endif
