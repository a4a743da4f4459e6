/* SPDX-License-Identifier: Apache-2.0 */
/* l7_request - from the client: a head, its judgement, and its body on the way up. */
#include "egress/l7.h"

#include "base/util.h"
#include "egress/wipe.h"

#include <stdio.h>

static const char cut_off[] = "the request was cut off";

/* ---- the head -----------------------------------------------------------------------
 */

static void bad_head(struct l7 *l, long r, const char *why)
{
	bool http2 = why && strncmp(why, "HTTP/2", 6) == 0;

	l->requests++;
	l7_answer(l,
		  r == -EMSGSIZE ? 431
		  : http2        ? 403
				 : 400,
		  "http", why ? why : "out of memory", true);
}

static void begin(struct l7 *l, struct exchange *x)
{
	const char *target = x->req.target;
	size_t n = strcspn(target, "?");

	l->x = x;
	l->requests++;
	x->keep = x->req.keep_alive;
	http_reader_init(&x->req_body, &x->req);
	x->log_path = strndup(target, n);
	l7_judge(x);
}

static bool parse_head(struct l7 *l)
{
	const char *p = l->client.in.data + l->client.in_at;
	size_t n = side_unread(&l->client);
	struct exchange *x;
	const char *why = NULL;
	long r = side_head(&l->client, &why);

	if (r == 0)
		return false;
	if (r < 0) {
		bad_head(l, r, why);
		return true;
	}
	x = exchange_new(l);
	r = x ? http_parse_request(&x->req, p, n, &why) : -ENOMEM;
	if (r <= 0) {
		if (x)
			exchange_free(x);
		bad_head(l, r, why);
		return true;
	}
	side_consume(&l->client, (size_t)r);
	begin(l, x);
	return true;
}

static bool read_head(struct l7 *l)
{
	char *p = pump_buf(l->c->egress);
	ssize_t n;

	if (l->client.ch.shaking || !p)
		return false;
	if (side_unread(&l->client) && parse_head(l))
		return true;
	n = side_read(&l->client, p, HTTP_HEAD_MAX);
	if (n == -EAGAIN)
		return false;
	if (n == 0 && !side_unread(&l->client))
		l7_close(l, "allow", NULL);
	else if (n <= 0)
		l7_over(l, true, side_unread(&l->client) ? "error" : "allow",
			n == 0 ? cut_off : l->client.ch.why);
	else if (side_keep(&l->client, p, (size_t)n) < 0)
		l7_over(l, true, "error", "out of memory");
	return true;
}

/* ---- on the way up ------------------------------------------------------------------
 */

static bool put_head(struct exchange *x)
{
	struct l7 *l = x->l7;

	if (l->up_failed) { /* meanwhile */
		l7_answer_upstream(l, 502, l->up_failed);
		return false;
	}
	if (http_write_head(&x->req, &l->up.out) == 0) {
		http_head_forget(&x->req);
		return true;
	}
	l7_answer(l, 431, "http", "the head is too large", true);
	return false;
}

static void after_head(struct exchange *x)
{
	x->response = RES_HEAD;
	x->request = x->req_body.done ? REQ_DONE : REQ_BODY;
}

void l7_forward(struct exchange *x)
{
	struct l7 *l = x->l7;

	if (l->up_failed) { /* no value is put into what cannot be sent */
		l7_answer_upstream(l, 502, l->up_failed);
		return;
	}
	x->request = REQ_BODY;
	if (!l7_swap_request(x))
		return;
	if (x->request == REQ_COLLECT && !x->req_body.done) {
		/* The server cannot be asked before its length is known. */
		if (x->req.expect)
			buf_puts(&l->client.out, "HTTP/1.1 100 Continue\r\n\r\n");
		x->req.expect = false;
		return;
	}
	if (put_head(x))
		after_head(x);
}

static void collected(struct exchange *x)
{
	struct l7 *l = x->l7;

	if (!l7_swap_collected(x) || !put_head(x))
		return;
	after_head(x);
	if (side_send(&l->up, x->piece.data, x->piece.len) < 0)
		l->up_failed = "the server closed the connection";
	wipe_clear(&x->piece);
}

/* False: over. */
static bool put_up(struct exchange *x, const char *p, size_t n, bool last)
{
	struct l7 *l = x->l7;
	int r = 0;

	if (l->up_failed) /* the server reads no more, but may have answered */
		return true;
	x->put_up += n;
	if (x->req.body == BODY_LENGTH &&
	    (x->put_up > x->req.length || (last && x->put_up != x->req.length))) {
		l7_over(l, true, "error", "the length of a body changed");
		return false;
	}
	if (x->req.body == BODY_CHUNKED)
		r = http_write_chunk(&x->req, p, n, &l->up.out);
	else if (n)
		r = side_send(&l->up, p, n);
	if (r == 0 && last)
		r = http_write_end(&x->req, &l->up.out);
	if (r < 0)
		l->up_failed = "the server closed the connection";
	return true;
}

