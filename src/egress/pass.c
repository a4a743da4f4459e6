/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pass - both directions of a connection that is carried as bytes.
 *
 * Both sockets are registered once, edge-triggered, and never changed. That is right
 * because a pump stops only in one of three states: it has read all there was (the next
 * byte is an edge), it could not write (the next room is an edge), or its share of the
 * turn is used up (a timer of 0 ms calls it again).
 */
#include "egress/pass.h"

#include "egress/conn_impl.h"

#include "base/util.h"

#include <sys/socket.h>

#define ENDED (EPOLLRDHUP | EPOLLHUP | EPOLLERR)

struct way {
	struct pump pump;
	enum pump_state state;
};

struct pass {
	struct conn *conn;
	struct way out, back; /* client to upstream, and the other way */
	void (*gate)(struct conn *c, bool ended); /* NULL: open */
	struct timer again;
	int64_t active_ms;
};

static void client_ready(struct watch *w, uint32_t events);
static void upstream_ready(struct watch *w, uint32_t events);

static void pass_free(struct conn *c)
{
	struct pass *p = take_ptr(c->data);

	if (!p)
		return;
	timer_stop(c->egress->loop, &p->again);
	pump_clear(&p->out.pump);
	pump_clear(&p->back.pump);
	free(p);
	c->carrier = NULL;
}

static const struct carrier pass_carrier = {.end = pass_free};

void pass_leave(struct conn *c)
{
	pass_free(c);
	conn_release(c);
}

/* ---- turns ---------------------------------------------------------------------- */

/* False: the connection cannot go on. */
static bool run(struct egress *e, struct way *w, const struct way *other)
{
	if (w->state == PUMP_END)
		return true;
	w->state = pump_run(e, &w->pump);
	if (w->state == PUMP_FAILED)
		return false;
	if (w->state == PUMP_END && other->state != PUMP_END)
		shutdown(w->pump.to, SHUT_WR); /* the other way goes on */
	return true;
}

static void broken(struct conn *c, const struct way *out, const struct way *w)
{
	bool client = (w == out) != w->pump.write_failed;
	const char *why = client ? "the program reset the connection"
				 : "the server reset the connection";

	if (w->pump.error == ENOMEM)
		why = "out of memory";
	else if (w->pump.error == ETIMEDOUT)
		why = "the other end is gone";
	pass_free(c);
	conn_reset(c, "allow", why);
}

static void again(struct timer *t);

/* Runs the ways that are asked for. False: the connection is gone. */
static bool turn(struct conn *c, bool out, bool back)
{
	struct pass *p = c->data;

	if (back && !run(c->egress, &p->back, &p->out)) {
		broken(c, &p->out, &p->back);
		return false;
	}
	if (out && !p->gate && !run(c->egress, &p->out, &p->back)) {
		broken(c, &p->out, &p->out);
		return false;
	}
	if (p->out.state == PUMP_END && p->back.state == PUMP_END) {
		pass_free(c);
		conn_end(c, "allow", NULL);
		return false;
	}
	p->active_ms = loop_now(c->egress->loop);
	if (p->out.state == PUMP_MORE || p->back.state == PUMP_MORE)
		timer_start(c->egress->loop, &p->again, 0, again);
	return true;
}

static void again(struct timer *t)
{
	struct pass *p = container_of(t, struct pass, again);

	turn(p->conn, p->out.state == PUMP_MORE, p->back.state == PUMP_MORE);
}

/* What one end's event means for the pump that reads from it and the one that writes. */
static bool may_read(struct way *from, uint32_t events)
{
	if (events & ENDED)
		from->pump.hup = true;
	if (events & EPOLLPRI)
		from->pump.urgent = true;
	return events & (EPOLLIN | EPOLLPRI | ENDED);
}

static bool may_write(const struct way *to, uint32_t events)
{
	return to->state == PUMP_WRITE && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP));
}

