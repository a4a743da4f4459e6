/* SPDX-License-Identifier: Apache-2.0 */
/* l7 - the carrier: start, events, deadlines, end. See l7.h. */
#include "egress/l7.h"

#include "base/util.h"

#include <sys/socket.h>

#define TURNS 16               /* of steps before others get theirs */
#define LINGER_READ (1u << 20) /* bytes thrown away while a client reads our answer */

void l7_over(struct l7 *l, bool reset, const char *verdict, const char *reason)
{
	if (l->over)
		return;
	l->over = true;
	l->reset = reset;
	l->verdict = verdict;
	l->reason = reason;
}

void l7_close(struct l7 *l, const char *verdict, const char *reason)
{
	l->closing = true;
	l->verdict = verdict;
	l->reason = reason;
}

/* ---- end ------------------------------------------------------------------------- */

static void l7_free(struct l7 *l)
{
	struct egress *e = l->c->egress;

	timer_stop(e->loop, &l->again);
	if (l->x)
		exchange_free(l->x);
	flow_clear(&l->up_flow);
	flow_clear(&l->down_flow);
	side_clear(&l->client);
	side_clear(&l->up);
	e->n_inspected -= l->counted;
	free(l);
}

static void carrier_end(struct conn *c)
{
	struct l7 *l = take_ptr(c->data);

	if (l->x)
		exchange_record(l->x, "deny", "the policy changed");
	l7_free(l);
}

/* A request that waits for an answer to a question is judged again with it. */
static bool carrier_stands(struct conn *c)
{
	const struct l7 *l = c->data;

	return !l->x || l->x->asking || l->x->request == REQ_DROP ||
	       l7_still_allowed(l->x);
}

static void finish(struct l7 *l)
{
	struct conn *c = l->c;
	const char *verdict = l->verdict, *reason = l->reason;
	bool reset = l->reset;

	if (l->x)
		exchange_record(l->x, verdict, reason);
	if (!reset && !l->shut)
		chan_shutdown(&l->client.ch);
	l7_free(l);
	c->data = NULL;
	c->carrier = NULL;
	if (reset)
		conn_reset(c, verdict, reason);
	else
		conn_end(c, verdict, reason);
}

/* ---- deadlines ------------------------------------------------------------------- */

static void on_deadline(struct timer *t);

static void due_in(struct l7 *l, enum l7_wait wait, int64_t ms)
{
	struct loop *loop = l->c->egress->loop;

	l->wait = wait;
	l->due_ms = loop_now(loop) + ms;
	/* A timer that rings early looks at due_ms and sleeps again: cheaper than moving
	 * it at every byte. */
	if (!l->c->timer.slot || l->c->timer.at_ms > l->due_ms)
		timer_start(loop, &l->c->timer, ms, on_deadline);
}

static enum l7_wait waits_for(const struct l7 *l)
{
	if (l->mode == L7_LINGER)
		return WAIT_LINGER;
	if (l->closing && !l->x)
		return l->refused ? WAIT_HEAD : WAIT_IDLE;
	if (l->client.ch.shaking || (l->up.ch.shaking && !l->up_failed))
		return WAIT_SHAKE;
	if (l->x)
		return l->x->asking ? WAIT_NONE : WAIT_IDLE;
	if (l->mode == L7_OPEN && (side_unread(&l->client) || !l->requests))
		return WAIT_HEAD;
	return WAIT_IDLE;
}

static void set_deadline(struct l7 *l, bool did)
{
	const struct egress_limits *limits = &l->c->egress->limits;
	enum l7_wait wait = waits_for(l);

	if (wait == l->wait && l->waited_at == l->requests && !(did && wait == WAIT_IDLE))
		return;
	l->waited_at = l->requests;
	if (wait == WAIT_SHAKE || wait == WAIT_HEAD)
		due_in(l, wait, limits->headers_ms);
	else if (wait == WAIT_LINGER)
		due_in(l, wait, limits->refuse_ms);
	else if (wait == WAIT_IDLE && limits->idle_ms > 0)
		due_in(l, wait, limits->idle_ms);
	else
		l->wait = wait; /* none: the timer finds nothing due */
	l->due_ms = wait == WAIT_NONE || (wait == WAIT_IDLE && !limits->idle_ms)
			    ? INT64_MAX
			    : l->due_ms;
}

static void too_late(struct l7 *l)
{
	bool can_answer = l->mode == L7_OPEN && !l->client.ch.shaking && !l->closing;

	if (l->wait == WAIT_LINGER)
		l7_over(l, false, l->verdict, l->reason);
	else if (l->wait == WAIT_HEAD && can_answer && side_unread(&l->client))
		l7_answer(l, 408, "http", "the request's head did not come in time",
			  true);
	else if (l->x && can_answer && !l->x->answered)
		l7_answer_upstream(l, 504, "the server did not answer in time");
	else if (!l->x && l->mode == L7_OPEN && !l->client.ch.shaking)
		l7_over(l, false, l->verdict, l->reason ? l->reason : "idle");
	else
		l7_over(l, true, "error",
			l->client.ch.shaking ? "the TLS handshake did not come in time"
					     : "nothing came in time");
}

static void on_deadline(struct timer *t)
{
	struct conn *c = container_of(t, struct conn, timer);
	struct l7 *l = c->data;
	int64_t now = loop_now(c->egress->loop);

	if (l->due_ms == INT64_MAX)
		return;
	if (now < l->due_ms) {
		timer_start(c->egress->loop, t, l->due_ms - now, on_deadline);
		return;
	}
	too_late(l);
	l->wait = WAIT_NONE;
	l7_run(l);
}

