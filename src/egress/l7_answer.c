/* SPDX-License-Identifier: Apache-2.0 */
/* l7_answer - exchanges begin and end, and those that we answer ourselves. */
#include "egress/l7.h"

#include "base/util.h"
#include "egress/wipe.h"

#include <stdio.h>

struct exchange *exchange_new(struct l7 *l)
{
	struct exchange *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->l7 = l;
	x->sent = l->c->sent;
	x->received = l->c->received;
	buf_init(&x->piece, L7_PIECE);
	return x;
}

void exchange_free(struct exchange *x)
{
	struct l7 *l = x->l7;

	if (x->asking)
		control_forget(l->c->egress, &x->question);
	timer_stop(l->c->egress->loop, &x->held);
	flow_clear(&x->up);
	flow_clear(&x->down);
	swap_stream_free(x->out);
	swap_stream_free(x->back);
	http_head_clear(&x->req);
	http_head_clear(&x->res);
	wipe_clear(&x->piece);
	free(x->path[0]);
	free(x->path[1]);
	free(x->log_path);
	if (l->x == x)
		l->x = NULL;
	free(x);
}

void exchange_record(struct exchange *x, const char *verdict, const char *reason)
{
	const struct conn *c = x->l7->c;
	struct record r = {.kind = "request",
			   .conn = c,
			   .verdict = verdict,
			   .rule = x->rule,
			   .reason = reason,
			   .method = x->req.method,
			   .path = x->log_path,
			   .status = (int)x->status,
			   .sent = c->sent - x->sent,
			   .received = c->received - x->received};

	if (!x->recorded)
		egress_record(c->egress, &r);
	x->recorded = true;
}

void l7_exchange_done(struct exchange *x)
{
	struct l7 *l = x->l7;

	exchange_record(x, "allow", NULL);
	if (!x->keep)
		l7_close(l, "allow", NULL);
	exchange_free(x);
}

static const char *phrase(unsigned status)
{
	static const struct {
		unsigned status;
		const char *phrase;
	} known[] = {
		{400, "Bad Request"                    },
		{403, "Forbidden"                      },
		{408, "Request Timeout"                },
		{413, "Content Too Large"              },
		{431, "Request Header Fields Too Large"},
		{502, "Bad Gateway"                    },
		{504, "Gateway Timeout"                },
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (known[i].status == status)
			return known[i].phrase;
	return "Refused";
}

static int put_answer(struct l7 *l, unsigned status, const char *rule, const char *reason,
		      bool keep)
{
	const struct http_head *req = l->x ? &l->x->req : NULL;
	bool head = req && req->method && strcmp(req->method, "HEAD") == 0;
	cleanup_buf struct buf body = BUF_INIT(64u << 10);
	int r = refuse_body(l->c, rule, reason, &body);

	if (r == 0)
		r = buf_printf(&l->client.out,
			       "HTTP/1.1 %u %s\r\n"
			       "Content-Type: application/json\r\n"
			       "Cache-Control: no-store\r\n"
			       "Content-Length: %zu\r\n"
			       "%s\r\n",
			       status, phrase(status), body.len,
			       !keep                ? "Connection: close\r\n"
			       : req && req->http10 ? "Connection: keep-alive\r\n"
						    : "");
	if (r == 0 && !head)
		r = buf_append(&l->client.out, body.data, body.len);
	return r;
}

/* Can what is left of a request be thrown away cheaply, so that the next is found? */
static bool rest_is_small(const struct exchange *x)
{
	if (x->req_body.done)
		return true;
	return x->req.body == BODY_LENGTH && x->req_body.left <= L7_DROP &&
	       !x->req.expect;
}

void l7_answer(struct l7 *l, unsigned status, const char *rule, const char *reason,
	       bool close)
{
	struct exchange *x = l->x;
	bool keep = !close && x && x->req.keep_alive && rest_is_small(x);
	const char *verdict = status >= 500 ? "error" : "deny";

	if (x && x->answered) { /* too late for words */
		l7_over(l, true, verdict, reason);
		return;
	}
	if (put_answer(l, status, rule, reason, keep) < 0) {
		l7_over(l, true, verdict, reason);
		return;
	}
	if (x) {
		x->status = status;
		if (rule != x->rule)
			snprintf(x->rule, sizeof(x->rule), "%s", rule);
		exchange_record(x, verdict, reason);
	}
	if (keep) {
		x->answered = true;
		x->request = x->req_body.done ? REQ_DONE : REQ_DROP;
		x->response = RES_DONE;
		if (x->request == REQ_DONE)
			exchange_free(x);
		return;
	}
	l->refused = true;
	/* The request's line in the log says it; without one the connection's does. */
	l7_close(l, x ? "allow" : verdict, x ? NULL : reason);
	if (x)
		exchange_free(x);
}

void l7_answer_upstream(struct l7 *l, unsigned status, const char *reason)
{
	/* The connection to the server is of no use after this. */
	l->up_failed = reason;
	l7_answer(l, status, "upstream", reason, true);
}

void l7_violation(struct exchange *x, const char *secret)
{
	struct l7 *l = x->l7;
	struct record r = {.kind = "secret",
			   .conn = l->c,
			   .verdict = "deny",
			   .rule = x->rule,
			   .reason = "a placeholder was sent where its secret may not go",
			   .method = x->req.method,
			   .path = x->log_path,
			   .secret = secret};

	egress_record(l->c->egress, &r);
	control_violation(l->c->egress, l->c, secret);
	l->up_failed = "a placeholder was sent where its secret may not go";
	l7_answer(l, 403, "secret", l->up_failed, true);
}
