/* SPDX-License-Identifier: Apache-2.0 */
/*
 * egress - the role that carries a sandbox's connections, or refuses them.
 *
 * Theory of operation. The sandbox's network namespace sends every TCP connection, to
 * any address, to a listener of ours (TPROXY), and every DNS query to a socket of ours; a
 * connection's local address is what the program asked for. DNS answers are synthetic
 * addresses, one for each name, so the name comes back with the connect.
 *
 *   accept -> who (only with scopes) -> decide by name and port -> [ask] -> resolve ->
 *   check the address -> dial -> look at the first bytes ->
 *       pass (splice) | open (TLS and HTTP are read, each request judged) | refuse
 *
 * A machine's kernel catches in the same way, and its first process hands on what it
 * caught over one stream (mux.c): each connection is one half of a socket pair then, each
 * datagram a frame, and all of the above is the same.
 *
 * The host talks to us over one SEQPACKET socket (ipc/control.h). We have no file system
 * and no way to execute; the only descriptors that come in are the listeners, the log,
 * the policy and the trust store.
 *
 * Bounds (docs/egress.md has the table): every table here has a maximum and a behaviour
 * at it; nothing a sandbox or an upstream sends makes memory grow without one.
 */
#ifndef COVE_EGRESS_EGRESS_H
#define COVE_EGRESS_EGRESS_H

#include "base/buf.h"
#include "egress/loop.h"
#include "ipc/control.h"
#include "ipc/netmux.h"
#include "policy/policy.h"

struct names;      /* names.h: synthetic addresses */
struct lookup;     /* lookup.h: upstream DNS */
struct authority;  /* ca.h: our certificates, and whom we trust */
struct swap_table; /* swap.h: secrets */
struct conn;       /* conn.h */
struct pump_pool;  /* pass.h: the shared buffer, and pipes */
struct listeners;  /* listen.c */
struct mux;        /* mux.c */
struct dns_state;  /* dns_serve.c */

struct egress_limits {
	unsigned conns;     /* at most this many at once; derived from RLIMIT_NOFILE */
	unsigned undecided; /* of these, waiting for who, ask, lookup or dial */
	unsigned inspected; /* of these, opened (TLS state is large) */
	int64_t who_ms, dial_ms, first_bytes_ms, headers_ms, ask_ms, refuse_ms;
	int64_t idle_ms; /* without a byte; 0: for ever */
	int64_t half_ms; /* the same, after the program has ended its side */
};

struct egress {
	struct loop *loop;
	struct policy *policy; /* never NULL: begins with mode none */
	void *policy_map;      /* the mapping behind it */
	size_t policy_len;
	struct names *names;
	struct lookup *lookup;
	struct authority *authority;
	const struct swap_table *secrets;   /* NULL: none */
	bool values_stored;                 /* one was in a body or a target */
	struct addr self[CONTROL_SELF_MAX]; /* the host's own addresses */
	size_t n_self;
	struct egress_limits limits;
	struct pump_pool *pumps; /* made on first use */
	struct listeners *listeners;
	struct mux *mux;       /* of a machine, instead */
	struct dns_state *dns; /* made on first use */
	struct conn *conns;    /* all of them, a list */
	struct conn *review;   /* the next one that a new policy is held against */
	unsigned n_conns, n_undecided, n_inspected;
	uint64_t next_id;
	unsigned names_left; /* programs to be asked for, of this second: for the log */
	int64_t names_until_ms;
	bool who_always; /* an unknown exec is refused, scopes or not */
	char name[64];   /* of the sandbox; "": a one-shot, which nobody can call */
	struct control *control; /* control.c's */
	uint64_t seen[1024];     /* what the host was told already, as hashes */
	struct timer log_timer;
	unsigned events_left; /* of this second */
	int64_t events_until_ms;
	int log_fd;        /* append-only; -1: none */
	struct buf log;    /* lines not written yet */
	uint64_t log_lost; /* lines dropped because the log cannot be written */
	uint64_t accepted, denied, allowed; /* counters */
	uint64_t limited;                   /* connections that a limit turned away */
	uint64_t limited_told;              /* of these, how many the log knows of */
	int64_t limited_told_ms;
};

/* ---- record.c: what is told about a connection ---------------------------------- */
struct record {
	const char *kind; /* "connect" (one line at its end, or at a refusal), "request",
			     "dns", "secret" */
	const struct conn *conn; /* time, id, name, address, port, who; may be NULL */
	const char *verdict;     /* "allow", "deny", "error" */
	const char *rule, *reason;
	const char *method, *path; /* request */
	int status;                /* request */
	uint64_t sent, received;   /* bytes, connect */
	const char *secret;        /* secret: its name */
	const char *name;          /* dns: the name; overrides the connection's */
	uint16_t port;
};
/* Appends one JSON line to the log (every text escaped and bounded, secrets redacted);
 * refusals, first uses of a rule, and secret uses also go to the host as an event, at
 * most 100 a second. */
void egress_record(struct egress *e, const struct record *r);
void egress_log_flush(struct egress *e);

/* ---- listen.c ------------------------------------------------------------------- */
/* Takes over the descriptors; -1: not there. */
int egress_listen(struct egress *e, int tcp4, int tcp6, int udp4, int udp6);
/* Ends every connection, stops listening and gives back the pool; DNS is not touched. */
void egress_unlisten(struct egress *e);
/* Is this the address of a listener itself? Nobody has business there. (A machine's are
 * on its loopback, of which nothing is caught.) */
bool egress_is_listener(const struct egress *e, const struct addr *a, uint16_t port);

/* ---- mux.c ------------------------------------------------------------------------ */
/* A machine's stream, instead of listeners (ipc/netmux.h). Takes over the descriptor. */
int egress_stream(struct egress *e, int fd, const uint8_t nonce[NETMUX_NONCE]);

/* ---- control.c ------------------------------------------------------------------ */
int egress_control(struct egress *e, int sock); /* handles it from now on */
/* Asks the host; fn is called exactly once, with NULL if there is no answer in time,
 * unless control_forget() came first. */
struct question {
	struct egress *egress;
	uint64_t id;   /* 0: not waiting */
	bool at_guest; /* which is asked first; a machine's "who" */
	struct timer timer;
	struct question *next;
	void (*fn)(struct question *q, const json_t *answer);
};
void control_who(struct egress *e, struct question *q, const char *proto,
		 const struct sockaddr *from, const struct sockaddr *to, int64_t ms,
		 void (*fn)(struct question *, const json_t *));
void control_ask(struct egress *e, struct question *q, const struct conn *c,
		 const char *method, const char *path,
		 void (*fn)(struct question *, const json_t *));
void control_forget(struct egress *e, struct question *q);
/* A machine's guest says who it is: the host knows which exec that is. */
void control_guest_says(struct egress *e, uint32_t id, const struct netmux_who *w);
/* Best effort, never blocks; takes over the object. */
void control_event(struct egress *e, json_t *event);
/* One event was not sent: the host is told how many there were. */
void control_lost(struct egress *e);
/* A lookup failed: what the host said about its resolver may be old. */
void control_stale(struct egress *e);
/* A placeholder went where it may not: the host may stop the sandbox. */
void control_violation(struct egress *e, const struct conn *c, const char *secret);

#endif
