/* SPDX-License-Identifier: Apache-2.0 */
/* l7_response - from the server, which may be hostile: its answer, framed anew. */
#include "egress/l7.h"

#include "base/util.h"

#include <strings.h>

/* ---- the head -----------------------------------------------------------------------
 */

static int put_head(struct exchange *x)
{
	struct http_head *res = &x->res;
	int r = 0;

	if (x->req.http10) {
		/* It knows no chunks; their end is the connection's. */
		if (res->body == BODY_CHUNKED) {
			res->body = BODY_CLOSE;
			res->keep_alive = false;
		}
		if (res->keep_alive && x->keep)
			r = http_field_set(res, "Connection", "keep-alive");
	}
	if (r == 0)
		r = http_write_head(res, &x->l7->client.out);
	http_head_forget(res);
	return r;
}

static void final_head(struct exchange *x)
{
	struct l7 *l = x->l7;
	struct http_head *res = &x->res;

	http_reader_init(&x->res_body, res);
	x->status = res->status;
	/* An answer before the request is complete: what is left of it cannot be waited
	 * for. */
	if (x->request != REQ_DONE || l->up_failed)
		res->keep_alive = false;
	x->keep = x->keep && res->keep_alive;
	res->keep_alive = x->keep;
	if (!l7_swap_response(x))
		return;
	if (put_head(x) < 0) {
		l7_answer_upstream(l, 502, "the head of the answer is too large");
		return;
	}
	x->answered = true;
	x->keep = x->keep && res->keep_alive;
	x->response = RES_BODY;
}

static void interim_head(struct exchange *x)
{
	struct l7 *l = x->l7;

	if (++x->interim > L7_INTERIM) {
		l7_answer_upstream(l, 502, "too many interim answers");
		return;
	}
	if (!l7_swap_response(x))
		return;
	if (!x->req.http10 && http_write_head(&x->res, &l->client.out) < 0)
		l7_over(l, true, "error", "out of memory");
	http_head_clear(&x->res);
}

static void switch_protocols(struct exchange *x)
{
	struct l7 *l = x->l7;

	if (!x->req.upgrade || !x->res.upgrade) {
		l7_answer_upstream(l, 502, "the server changed the protocol unasked");
		return;
	}
	if (!l7_swap_response(x))
		return;
	x->status = 101;
	if (http_write_head(&x->res, &l->client.out) < 0) {
		l7_over(l, true, "error", "out of memory");
		return;
	}
	http_head_forget(&x->res);
	x->answered = true;
	x->response = RES_DONE; /* x stays: a new policy may end it */
	l->mode = L7_TUNNEL;
}

/* False: more is needed. */
static bool parse_head(struct exchange *x)
{
	struct l7 *l = x->l7;
	const char *why = "out of memory";
	long r;

	if (!side_unread(&l->up))
		return false;
	r = side_head(&l->up, &why);
	if (r > 0)
		r = http_parse_response(&x->res, l->up.in.data + l->up.in_at,
					side_unread(&l->up), x->req.method, &why);
	if (r == 0)
		return false;
	if (r < 0) {
		l7_answer_upstream(l, 502, why);
		return true;
	}
	side_consume(&l->up, (size_t)r);
	if (x->res.status == 101)
		switch_protocols(x);
	else if (x->res.status < 200)
		interim_head(x);
	else
		final_head(x);
	return true;
}

static void no_answer(struct exchange *x, const char *why)
{
	struct l7 *l = x->l7;

	/* A kept connection that the server closed meanwhile: the client's library tries
	 * again when it sees the same, and must not when it sees an answer. */
	if (l->requests > 1 && !side_unread(&l->up) && !x->interim &&
	    x->req.body == BODY_NONE) {
		exchange_record(x, "error", why);
		exchange_free(x);
		l7_close(l, "allow", why);
	} else {
		l7_answer_upstream(l, 502, why);
	}
}

