/* SPDX-License-Identifier: Apache-2.0 */
/*
 * l7 - an opened connection: requests are read, judged, and written anew.
 *
 * Theory of operation. Two sides, each a socket or TLS on one, and at most one exchange
 * (a request and its response) between them. Events only say what a side is ready for;
 * l7_run() then takes every step that can be taken until none can. A step never ends the
 * connection itself: it says so (l7_over, l7_close), and l7_run() does.
 *
 * Invariants
 * 1. Nothing of a request goes upstream before it was parsed, its authority compared and
 *    its path judged, and nothing at all before the upstream's certificate was.
 * 2. The next request is not looked at before this exchange is done.
 * 3. A side is read only while the other can take what is read: at most one read beyond
 *    L7_HIGH is ever held for it.
 * 4. Without an exchange and without unread bytes there are no buffers.
 * 5. What was sent on is wiped where it was: values are in requests, and come back. In
 *    memory that is not locked they are only on their way.
 */
#ifndef COVE_EGRESS_L7_H
#define COVE_EGRESS_L7_H

#include "egress/chan.h"
#include "egress/conn_impl.h"
#include "egress/http1.h"
#include "egress/pass.h"
#include "egress/swap.h"

#define L7_HIGH (64u << 10)    /* a side with that much to write takes no more */
#define L7_COLLECT (64u << 10) /* a body whose length may change, as a whole */
#define L7_SPLICE (64u << 10)  /* a body from here on goes through the kernel */
#define L7_DROP (64u << 10)    /* of a refused request's body, to keep the connection */
#define L7_INTERIM 16          /* 1xx answers to one request */
#define L7_HELD_MS 1000        /* bytes wait so long for what may make them a value, */
#define L7_HELD_FEW 4          /* but fewer than these, */
#define L7_HELD_FEW_MS 20      /* which tell little, only so long */
#define L7_PIECE (512u << 10)  /* what values may make of one piece of a body */

/* ---- l7_side.c ----------------------------------------------------------------------
 */
struct side {
	struct chan ch;
	uint32_t ready;                   /* EPOLLIN, EPOLLOUT: not known to be blocked */
	uint32_t read_needs, write_needs; /* TLS may need the other one */
	bool hup;                         /* the peer ended or broke, as epoll said */
	bool urgent;                      /* it sent an urgent byte: reads stop there */
	struct buf in, out;
	size_t in_at, out_at;
	size_t looked;   /* of in, no head's end was found in these */
	size_t read_max; /* bytes of the longest read into pump_buf() */
	uint64_t *count; /* bytes of content and framing written to it */
};

void side_init(struct side *s, uint64_t *count);
void side_clear(struct side *s);
void side_ready(struct side *s, uint32_t events);
/* 1: done now; 0: not yet, or done before; -1: failed, ch.why says how. */
int side_shake(struct side *s);
/* As chan_read(), but as many reads as fit; -EAGAIN if it is not ready. */
ssize_t side_read(struct side *s, char *p, size_t n);
/* Writes what is queued. >0: something was; 0: nothing; -errno. */
int side_flush(struct side *s);
/* At once if nothing is queued, else behind it. 0 or -errno. */
int side_send(struct side *s, const void *p, size_t n);
size_t side_queued(const struct side *s);
size_t side_unread(const struct side *s);
void side_consume(struct side *s, size_t n);
int side_keep(struct side *s, const char *p, size_t n); /* more unread bytes */
/* As http_head_end() of what is unread. */
long side_head(struct side *s, const char **why);
void side_rest(struct side *s); /* frees buffers that are empty */

/* ---- one request and its response ---------------------------------------------------
 */
enum request_phase {
	REQ_ASK,     /* the host is asked */
	REQ_COLLECT, /* the body is gathered: its length changes */
	REQ_BODY,
	REQ_DROP, /* we answered: the rest is read and thrown away */
	REQ_DONE,
};
enum response_phase { RES_NONE, RES_HEAD, RES_BODY, RES_DONE };

struct flow {
	struct pump pump;
	enum pump_state waits;
	bool on;
};

/* The frames of a WebSocket, from the server. */
struct frames {
	uint8_t head[14];
	size_t n_head; /* bytes of it that came */
	uint64_t left; /* of the payload */
	bool inside;   /* of a payload */
};

