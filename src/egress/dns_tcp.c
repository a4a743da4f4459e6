/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dns_tcp - questions on a captured connection to port 53: each message has its length in
 * front (RFC 7766). Answers go out as they are known.
 *
 * Bounds: PIPELINE_MAX questions at once, then the client waits (nothing is read); a
 * question of more than QUESTION_BYTES ends it; so does IDLE_MS without a whole question
 * or a whole answer, which also ends what is sent or read byte by byte.
 *
 * take() and on_done() never end the connection: what is above them on the stack does,
 * in settle().
 */
#include "egress/conn.h"
#include "egress/dns_impl.h"

#include "base/util.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#define PIPELINE_MAX 16
#define QUESTION_BYTES 2048
#define OUT_MAX (16u << 10)
#define OUT_HIGH (OUT_MAX / 2) /* no more questions are taken above that */
#define IDLE_MS 10000

struct dns_tcp {
	struct conn *conn;
	struct tcp_query *queries;
	unsigned n_queries;
	bool ended, broken; /* the client's side; ours */
	bool taking;        /* answers that come now are sent later */
	size_t len;
	uint8_t in[2 + QUESTION_BYTES];
	struct buf out;
};

struct tcp_query {
	struct dns_query query;
	struct dns_tcp *tcp;
	struct tcp_query *next, **link;
};

static void settle(struct dns_tcp *t);

/* ---- answers --------------------------------------------------------------------- */

static void respond(struct dns_tcp *t, const struct dns_question *q,
		    const struct dns_answer *a)
{
	uint8_t out[2 + DNS_MAX];
	size_t n = dns_write(q, a, out + 2, DNS_MAX);

	out[0] = (uint8_t)(n >> 8);
	out[1] = (uint8_t)n;
	if (!n || buf_append(&t->out, out, n + 2) < 0)
		t->broken = true;
}

static void query_free(struct tcp_query *tq)
{
	*tq->link = tq->next;
	if (tq->next)
		tq->next->link = tq->link;
	tq->tcp->n_queries--;
	free(tq);
}

static void on_done(struct dns_query *dq, const struct dns_answer *a)
{
	struct tcp_query *tq = container_of(dq, struct tcp_query, query);
	struct dns_tcp *t = tq->tcp;

	respond(t, &dq->q, a);
	query_free(tq);
	if (!t->taking)
		settle(t);
}

static bool wait_for(struct dns_tcp *t, const struct dns_question *q)
{
	struct egress *e = t->conn->egress;
	struct tcp_query *tq = dns_query_room(e) ? calloc(1, sizeof(*tq)) : NULL;

	if (!tq)
		return false;
	tq->tcp = t;
	tq->next = t->queries;
	tq->link = &t->queries;
	if (tq->next)
		tq->next->link = &tq->next;
	t->queries = tq;
	t->n_queries++;
	dns_query_start(e, &tq->query, q, on_done);
	return true;
}

/* ---- questions ------------------------------------------------------------------- */

static void answer_one(struct dns_tcp *t, const uint8_t *p, size_t n)
{
	struct dns_question q;
	struct dns_plan plan;
	int parsed = dns_parse(p, n, &q);

	if (parsed == -EPROTO) { /* there is no losing on a stream: the end */
		t->broken = true;
		return;
	}
	dns_decide(t->conn->egress, parsed, &q, &plan);
	if (!plan.lookup)
		respond(t, &q, &plan.answer);
	else if (!wait_for(t, &q))
		respond(t, &q, &dns_busy);
}

static bool may_take(const struct dns_tcp *t)
{
	return !t->broken && t->n_queries < PIPELINE_MAX && t->out.len < OUT_HIGH;
}

/* Whole messages, as many as may be taken. True if there was one. */
static bool take(struct dns_tcp *t)
{
	bool any = false;
	size_t at = 0;

	t->taking = true;
	while (may_take(t) && t->len - at >= 2) {
		size_t n = (size_t)t->in[at] << 8 | t->in[at + 1];

		if (n > QUESTION_BYTES)
			t->broken = true;
		if (t->broken || t->len - at - 2 < n)
			break;
		answer_one(t, t->in + at + 2, n);
		at += 2 + n;
		any = true;
	}
	t->taking = false;
	memmove(t->in, t->in + at, t->len - at);
	t->len -= at;
	return any;
}

/* ---- the connection -------------------------------------------------------------- */

static void tcp_free(struct conn *c)
{
	struct dns_tcp *t = take_ptr(c->data);

	if (!t)
		return;
	while (t->queries) {
		dns_query_cancel(&t->queries->query);
		query_free(t->queries);
	}
	buf_clear(&t->out);
	free(t);
	c->carrier = NULL;
}

static const struct carrier tcp_carrier = {.end = tcp_free};

static void end(struct conn *c)
{
	tcp_free(c);
	conn_end(c, "allow", NULL);
}

static void on_idle(struct timer *timer)
{
	end(container_of(timer, struct conn, timer));
}

static void rest(struct conn *c)
{
	timer_start(c->egress->loop, &c->timer, IDLE_MS, on_idle);
}

static void flush(struct dns_tcp *t)
{
	ssize_t n;

	if (!t->out.len)
		return;
	n = send(t->conn->client, t->out.data, t->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0) {
		t->broken = t->broken || (errno != EAGAIN && errno != EINTR);
		return;
	}
	t->conn->received += (uint64_t)n;
	buf_consume(&t->out, (size_t)n);
	if (!t->out.len)
		rest(t->conn);
}

/* Takes what can be taken, sends what can be sent, and says what to wait for, or ends. */
static void settle(struct dns_tcp *t)
{
	struct conn *c = t->conn;
	uint32_t events = 0;
	bool more;

	do {
		more = take(t);
		if (more)
			rest(c);
		flush(t);
	} while (more && !t->broken);
	if (t->broken || (t->ended && !t->n_queries && !t->out.len)) {
		end(c);
		return;
	}
	if (!t->ended && may_take(t) && t->len < sizeof(t->in))
		events |= EPOLLIN;
	if (t->out.len)
		events |= EPOLLOUT;
	if (watch_change(c->egress->loop, &c->cw, events) < 0)
		end(c);
}

static void on_client(struct watch *w, uint32_t events)
{
	struct conn *c = container_of(w, struct conn, cw);
	struct dns_tcp *t = c->data;
	ssize_t n = -1;

	errno = EAGAIN;
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR) && t->len < sizeof(t->in))
		n = recv(c->client, t->in + t->len, sizeof(t->in) - t->len, MSG_DONTWAIT);
	if (n > 0) {
		t->len += (size_t)n;
		c->sent += (uint64_t)n;
	} else if (n == 0) {
		t->ended = true;
	} else if (errno != EAGAIN && errno != EINTR) {
		t->broken = true;
	}
	/* With both sides shut nothing can be said any more. */
	t->broken = t->broken || (events & EPOLLHUP && n <= 0);
	settle(t);
}

void dns_serve_tcp(struct conn *c)
{
	struct dns_tcp *t = dns_state(c->egress) ? calloc(1, sizeof(*t)) : NULL;

	c->recorded = true; /* nothing goes anywhere: refused names are in the log */
	if (!t) {
		conn_end(c, "error", "no memory");
		return;
	}
	t->conn = c;
	buf_init(&t->out, OUT_MAX);
	c->data = t;
	c->carrier = &tcp_carrier;
	c->stage = CONN_PASS;
	rest(c);
	if (watch_start(c->egress->loop, &c->cw, c->client, EPOLLIN, on_client) < 0)
		end(c);
}