/* ---- steps ------------------------------------------------------------------------ */

static bool step_shake(struct l7 *l)
{
	int client = side_shake(&l->client);
	int up = l->up_failed ? 0 : side_shake(&l->up);

	if (client < 0)
		l7_over(l, true, "error", l->client.ch.why);
	if (up < 0)
		l->up_failed = l->up.ch.why;
	return client || up;
}

/* A server that has stopped reading may have said why: its answer is still read. */
static bool step_flush(struct l7 *l)
{
	int up = l->up_failed ? 0 : side_flush(&l->up);
	int client = side_flush(&l->client);

	if (up < 0)
		l->up_failed = "the server closed the connection";
	if (client < 0)
		l7_over(l, true, l->closing ? l->verdict : "allow",
			"the program closed the connection");
	return up || client;
}

/* All is written and no exchange is left: say so, then wait until the client has read
 * it, as closing with unread bytes would destroy what is on its way. */
static bool step_close(struct l7 *l)
{
	if (l->mode == L7_LINGER || !l->closing || side_queued(&l->client) || l->x)
		return false;
	if (chan_shutdown(&l->client.ch) == 0)
		l->client.ready &= ~(uint32_t)EPOLLOUT;
	l->shut = true;
	l->mode = L7_LINGER;
	return true;
}

static bool step_linger(struct l7 *l)
{
	char *p = pump_buf(l->c->egress);
	ssize_t n = p ? side_read(&l->client, p, PUMP_BUF) : 0;

	if (n == -EAGAIN)
		return false;
	l->lingered += n > 0 ? (uint64_t)n : 0;
	if (n <= 0 || l->lingered > LINGER_READ)
		l7_over(l, false, l->verdict, l->reason);
	return true;
}

static bool step(struct l7 *l)
{
	bool did = step_shake(l);

	if (l->over)
		return true;
	if (l->mode == L7_OPEN) {
		did |= l7_step_request(l);
		if (!l->over)
			did |= l7_step_response(l);
	} else if (l->mode == L7_TUNNEL) {
		did |= l7_step_tunnel(l);
	} else {
		did |= step_linger(l);
	}
	if (!l->over)
		did |= step_flush(l);
	if (!l->over)
		did |= step_close(l);
	return did;
}

static void on_again(struct timer *t)
{
	l7_run(container_of(t, struct l7, again));
}

/* Nothing that a server sent stays in the buffer that all connections share. */
static void forget_read(struct l7 *l)
{
	if (l->up.read_max)
		explicit_bzero(pump_buf(l->c->egress), l->up.read_max);
	l->up.read_max = 0;
}

void l7_run(struct l7 *l)
{
	bool did = true, any = false;

	if (l->running)
		return;
	l->running = true;
	for (int i = 0; i < TURNS && did && !l->over; i++) {
		did = step(l);
		any |= did;
	}
	l->running = false;
	forget_read(l);
	if (l->over) {
		finish(l);
		return;
	}
	if (did)
		timer_start(l->c->egress->loop, &l->again, 0, on_again);
	if (!l->x) {
		side_rest(&l->client);
		side_rest(&l->up);
	}
	set_deadline(l, any);
}

static void on_client(struct watch *w, uint32_t events)
{
	struct l7 *l = container_of(w, struct conn, cw)->data;

	side_ready(&l->client, events);
	if (events & (EPOLLHUP | EPOLLERR) && !l->closing && l->mode == L7_OPEN)
		l7_over(l, true, "allow", "the program closed the connection");
	l7_run(l);
}

static void on_upstream(struct watch *w, uint32_t events)
{
	struct l7 *l = container_of(w, struct conn, uw)->data;

	side_ready(&l->up, events);
	l7_run(l);
}

/* ---- start ------------------------------------------------------------------------ */

static const struct carrier l7_carrier = {.end = carrier_end, .stands = carrier_stands};

static int open_sides(struct l7 *l)
{
	struct conn *c = l->c;
	struct egress *e = c->egress;
	char text[ADDR_TEXT];
	int r = 0;

	if (!l->tls) {
		chan_plain(&l->client.ch, c->client);
		chan_plain(&l->up.ch, c->upstream);
		return 0;
	}
	r = chan_server(&l->client.ch, c->client, e->authority, conn_host(c, text));
	if (r == 0)
		r = chan_client(&l->up.ch, c->upstream, e->authority,
				c->name ? c->name->text : NULL, &c->ip);
	return r;
}

void l7_start(struct conn *c, bool tls)
{
	struct egress *e = c->egress;
	struct l7 *l = NULL;

	/* Plain HTTP to a host that is allowed as a whole needs next to no memory. */
	bool counted = tls || c->decision.verdict == VERDICT_INSPECT;

	if (!counted || e->n_inspected < e->limits.inspected)
		l = calloc(1, sizeof(*l));
	if (!l) {
		e->limited++;
		refuse_start(c, "limit:inspected", "too many connections are inspected");
		return;
	}
	*l = (struct l7){.c = c, .tls = tls, .counted = counted, .verdict = "allow"};
	e->n_inspected += counted;
	side_init(&l->client, &c->received);
	side_init(&l->up, &c->sent);
	conn_decided(c);
	c->stage = CONN_OPEN;
	if (open_sides(l) < 0 ||
	    watch_start(e->loop, &c->cw, c->client, CONN_EVENTS, on_client) < 0 ||
	    watch_start(e->loop, &c->uw, c->upstream, CONN_EVENTS, on_upstream) < 0) {
		l7_free(l);
		conn_reset(c, "error", "the connection cannot be opened");
		return;
	}
	c->carrier = &l7_carrier;
	c->data = l;
	l7_run(l);
}