/* A reset after the end of what it had to say is still a reset, and so is one by a
 * program whose last bytes the server does not take. */
static bool is_reset(const struct pass *p, uint32_t client_events,
		     uint32_t upstream_events)
{
	return (client_events & EPOLLERR &&
		(p->out.state == PUMP_END || p->out.state == PUMP_WRITE)) ||
	       (upstream_events & EPOLLERR && p->back.state == PUMP_END);
}

static void set_idle(struct conn *c);

void pass_kick(struct conn *c, uint32_t client_events, uint32_t upstream_events)
{
	struct pass *p = c->data;
	bool out = may_read(&p->out, client_events), gated = out && p->gate;
	bool back = may_read(&p->back, upstream_events);

	out |= may_write(&p->out, upstream_events);
	back |= may_write(&p->back, client_events);
	if (client_events & ENDED && !p->gate)
		set_idle(c);
	if ((out || back) && !turn(c, out, back))
		return;
	if (is_reset(p, client_events, upstream_events)) {
		pass_free(c);
		conn_reset(c, "allow", "reset by the other end");
	} else if (gated) {
		p->gate(c, p->out.pump.hup);
	}
}

static void client_ready(struct watch *w, uint32_t events)
{
	pass_kick(container_of(w, struct conn, cw), events, 0);
}

static void upstream_ready(struct watch *w, uint32_t events)
{
	pass_kick(container_of(w, struct conn, uw), 0, events);
}

/* 0: for ever. A program that has ended its side may be gone altogether. */
static int64_t idle_limit(const struct conn *c)
{
	const struct egress_limits *l = &c->egress->limits;
	const struct pass *p = c->data;
	bool half = p->out.pump.hup && l->half_ms;

	return half && (!l->idle_ms || l->half_ms < l->idle_ms) ? l->half_ms : l->idle_ms;
}

static void idle(struct timer *t)
{
	struct conn *c = container_of(t, struct conn, timer);
	const struct pass *p = c->data;
	int64_t left = p->active_ms + idle_limit(c) - loop_now(c->egress->loop);

	if (left > 0) {
		timer_start(c->egress->loop, t, left, idle);
		return;
	}
	pass_free(c);
	conn_reset(c, "allow", "idle for too long");
}

/* ---- beginnings ----------------------------------------------------------------- */

/* Keeps a registration that is ours already. */
static int adopt(struct conn *c, struct watch *w, int fd,
		 void (*fn)(struct watch *, uint32_t))
{
	if (w->active && w->events == CONN_EVENTS) {
		w->fn = fn;
		return 0;
	}
	watch_stop(c->egress->loop, w);
	return watch_start(c->egress->loop, w, fd, CONN_EVENTS, fn);
}

static void set_idle(struct conn *c)
{
	int64_t ms = idle_limit(c);

	if (ms > 0)
		timer_start(c->egress->loop, &c->timer, ms, idle);
	else
		timer_stop(c->egress->loop, &c->timer);
}

int pass_begin(struct conn *c, void (*gate)(struct conn *, bool))
{
	struct pass *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	p->conn = c;
	p->gate = gate;
	p->active_ms = loop_now(c->egress->loop);
	pump_init(&p->out.pump, c->client, c->upstream, PUMP_ALL, &c->sent);
	pump_init(&p->back.pump, c->upstream, c->client, PUMP_ALL, &c->received);
	c->data = p;
	c->carrier = &pass_carrier;
	c->stage = gate ? CONN_FIRST : CONN_PASS;
	set_idle(c);
	r = adopt(c, &c->cw, c->client, client_ready);
	if (r == 0)
		r = adopt(c, &c->uw, c->upstream, upstream_ready);
	if (r < 0)
		pass_free(c);
	return r;
}

void pass_open(struct conn *c)
{
	struct pass *p = c->data;

	p->gate = NULL;
	c->stage = CONN_PASS;
	set_idle(c);
	turn(c, true, false);
}
