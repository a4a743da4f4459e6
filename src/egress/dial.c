/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dial - from a decision to a connected upstream.
 *
 * Every address is checked, and exactly the addresses that passed are dialled: nothing is
 * looked up again in between. The next address is tried when one fails, or beside it when
 * it has not answered within STAGGER_MS; the first that answers is taken.
 */
#include "egress/conn_impl.h"

#include "base/util.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

#define STAGGER_MS 250

static void attempt_stop(struct egress *e, struct attempt *a)
{
	if (!a->watch.active)
		return;
	watch_forget(e->loop, &a->watch);
	close(a->watch.fd);
}

void dial_clear(struct pending *p)
{
	struct egress *e = p->conn->egress;

	lookup_cancel(&p->lookup);
	timer_stop(e->loop, &p->next_try);
	for (size_t i = 0; i < ARRAY_LEN(p->attempts); i++)
		attempt_stop(e, &p->attempts[i]);
}

static void give_up(struct conn *c, const char *reason)
{
	pending_free(c);
	conn_reset(c, "error", reason);
}

/* ---- attempts ------------------------------------------------------------------- */

static void try_next(struct pending *p);

static void connected(struct attempt *a, uint32_t events)
{
	struct pending *p = a->pending;
	struct conn *c = p->conn;

	c->dialled = a->addr;
	c->upstream = a->watch.fd;
	watch_move(c->egress->loop, &c->uw, &a->watch);
	pending_free(c);
	first_start(c, events);
}

static void attempt_ready(struct watch *w, uint32_t events)
{
	struct attempt *a = container_of(w, struct attempt, watch);
	struct pending *p = a->pending;
	socklen_t n = sizeof(p->error);

	if (events & (EPOLLERR | EPOLLHUP)) {
		if (getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &p->error, &n) < 0)
			p->error = errno;
		if (!p->error)
			p->error = ECONNREFUSED;
		attempt_stop(p->conn->egress, a);
		try_next(p);
		return;
	}
	if (events & EPOLLOUT)
		connected(a, events);
}

static int attempt_start(struct attempt *a)
{
	struct conn *c = a->pending->conn;
	struct sockaddr_storage sa;
	socklen_t n = addr_to_sockaddr(&a->addr, c->port, &sa);
	cleanup_fd int fd = socket(
		sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
	int one = 1, r;

	if (fd < 0)
		return -errno;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	if (addr_classify(&a->addr) == ADDR_LOOPBACK) /* as in listen.c */
		setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
	if (connect(fd, (struct sockaddr *)&sa, n) < 0 && errno != EINPROGRESS)
		return -errno;
	r = watch_start(c->egress->loop, &a->watch, fd, CONN_EVENTS, attempt_ready);
	if (r == 0)
		take_fd(&fd);
	return r;
}

static void stagger(struct timer *t)
{
	try_next(container_of(t, struct pending, next_try));
}

static struct attempt *free_attempt(struct pending *p, bool *ret_any)
{
	struct attempt *found = NULL;

	for (size_t i = 0; i < ARRAY_LEN(p->attempts); i++) {
		if (p->attempts[i].watch.active)
			*ret_any = true;
		else
			found = &p->attempts[i];
	}
	return found;
}

static void try_next(struct pending *p)
{
	struct conn *c = p->conn;
	bool any = false;
	struct attempt *a = free_attempt(p, &any);
	int r = 0;

	while (a && p->next < p->n_addrs) {
		a->pending = p;
		a->addr = p->addrs[p->next++];
		c->dialled = a->addr; /* for the log, should all of them fail */
		r = attempt_start(a);
		if (r == 0) {
			if (p->next < p->n_addrs)
				timer_start(c->egress->loop, &p->next_try, STAGGER_MS,
					    stagger);
			return;
		}
		p->error = -r;
	}
	if (!any) /* or one still may answer */
		give_up(c, strerrordesc_np(p->error));
}

static void too_late(struct timer *t)
{
	struct conn *c = container_of(t, struct conn, timer);

	give_up(c, "the host did not answer in time");
}

/* ---- addresses ------------------------------------------------------------------ */

/* Keeps those that may be dialled; with none left the connection is refused. */
static void dial_checked(struct conn *c, const struct addr *addrs, size_t n)
{
	struct egress *e = c->egress;
	struct pending *p = c->data;
	enum addr_class class = ADDR_PUBLIC;
	char reason[192], text[ADDR_TEXT] = "";

	for (size_t i = 0; i < n && p->n_addrs < ARRAY_LEN(p->addrs); i++) {
		enum addr_class no = conn_address(c, &addrs[i]);

		if (!no) {
			p->addrs[p->n_addrs++] = addrs[i];
			continue;
		}
		class = no;
		addr_text(&addrs[i], text);
	}
	if (p->n_addrs) {
		c->stage = CONN_DIAL;
		timer_start(e->loop, &c->timer, e->limits.dial_ms, too_late);
		try_next(p);
		return;
	}
	if (!class) {
		give_up(c, "the name has no address");
		return;
	}
	snprintf(reason, sizeof(reason), "%s%s is a %s address, which no rule names",
		 c->name ? "it resolves to an address that is not public: " : "", text,
		 addr_class_name(class));
	pending_free(c);
	refuse_start(c, c->decision.id, reason);
}

/* What was checked by the old policy is not dialled by the new one. */
bool dial_stands(struct conn *c)
{
	const struct pending *p = c->data;

	for (size_t i = 0; i < p->n_addrs; i++)
		if (conn_address(c, &p->addrs[i]))
			return false;
	return true;
}

static void looked_up(struct lookup_wait *w, const struct lookup_result *r)
{
	struct pending *p = container_of(w, struct pending, lookup);

	switch (r->status) {
	case LOOKUP_OK:
		dial_checked(p->conn, r->addrs, r->n);
		return;
	case LOOKUP_NXDOMAIN:
		give_up(p->conn, "there is no such name");
		return;
	case LOOKUP_BUSY:
		give_up(p->conn, "too many lookups at once");
		return;
	case LOOKUP_FAILED:
		control_stale(p->conn->egress);
		break;
	}
	give_up(p->conn, r->why ? r->why : "the name cannot be looked up");
}

void dial_start(struct conn *c)
{
	struct pending *p = c->data;

	if (!c->name) {
		dial_checked(c, &c->ip, 1);
		return;
	}
	c->stage = CONN_LOOKUP;
	lookup_start(c->egress->lookup, c->name->text, &p->lookup, looked_up);
}