static bool read_head(struct exchange *x)
{
	struct l7 *l = x->l7;
	char *p = pump_buf(l->c->egress);
	ssize_t n;

	if (parse_head(x))
		return true;
	if (!p)
		return false;
	if (l->up_failed && (l->up.ch.shaking || l->up.ch.failed)) {
		no_answer(x, l->up_failed);
		return true;
	}
	if (l->up.ch.shaking || side_queued(&l->client) >= L7_HIGH)
		return false;
	n = side_read(&l->up, p, PUMP_BUF);
	if (n == -EAGAIN)
		return false;
	if (n <= 0)
		no_answer(x, n == 0 ? "the server closed the connection without an answer"
				    : "the connection to the server broke");
	else if (side_keep(&l->up, p, (size_t)n) < 0)
		l7_answer_upstream(l, 502, "the head of the answer is too large");
	return true;
}

/* ---- the body -----------------------------------------------------------------------
 */

static void body_done(struct exchange *x)
{
	x->response = RES_DONE;
	/* More than the server said: whose answer would it be? */
	if (side_unread(&x->l7->up))
		x->keep = false;
	if (x->request == REQ_DONE || !x->keep)
		l7_exchange_done(x);
}

/* False: over. */
static bool put_down(struct exchange *x, const char *p, size_t n, bool last)
{
	struct l7 *l = x->l7;
	int r = 0;

	x->put_down += n;
	if (x->res.body == BODY_LENGTH &&
	    (x->put_down > x->res.length || (last && x->put_down != x->res.length))) {
		l7_over(l, true, "error", "the length of a body changed");
		return false;
	}
	if (x->res.body == BODY_CHUNKED)
		r = http_write_chunk(&x->res, p, n, &l->client.out);
	else if (n)
		r = side_send(&l->client, p, n);
	if (r == 0 && last)
		r = http_write_end(&x->res, &l->client.out);
	if (r < 0)
		l7_over(l, true, "allow", "the program closed the connection");
	return r == 0;
}

static void on_held(struct timer *t);

static void wait_held(struct exchange *x)
{
	timer_start(x->l7->c->egress->loop, &x->held,
		    swap_held(x->back) < L7_HELD_FEW ? L7_HELD_FEW_MS : L7_HELD_MS,
		    on_held);
}

/* What waits for more that does not come goes on its way, but not while it is us who do
 * not read. */
static void on_held(struct timer *t)
{
	struct exchange *x = container_of(t, struct exchange, held);
	struct l7 *l = x->l7;

	if (side_queued(&l->client) >= L7_HIGH || side_unread(&l->up) ||
	    (l->up.ready & EPOLLIN))
		wait_held(x);
	else if (x->response == RES_BODY && l7_swap_release(x))
		put_down(x, x->piece.data, x->piece.len, false);
	l7_run(l);
}

static bool content_down(struct exchange *x, const char *p, size_t n)
{
	bool last = x->res_body.done;

	if (x->back) {
		x->piece.len = 0;
		if (!l7_swap_back(x, p, n, last))
			return false;
		p = x->piece.data;
		n = x->piece.len;
		if (!last && swap_held(x->back))
			timer_start(x->l7->c->egress->loop, &x->held, L7_HELD_MS,
				    on_held);
		else
			timer_stop(x->l7->c->egress->loop, &x->held);
	}
	return put_down(x, p, n, last);
}

static long take_body(struct exchange *x, const char *p, size_t n)
{
	struct l7 *l = x->l7;
	size_t at = 0;

	while (at < n && !x->res_body.done) {
		const char *data;
		size_t len;
		long used = http_read_body(&x->res_body, p + at, n - at, &data, &len);

		if (used < 0) { /* the head is out: only a broken end tells the client */
			l7_over(l, true, "error",
				"the server's answer is framed wrongly");
			return -1;
		}
		at += (size_t)used;
		if ((len || x->res_body.done) && !content_down(x, data, len))
			return -1;
	}
	return (long)at;
}

