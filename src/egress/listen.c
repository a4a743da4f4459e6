/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listen - takes connections from the sandbox, as many as there is room for.
 *
 * A connection beyond a limit is accepted and reset at once: the program learns of it
 * now, and the queue never stands still. For the case that descriptors are the limit, one
 * is kept in reserve and given up for that moment.
 */
#include "egress/conn_impl.h"
#include "egress/dns.h"
#include "egress/pass.h"

#include "base/util.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

#define BURST_MAX 64 /* accepted in one turn */
#define PAUSE_MS 20  /* when the kernel has no memory for a connection */
#define TELL_MS 1000 /* between lines about a limit in the log */

struct listener {
	struct egress *egress;
	struct watch watch;
	struct timer pause;
	struct addr addr;
	uint16_t port;
	unsigned burst;
};

struct listeners {
	struct listener tcp[2];
	int reserve; /* a descriptor that means nothing */
};

static void reset_fd(int fd)
{
	struct linger now = {.l_onoff = 1};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
}

void egress_limited(struct egress *e)
{
	int64_t now = loop_now(e->loop);
	char why[96];

	e->limited++;
	if (e->limited_told && now - e->limited_told_ms < TELL_MS)
		return;
	snprintf(why, sizeof(why), "too many connections, %llu turned away",
		 (unsigned long long)(e->limited - e->limited_told));
	e->limited_told = e->limited;
	e->limited_told_ms = now;
	egress_record(e, &(struct record){
				 .kind = "connect", .verdict = "error", .reason = why});
}

void egress_turn_away(struct egress *e, int fd)
{
	reset_fd(fd);
	egress_limited(e);
}

static void go_on(struct timer *t)
{
	struct listener *l = container_of(t, struct listener, pause);

	watch_change(l->egress->loop, &l->watch, EPOLLIN);
}

static void take_a_break(struct listener *l)
{
	watch_change(l->egress->loop, &l->watch, 0);
	timer_start(l->egress->loop, &l->pause, PAUSE_MS, go_on);
}

/* No descriptor is left but the reserve: it makes room for one to be turned away. */
static void use_reserve(struct listener *l)
{
	struct listeners *ls = l->egress->listeners;
	int fd;

	if (ls->reserve >= 0)
		close_fd(&ls->reserve);
	fd = accept4(l->watch.fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		egress_turn_away(l->egress, fd);
	ls->reserve = fcntl(l->watch.fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0 || ls->reserve < 0)
		take_a_break(l);
}

/* False: enough for this turn. */
static bool accept_one(struct listener *l)
{
	struct sockaddr_storage from = {0};
	socklen_t n = sizeof(from);
	int fd = accept4(l->watch.fd, (struct sockaddr *)&from, &n,
			 SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd >= 0) {
		if (l->egress->n_conns >= l->egress->limits.conns)
			egress_turn_away(l->egress, fd);
		else
			conn_accept(l->egress, fd, &from);
		return true;
	}
	switch (errno) {
	case EAGAIN:
		l->burst = 1;
		return false;
	case EMFILE:
	case ENFILE:
		use_reserve(l);
		return true;
	case ENOBUFS:
	case ENOMEM:
	case EBADF:
	case EINVAL:
		take_a_break(l);
		return false;
	default: /* that one is gone already */
		return true;
	}
}

/* One at first, more while more are waiting: no call just to hear that there is none. */
static void ready(struct watch *w, uint32_t events)
{
	struct listener *l = container_of(w, struct listener, watch);
	unsigned n = l->burst;

	(void)events;
	l->burst = n < BURST_MAX ? n * 2 : n;
	while (n-- && w->active && w->events && accept_one(l))
		;
}

static int start(struct egress *e, struct listener *l, int *fd)
{
	struct sockaddr_storage sa;
	socklen_t n = sizeof(sa);
	int one = 1, flags = fcntl(*fd, F_GETFL), r;

	if (*fd < 0)
		return 0;
	l->egress = e;
	l->burst = 1;
	if (flags < 0 || getsockname(*fd, (struct sockaddr *)&sa, &n) < 0)
		return -errno;
	if (!(flags & O_NONBLOCK)) /* and we may not make it so */
		return -EINVAL;
	r = addr_from_sockaddr((struct sockaddr *)&sa, &l->addr, &l->port);
	if (r < 0)
		return r;
	/* What is accepted inherits these. An urgent byte stays in the stream: the kernel
	 * would take it out of what is looked at and might put it back into what is sent.
	 * The way to the program is the memory of this machine: there is nothing to pace
	 * or to probe (BBR would). */
	if (setsockopt(*fd, SOL_SOCKET, SO_OOBINLINE, &one, sizeof(one)) < 0)
		return -errno;
	setsockopt(*fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(*fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
	r = watch_start(e->loop, &l->watch, *fd, EPOLLIN, ready);
	if (r == 0)
		*fd = -1;
	return r;
}

static int start_dns(struct egress *e, int *fd)
{
	return *fd < 0 ? 0 : dns_serve_udp(e, take_fd(fd));
}

int egress_listen(struct egress *e, int tcp4, int tcp6, int udp4, int udp6)
{
	cleanup_fd int t4 = tcp4;
	cleanup_fd int t6 = tcp6;
	cleanup_fd int u4 = udp4;
	cleanup_fd int u6 = udp6;
	struct listeners *ls;
	int r;

	if (e->listeners || e->mux)
		return -EBUSY;
	ls = e->listeners = calloc(1, sizeof(*ls));
	if (!ls)
		return -ENOMEM;
	ls->reserve = -1;
	r = start(e, &ls->tcp[0], &t4);
	if (r == 0)
		r = start(e, &ls->tcp[1], &t6);
	if (r == 0)
		r = start_dns(e, &u4);
	if (r == 0)
		r = start_dns(e, &u6);
	if (r < 0) {
		egress_unlisten(e);
		return r;
	}
	ls->reserve = fcntl(ls->tcp[ls->tcp[0].watch.active ? 0 : 1].watch.fd,
			    F_DUPFD_CLOEXEC, 0);
	return 0;
}

bool egress_is_listener(const struct egress *e, const struct addr *a, uint16_t port)
{
	if (e->mux)
		return addr_classify(a) == ADDR_LOOPBACK;
	for (size_t i = 0; e->listeners && i < ARRAY_LEN(e->listeners->tcp); i++) {
		const struct listener *l = &e->listeners->tcp[i];

		if (l->watch.active && l->port == port && addr_equal(&l->addr, a))
			return true;
	}
	return false;
}

void egress_unlisten(struct egress *e)
{
	struct listeners *ls = e->listeners;

	for (size_t i = 0; ls && i < ARRAY_LEN(ls->tcp); i++) {
		timer_stop(e->loop, &ls->tcp[i].pause);
		if (!ls->tcp[i].watch.active)
			continue;
		watch_stop(e->loop, &ls->tcp[i].watch);
		close(ls->tcp[i].watch.fd);
	}
	while (e->conns) {
		struct conn *c = e->conns;

		if (c->carrier)
			c->carrier->end(c);
		conn_reset(c, "error", "the network was stopped");
	}
	dns_stop(e);
	mux_stop(e);
	if (ls)
		close_fd(&ls->reserve);
	free(take_ptr(e->listeners));
	pump_pool_free(e);
}
