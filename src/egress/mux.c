/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mux - a machine's connections, which come over one stream (ipc/muxend.h).
 *
 * Each is one half of a socket pair, of which the connection's code has the other: a half
 * that was closed, ended or left unread looks to it as a TCP socket would, but for one
 * thing. A pair knows no reset by itself, so both of its kinds are made here: ours goes
 * to the guest as a frame (mux_reset), and the program's is a half that is closed with a
 * byte unread, which its other half sees as ECONNRESET (on_ended).
 *
 * The guest is hostile. What breaks the rules of the stream ends it: the sandbox has no
 * network from then on.
 */
#include "egress/mux.h"

#include "egress/conn_impl.h"
#include "egress/dns.h"

#include "base/util.h"
#include "ipc/muxend.h"

#include <sys/socket.h>

struct mux {
	struct egress *egress;
	struct muxend *end;
	struct watch watch;
	struct timer again;
};

/* ---- turns ---------------------------------------------------------------------- */

static void failed(struct egress *e, int r)
{
	const char *why = r == -EPIPE    ? "the machine has ended its network"
			  : r == -EPROTO ? "the machine broke the rules of its network, "
					   "which is stopped"
					 : strerrordesc_np(-r);

	egress_record(e, &(struct record){
				 .kind = "connect", .verdict = "error", .reason = why});
	egress_unlisten(e);
}

static void again(struct timer *t);

static void run(struct mux *x)
{
	int r = muxend_turn(x->end, 0);

	if (r < 0)
		failed(x->egress, r);
	else if (r > 0)
		timer_start(x->egress->loop, &x->again, 0, again);
}

static void again(struct timer *t)
{
	run(container_of(t, struct mux, again));
}

static void ready(struct watch *w, uint32_t events)
{
	(void)events;
	run(container_of(w, struct mux, watch));
}

/* What was queued outside of a turn goes out at the end of this one. */
static void kick(struct mux *x)
{
	if (!x->again.slot)
		timer_start(x->egress->loop, &x->again, 0, again);
}

/* ---- connections ---------------------------------------------------------------- */

/* Three descriptors a connection, where the limit was made for two. */
static unsigned room_for(const struct egress *e)
{
	return e->limits.conns / 3 * 2;
}

static void on_open(void *arg, struct mux_stream *s, const struct netmux_ends *ends)
{
	struct egress *e = ((struct mux *)arg)->egress;
	int pair[2] = {-1, -1};

	if (e->n_conns >= room_for(e) ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) <
		    0 ||
	    muxend_attach(s, &pair[0]) < 0) {
		closep(&pair[0]);
		closep(&pair[1]);
		egress_limited(e);
		return;
	}
	conn_open(e, pair[1], ends, s);
}

static void on_ended(void *arg, void *owner, bool reset)
{
	struct conn *c = owner;

	(void)arg;
	c->stream = NULL;
	if (!reset || send(c->client, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 ||
	    errno != EPIPE)
		return; /* with EAGAIN there is enough unread */
	/* Its own direction has ended, so there is no byte that could be left unread: a
	 * carrier of bytes would take the reset for an end, and tell the server so. */
	if (c->stage == CONN_PASS && c->carrier) {
		c->carrier->end(c);
		conn_reset(c, "allow", "the program reset the connection");
	}
}

void mux_reset(struct conn *c)
{
	muxend_reset(take_ptr(c->stream));
	kick(c->egress->mux);
}

/* ---- others --------------------------------------------------------------------- */

static void on_dgram(void *arg, const struct netmux_ends *ends, const uint8_t *p,
		     size_t n)
{
	dns_serve_datagram(((struct mux *)arg)->egress, ends, p, n);
}

void mux_dgram(struct egress *e, const struct netmux_ends *ends, const uint8_t *p,
	       size_t n)
{
	if (e->mux && muxend_dgram(e->mux->end, ends, p, n) == 0)
		kick(e->mux);
}

static void on_who_is(void *arg, uint32_t id, const struct netmux_who *w)
{
	control_guest_says(((struct mux *)arg)->egress, id, w);
}

int mux_who(struct egress *e, uint32_t id, const struct netmux_ends *ends)
{
	int r = muxend_who(e->mux->end, id, ends);

	if (r == 0)
		kick(e->mux);
	return r;
}

/* ---- beginning and end ---------------------------------------------------------- */

static const struct muxend_ops ops = {
	.open = on_open, .ended = on_ended, .dgram = on_dgram, .who_is = on_who_is};

int egress_stream(struct egress *e, int fd, const uint8_t nonce[NETMUX_NONCE])
{
	cleanup_fd int port = fd;
	struct mux *x;
	int r;

	if (e->listeners || e->mux)
		return -EBUSY;
	x = calloc(1, sizeof(*x));
	if (!x)
		return -ENOMEM;
	x->egress = e;
	r = muxend_new(&x->end, &port, nonce, room_for(e), &ops, x);
	if (r == 0)
		r = watch_start(e->loop, &x->watch, muxend_fd(x->end), EPOLLIN, ready);
	if (r < 0) {
		muxend_free(x->end);
		free(x);
		return r;
	}
	e->mux = x;
	return 0;
}

void mux_stop(struct egress *e)
{
	struct mux *x = take_ptr(e->mux);

	if (!x)
		return;
	timer_stop(e->loop, &x->again);
	watch_stop(e->loop, &x->watch);
	muxend_free(x->end);
	free(x);
}