/* One piece of content. False: the exchange is gone, or over. */
static bool content_up(struct exchange *x, const char *p, size_t n)
{
	bool last = x->req_body.done, ok;

	if (!x->out)
		return put_up(x, p, n, last);
	x->piece.len = 0;
	if (!l7_swap_body(x, p, n, last))
		return false;
	ok = put_up(x, x->piece.data, x->piece.len, last);
	wipe_empty(&x->piece);
	return ok;
}

/* Takes the framing off n bytes. Returns how many were used; -1: the exchange is gone. */
static long take_body(struct exchange *x, const char *p, size_t n)
{
	struct l7 *l = x->l7;
	size_t at = 0;

	while (at < n && !x->req_body.done) {
		const char *data;
		size_t len;
		long used = http_read_body(&x->req_body, p + at, n - at, &data, &len);

		if (used < 0) {
			l->up_failed = "the request was broken";
			l7_answer(l, 400, "http",
				  "a body that is not framed as it should be", true);
			return -1;
		}
		at += (size_t)used;
		if (x->request == REQ_COLLECT && buf_append(&x->piece, data, len) < 0)
			l7_over(l, true, "error", "out of memory");
		else if (x->request == REQ_BODY && (len || x->req_body.done) &&
			 !content_up(x, data, len))
			return -1;
	}
	return (long)at;
}

static void body_done(struct exchange *x)
{
	enum request_phase before = x->request;

	if (before == REQ_COLLECT) {
		collected(x);
		return;
	}
	x->request = REQ_DONE;
	if (before == REQ_DROP)
		exchange_free(x);
	else if (x->response == RES_DONE)
		l7_exchange_done(x);
}

/* Large and not looked into: through the kernel. */
static bool can_splice(const struct exchange *x)
{
	const struct l7 *l = x->l7;

	return x->request == REQ_BODY && !l->tls && !x->out &&
	       x->req.body == BODY_LENGTH && x->req_body.left >= L7_SPLICE &&
	       !side_queued(&l->up) && !l->up_failed;
}

static bool splice_body(struct exchange *x)
{
	struct l7 *l = x->l7;

	if (!x->up.on)
		flow_start(&x->up, &l->client, &l->up, x->req_body.left);
	switch (flow_run(l->c->egress, &x->up, &l->client, &l->up)) {
	case PUMP_MORE:
		return true;
	case PUMP_READ:
	case PUMP_WRITE:
		return false;
	case PUMP_END:
		if (x->up.pump.left) {
			l7_over(l, true, "error", cut_off);
			return true;
		}
		flow_clear(&x->up);
		x->req_body.done = true;
		body_done(x);
		return true;
	case PUMP_FAILED:
		break;
	}
	if (!x->up.pump.write_failed) {
		l7_over(l, true, "error", cut_off);
		return true;
	}
	x->req_body.left = x->up.pump.left;
	x->req_body.done = !x->req_body.left;
	flow_clear(&x->up);
	l->up_failed = "the server closed the connection";
	if (x->req_body.done)
		body_done(x);
	return true;
}

static bool read_body(struct exchange *x)
{
	struct l7 *l = x->l7;
	char *p = pump_buf(l->c->egress);
	size_t kept = side_unread(&l->client);
	ssize_t n;
	long used;

	if (!p || side_queued(&l->up) >= L7_HIGH)
		return false;
	if (kept) {
		used = take_body(x, l->client.in.data + l->client.in_at, kept);
		side_consume(&l->client, used < 0 ? kept : (size_t)used);
	} else {
		if (x->up.on || can_splice(x))
			return splice_body(x);
		n = side_read(&l->client, p, PUMP_BUF);
		if (n == -EAGAIN)
			return false;
		if (n <= 0) {
			l7_over(l, true, "error", cut_off);
			return true;
		}
		used = take_body(x, p, (size_t)n);
		if (used >= 0 && used < n &&
		    side_keep(&l->client, p + used, (size_t)(n - used)))
			l7_over(l, true, "error", "out of memory");
	}
	if (used >= 0 && x->req_body.done && !l->over)
		body_done(x);
	return true;
}

bool l7_step_request(struct l7 *l)
{
	if (l->closing && !l->x)
		return false;
	if (!l->x)
		return read_head(l);
	if (l->x->request == REQ_ASK || l->x->request == REQ_DONE)
		return false;
	return read_body(l->x);
}
