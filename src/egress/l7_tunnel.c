/* SPDX-License-Identifier: Apache-2.0 */
/*
 * l7_tunnel - after a 101 (WebSocket): bytes both ways.
 *
 * The request was judged, and secrets were put into its head. What the client's frames
 * carry is not looked into: it may mask them as it likes, so that no placeholder could be
 * found in them and no value is ever put into them. The server's are (l7_frames.c), if
 * there are secrets.
 */
#include "egress/l7.h"

#include "base/util.h"

static bool plain(const struct l7 *l)
{
	return !l->client.ch.ssl && !l->up.ch.ssl;
}

static void ended(struct l7 *l, bool broken)
{
	l7_over(l, broken, "allow", NULL);
}

static bool run_flow(struct l7 *l, struct flow *f, struct side *from, struct side *to)
{
	if (!f->on) {
		if (side_unread(from) || side_queued(to))
			return false; /* what came with the heads goes first */
		flow_start(f, from, to, PUMP_ALL);
	}
	switch (flow_run(l->c->egress, f, from, to)) {
	case PUMP_MORE:
		return true;
	case PUMP_END:
		ended(l, false);
		return true;
	case PUMP_FAILED:
		ended(l, true);
		return true;
	default:
		return false;
	}
}

static int pass_on(struct l7 *l, struct side *to, const char *p, size_t n)
{
	if (to == &l->client && l->tls && l->x && l->x->back) {
		int r = l7_swap_frames(l->x, p, n);

		if (r < 0)
			return r;
		p = l->x->piece.data;
		n = l->x->piece.len;
	}
	return n ? side_send(to, p, n) : 0;
}

static bool copy(struct l7 *l, struct side *from, struct side *to)
{
	char *p = pump_buf(l->c->egress);
	ssize_t n;

	if (!p || side_queued(to) >= L7_HIGH)
		return false;
	if (side_unread(from)) {
		if (pass_on(l, to, from->in.data + from->in_at, side_unread(from)) < 0)
			ended(l, true);
		side_consume(from, side_unread(from));
		return true;
	}
	if (plain(l))
		return false;
	n = side_read(from, p, PUMP_BUF);
	if (n == -EAGAIN)
		return false;
	if (n <= 0 && side_queued(to))
		return false; /* the end comes again, after what is queued */
	if (n <= 0)
		ended(l, n < 0);
	else if (pass_on(l, to, p, (size_t)n) < 0)
		ended(l, true);
	return true;
}

bool l7_step_tunnel(struct l7 *l)
{
	bool did = copy(l, &l->client, &l->up);

	if (!l->over)
		did |= copy(l, &l->up, &l->client);
	if (l->over || !plain(l))
		return did;
	did |= run_flow(l, &l->up_flow, &l->client, &l->up);
	if (!l->over)
		did |= run_flow(l, &l->down_flow, &l->up, &l->client);
	return did;
}