struct exchange {
	struct l7 *l7;
	struct http_head req, res;
	struct http_reader req_body, res_body;
	struct swap_stream *out, *back; /* NULL: nothing is looked for */
	struct frames frames;
	struct timer held; /* bytes of a response wait */
	enum request_phase request;
	enum response_phase response;
	char rule[96];
	char *path[2];       /* the two readings, for the judge */
	char *log_path;      /* as sent, before any secret */
	uint64_t generation; /* of the policy that judged it */
	struct question question;
	bool asking, asked;
	bool secret_used;
	bool answered; /* the final head is on its way to the client */
	bool keep;     /* the connection goes on after this */
	unsigned interim;
	unsigned status;
	uint64_t sent, received;   /* of the connection, when it began */
	uint64_t put_up, put_down; /* content sent on */
	bool recorded;
	struct buf piece; /* scratch, and the body that is collected */
	struct flow up, down;
};

enum l7_mode { L7_OPEN, L7_TUNNEL, L7_LINGER };
enum l7_wait { WAIT_NONE, WAIT_SHAKE, WAIT_HEAD, WAIT_IDLE, WAIT_LINGER };

struct l7 {
	struct conn *c;
	struct side client, up;
	struct exchange *x;             /* NULL: between requests */
	struct flow up_flow, down_flow; /* of a tunnel */
	enum l7_mode mode;
	enum l7_wait wait;
	int64_t due_ms;
	struct timer again;
	const char *up_failed;        /* why no request can be sent */
	const char *verdict, *reason; /* for the log */
	uint64_t requests, waited_at; /* their number, now and when the wait began */
	uint64_t lingered;
	bool tls, running;
	bool counted;     /* in n_inspected */
	bool over, reset; /* end it when this step is done */
	bool closing;     /* when all is written: end of writing, then linger */
	bool refused;     /* because of an answer of ours */
	bool shut;        /* the end was sent */
};

/* l7.c */
void l7_run(struct l7 *l); /* l may be gone after this */
void l7_over(struct l7 *l, bool reset, const char *verdict, const char *reason);
/* Orderly, after what is queued. */
void l7_close(struct l7 *l, const char *verdict, const char *reason);

/* Steps: true if anything happened. */
bool l7_step_request(struct l7 *l);  /* l7_request.c */
bool l7_step_response(struct l7 *l); /* l7_response.c */
bool l7_step_tunnel(struct l7 *l);   /* l7_tunnel.c */

/* l7_request.c: x was judged: allowed. */
void l7_forward(struct exchange *x);

/* l7_judge.c. NULL, or why the request is not for this connection. */
const char *l7_check_authority(const struct l7 *l, struct http_head *req);
/* Judges, and asks, forwards or answers. */
void l7_judge(struct exchange *x);
/* Does a new policy still allow it? */
bool l7_still_allowed(struct exchange *x);

/* l7_secret.c. False: a violation or a failure, which was answered. */
bool l7_swap_request(struct exchange *x); /* the head; sets up the body */
bool l7_swap_response(struct exchange *x);
/* One piece of a body (last: its end) into x->piece. */
bool l7_swap_body(struct exchange *x, const char *p, size_t n, bool last);
bool l7_swap_collected(struct exchange *x);
bool l7_swap_back(struct exchange *x, const char *p, size_t n, bool last);
bool l7_swap_release(struct exchange *x); /* what is held, into x->piece */

/* l7_frames.c: bytes of a tunnel from the server into x->piece. 0 or -errno. */
int l7_swap_frames(struct exchange *x, const char *p, size_t n);

/* l7_answer.c */
/* Our own answer; the connection goes on if that is possible and close is false. */
void l7_answer(struct l7 *l, unsigned status, const char *rule, const char *reason,
	       bool close);
void l7_answer_upstream(struct l7 *l, unsigned status, const char *reason); /* 502, 504 */
void l7_violation(struct exchange *x, const char *secret);
void exchange_record(struct exchange *x, const char *verdict, const char *reason);
struct exchange *exchange_new(struct l7 *l);
void exchange_free(struct exchange *x);
/* Both halves are done: the next request, or the end. */
void l7_exchange_done(struct exchange *x);

/* l7_flow.c. Moves bytes in the kernel: as pump_run(), PUMP_READ and PUMP_WRITE if
 * neither side is ready for it. */
void flow_start(struct flow *f, const struct side *from, const struct side *to,
		uint64_t n);
enum pump_state flow_run(struct egress *e, struct flow *f, struct side *from,
			 struct side *to);
void flow_clear(struct flow *f);

#endif
