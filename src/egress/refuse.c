/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refuse - a refusal that the program understands: 403 with the reason for HTTP, an alert
 * for TLS, a reset for the rest.
 *
 * Waits for the first bytes, answers, and then reads on for a moment: closing while the
 * program still sends would reset the connection and take the answer away. Each of the
 * phases (first bytes, the rest of a head, reading on) has limits.refuse_ms.
 */
#include "egress/conn_impl.h"
#include "egress/hello.h"
#include "egress/pass.h"

#include "base/util.h"

#include <stdio.h>
#include <sys/socket.h>

#define HEAD_MAX (64u << 10) /* read before the answer at most */
#define DRAIN_MAX (1u << 20) /* and after it */
#define BODY_MAX (16u << 10)

enum phase { FIRST, HEAD, DRAIN };

struct refusal {
	enum phase phase;
	bool no_body;     /* the request is HEAD */
	unsigned matched; /* bytes of the empty line that ends a head */
	size_t got;
	char *rule, *reason;
};

static void refusal_free(struct conn *c)
{
	struct refusal *r = take_ptr(c->data);

	if (!r)
		return;
	free(r->rule);
	free(r->reason);
	free(r);
	c->carrier = NULL;
}

static const struct carrier refuse_carrier = {.end = refusal_free};

static void finish(struct conn *c, bool reset)
{
	refusal_free(c);
	if (reset)
		conn_reset(c, "deny", NULL);
	else
		conn_end(c, "deny", NULL);
}

/* What somebody can do about it who may. */
static void how_to(const struct conn *c, const char *rule, const char *host, char *out,
		   size_t size)
{
	const char *open = strchr(host, ':') ? "[" : "", *close = *open ? "]" : "";
	const char *name = c->egress->name;

	if (rule && strcmp(rule, "exec:offline") == 0)
		snprintf(out, size, "start the command without --offline");
	else if (*name)
		snprintf(out, size, "on the host: cove net allow %s %s%s%s:%u", name,
			 open, host, close, c->port);
	else
		snprintf(out, size, "on the host: cove run --allow %s%s%s:%u", open, host,
			 close, c->port);
}

int refuse_body(const struct conn *c, const char *rule, const char *reason,
		struct buf *out)
{
	char text[ADDR_TEXT], how[512], *dump;
	const char *host = conn_host(c, text);
	json_t *o;
	int r;

	how_to(c, rule, host, how, sizeof(how));
	o = json_pack("{s:s, s:s*, s:s*, s:s, s:i, s:s}", "error", "denied by cove",
		      "rule", rule, "reason", reason, "host", host, "port", (int)c->port,
		      "how", how);
	dump = o ? json_dumps(o, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
	json_decref(o);
	if (!dump)
		return -ENOMEM;
	r = buf_puts(out, dump);
	free(dump);
	return r < 0 ? r : buf_puts(out, "\n");
}

/* ---- answers -------------------------------------------------------------------- */

static void drained(struct timer *t)
{
	finish(container_of(t, struct conn, timer), false);
}

/* A new connection has room for an answer; if it has not, there is none. False: gone. */
static bool answer(struct conn *c, const void *p, size_t n)
{
	struct refusal *r = c->data;

	if (send(c->client, p, n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)n) {
		finish(c, true);
		return false;
	}
	shutdown(c->client, SHUT_WR);
	r->phase = DRAIN;
	r->got = 0;
	timer_start(c->egress->loop, &c->timer, c->egress->limits.refuse_ms, drained);
	return true;
}

static bool answer_tls(struct conn *c)
{
	static const uint8_t alert[] = {21, 3, 3, 0, 2, 2 /* fatal */,
					49 /* access_denied */};

	return answer(c, alert, sizeof(alert));
}

static bool answer_http(struct conn *c)
{
	struct refusal *r = c->data;
	struct buf body = BUF_INIT(BODY_MAX), text = BUF_INIT(BODY_MAX + 512);
	int ok = refuse_body(c, r->rule, r->reason, &body);
	bool alive = false;

	if (ok == 0)
		ok = buf_printf(&text,
				"HTTP/1.1 403 Forbidden\r\n"
				"Content-Type: application/json\r\n"
				"Content-Length: %zu\r\n"
				"Cache-Control: no-store\r\n"
				"Connection: close\r\n\r\n",
				body.len);
	if (ok == 0 && !r->no_body)
		ok = buf_append(&text, body.data, body.len);
	if (ok == 0)
		alive = answer(c, text.data, text.len);
	else
		finish(c, true);
	buf_clear(&body);
	buf_clear(&text);
	return alive;
}

/* ---- what the program sends ----------------------------------------------------- */

static void no_head(struct timer *t)
{
	answer_http(container_of(t, struct conn, timer));
}

static void no_bytes(struct timer *t)
{
	finish(container_of(t, struct conn, timer), true);
}

/* Which protocol? Nothing is consumed. False: wait, or it is gone. */
static bool look(struct conn *c, uint32_t events)
{
	struct refusal *r = c->data;
	struct hello h;
	uint8_t p[64];
	ssize_t n = recv(c->client, p, sizeof(p), MSG_PEEK | MSG_DONTWAIT);
	enum first_kind kind;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		finish(c, n < 0);
		return false;
	}
	if (n >= 3 && p[0] == 22 && p[1] == 3) { /* need not be complete to be TLS */
		return answer_tls(c);
	}
	kind = first_look(p, (size_t)n, &h);
	if (kind == FIRST_MORE && !(events & EPOLLRDHUP))
		return false;
	if (kind != FIRST_HTTP) {
		finish(c, true);
		return false;
	}
	r->no_body = n >= 5 && memcmp(p, "HEAD ", 5) == 0;
	r->phase = HEAD;
	timer_start(c->egress->loop, &c->timer, c->egress->limits.refuse_ms, no_head);
	return true;
}