static bool ended(struct exchange *x, ssize_t n)
{
	struct l7 *l = x->l7;

	if (n < 0 || x->res_body.kind != BODY_CLOSE) {
		if (x->back && l7_swap_release(x)) /* what there is of it */
			put_down(x, x->piece.data, x->piece.len, false);
		l7_over(l, true, "error", "the server's answer was cut off");
		return true;
	}
	x->res_body.done = true;
	if (content_down(x, "", 0))
		body_done(x);
	return true;
}

static bool can_splice(const struct exchange *x)
{
	const struct l7 *l = x->l7;

	return !l->tls && !x->back && x->res.body == x->res_body.kind &&
	       !side_queued(&l->client) &&
	       ((x->res.body == BODY_LENGTH && x->res_body.left >= L7_SPLICE) ||
		x->res.body == BODY_CLOSE);
}

static bool splice_body(struct exchange *x)
{
	struct l7 *l = x->l7;
	bool close = x->res.body == BODY_CLOSE;

	if (!x->down.on)
		flow_start(&x->down, &l->up, &l->client,
			   close ? PUMP_ALL : x->res_body.left);
	switch (flow_run(l->c->egress, &x->down, &l->up, &l->client)) {
	case PUMP_MORE:
		return true;
	case PUMP_READ:
	case PUMP_WRITE:
		return false;
	case PUMP_END:
		if (close || !x->down.pump.left) {
			flow_clear(&x->down);
			x->res_body.done = true;
			body_done(x);
			return true;
		}
		break;
	case PUMP_FAILED:
		break;
	}
	l7_over(l, true, x->down.pump.write_failed ? "allow" : "error",
		x->down.pump.write_failed ? "the program closed the connection"
					  : "the server's answer was cut off");
	return true;
}

static bool read_body(struct exchange *x)
{
	struct l7 *l = x->l7;
	char *p = pump_buf(l->c->egress);
	size_t kept = side_unread(&l->up);
	ssize_t n;
	long used;

	if (!p || side_queued(&l->client) >= L7_HIGH)
		return false;
	if (x->res_body.done) {
		if (content_down(x, "", 0))
			body_done(x);
		return true;
	}
	if (kept) {
		used = take_body(x, l->up.in.data + l->up.in_at, kept);
		if (used >= 0)
			side_consume(&l->up, (size_t)used);
	} else {
		if (x->down.on || can_splice(x))
			return splice_body(x);
		n = side_read(&l->up, p, PUMP_BUF);
		if (n == -EAGAIN)
			return false;
		if (n <= 0)
			return ended(x, n);
		used = take_body(x, p, (size_t)n);
		if (used >= 0 && used < n &&
		    side_keep(&l->up, p + used, (size_t)(n - used)))
			l7_over(l, true, "error", "out of memory");
	}
	if (used >= 0 && !l->over && x->res_body.done)
		body_done(x);
	return true;
}

/* ---- between requests ---------------------------------------------------------------
 */

/* A server may end a kept connection; what it says unasked nobody may take for an answer
 * to the next request. */
static bool watch_idle(struct l7 *l)
{
	char *p = pump_buf(l->c->egress);
	ssize_t n;

	if (l->up_failed || l->up.ch.shaking || !p || (l->closing && !l->x))
		return false;
	n = side_unread(&l->up) ? 1 : side_read(&l->up, p, 256);
	if (n == -EAGAIN)
		return false;
	if (n > 0)
		l->up_failed = "the server sent what nobody asked for";
	else
		l->up_failed = "the server closed the connection";
	if (n > 0)
		l7_close(l, "error", l->up_failed);
	else if (l->requests && !l->x && !side_unread(&l->client))
		l7_close(l, "allow", NULL);
	return true;
}

bool l7_step_response(struct l7 *l)
{
	struct exchange *x = l->x;

	if (!x || x->response == RES_NONE)
		return watch_idle(l);
	if (x->response == RES_HEAD)
		return read_head(x);
	if (x->response == RES_BODY)
		return read_body(x);
	return false;
}