/* Does the head end in these bytes? */
static bool head_ends(struct refusal *r, const char *p, size_t n)
{
	static const char end[] = "\r\n\r\n";

	for (size_t i = 0; i < n; i++) {
		if (p[i] == end[r->matched])
			r->matched++;
		else
			r->matched = p[i] == end[0];
		if (!end[r->matched])
			return true;
	}
	return false;
}

/* Counts what was read; false: it is gone. */
static bool took(struct conn *c, const char *p, size_t n)
{
	struct refusal *r = c->data;

	r->got += n;
	if (r->phase == HEAD && (head_ends(r, p, n) || r->got >= HEAD_MAX))
		return answer_http(c);
	if (r->got < DRAIN_MAX)
		return true;
	finish(c, false);
	return false;
}

/* Reads what is there. */
static void consume(struct conn *c)
{
	char *buf = pump_buf(c->egress);
	ssize_t n = -1;

	errno = ENOMEM;
	while (buf && (n = recv(c->client, buf, PUMP_BUF, MSG_DONTWAIT)) > 0)
		if (!took(c, buf, (size_t)n))
			return;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return; /* the next edge, or the timer */
	if (n < 0 || ((struct refusal *)c->data)->phase != HEAD)
		finish(c, n < 0);
	else if (answer_http(c)) /* and nothing more will come */
		finish(c, false);
}

static void ready(struct watch *w, uint32_t events)
{
	struct conn *c = container_of(w, struct conn, cw);
	struct refusal *r = c->data;

	if (r->phase == FIRST && !look(c, events))
		return;
	consume(c);
}

void refuse_start(struct conn *c, const char *rule, const char *reason)
{
	struct egress *e = c->egress;
	struct refusal *r = calloc(1, sizeof(*r));
	struct record line = {.kind = "connect",
			      .conn = c,
			      .verdict = "deny",
			      .rule = rule,
			      .reason = reason,
			      .sent = c->sent,
			      .received = c->received,
			      .port = c->port};

	egress_record(e, &line);
	e->denied++;
	c->recorded = true;
	conn_decided(c);
	conn_release(c);
	close_fd(&c->upstream);
	c->stage = CONN_REFUSE;
	c->data = r;
	c->carrier = &refuse_carrier;
	if (r) {
		r->rule = rule ? strdup(rule) : NULL;
		r->reason = reason ? strdup(reason) : NULL;
	}
	/* In the middle of what the server said, an answer of ours would be nonsense. */
	if (!r || c->received ||
	    watch_start(e->loop, &c->cw, c->client, CONN_EVENTS, ready) < 0) {
		finish(c, true);
		return;
	}
	timer_start(e->loop, &c->timer, e->limits.refuse_ms, no_bytes);
}
