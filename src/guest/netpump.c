/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netpump - a machine's connections, out over a port to the host.
 *
 * Theory of operation. The machine has no network device. Its kernel catches connections
 * and DNS datagrams exactly as that of a sandbox of processes does (os/capture.h); here
 * we accept them, and a mux (ipc/muxend.h) carries them to cove-egress, which decides.
 * So a program's connect() succeeds at once, and a refusal is a reset or an answer, as
 * there. One thread, which never blocks but in its epoll set; the question who it is that
 * connects has a second one (netwho.c).
 *
 * Bounds: NETMUX_SLOTS connections, one more is accepted and reset at once; without room
 * in the output, connections wait in the kernel's queues and datagrams get lost there.
 *
 * When the host's end goes away, connections are reset and the sockets closed, so that
 * everything is refused at once, until netpump_restart().
 */
#include "guest/netpump.h"

#include "guest/machine_root.h"
#include "guest/netwho.h"

#include "base/util.h"
#include "ipc/muxend.h"
#include "os/capture.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>

#define STACK_SIZE (256u << 10)
#define BURST 64    /* accepted or received in one turn */
#define PAUSE_MS 20 /* when the kernel has no descriptor or memory for a connection */
#define DNS_PORT 53
#define LO_INDEX 1
#ifndef IPV6_FREEBIND
#define IPV6_FREEBIND 78
#endif

#define SOCKETS CAPTURE_DIAG /* those that things come out of */

struct pump {
	struct muxend *end;
	bool six;
	struct caught {
		struct mux_watch watch;
		bool ready; /* until it was read empty: the set tells of edges */
	} sockets[SOCKETS];
	struct mux_watch who, orders;
};

static int orders = -1; /* to the thread: a nonce each */

/* ---- connections ---------------------------------------------------------------- */

static void reset_fd(int fd)
{
	struct linger now = {.l_onoff = 1};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
}

/* What is accepted inherits these (see egress/listen.c, which does the same). */
static void prepare_listener(int fd)
{
	int one = 1;

	setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

static void carry(struct pump *p, int fd, struct netmux_ends *e)
{
	socklen_t n = sizeof(e->to);

	if (getsockname(fd, (struct sockaddr *)&e->to, &n) < 0 ||
	    muxend_open(p->end, &fd, e) < 0)
		reset_fd(fd);
}

/* False: enough for now. */
static bool accept_one(struct pump *p, struct caught *c, int *pause_ms)
{
	struct netmux_ends e = {0};
	socklen_t n = sizeof(e.from);
	int fd = accept4(c->watch.fd, (struct sockaddr *)&e.from, &n,
			 SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd >= 0) {
		carry(p, fd, &e);
		return true;
	}
	switch (errno) {
	case EAGAIN:
		c->ready = false;
		return false;
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
	case ENOMEM:
		*pause_ms = PAUSE_MS;
		return false;
	default: /* that one is gone already */
		return true;
	}
}

/* ---- datagrams ------------------------------------------------------------------ */

union pktinfo {
	char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
	struct cmsghdr align;
};

static void prepare_datagrams(int fd, bool six)
{
	int one = 1;

	if (!six) {
		setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &one, sizeof(one));
		return;
	}
	setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &one, sizeof(one));
	/* A source that no interface has needs this with IPv6 only. */
	setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &one, sizeof(one));
}

/* Which address was asked. */
static bool destination(struct msghdr *m, struct sockaddr_storage *ret)
{
	struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_port = htons(DNS_PORT)};
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_port = htons(DNS_PORT)};
	struct in_pktinfo i4;
	struct in6_pktinfo i6;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			memcpy(&i4, CMSG_DATA(c), sizeof(i4));
			a4.sin_addr = i4.ipi_addr;
			memcpy(ret, &a4, sizeof(a4));
			return true;
		}
		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
			memcpy(&i6, CMSG_DATA(c), sizeof(i6));
			a6.sin6_addr = i6.ipi6_addr;
			memcpy(ret, &a6, sizeof(a6));
			return true;
		}
	}
	return false;
}

/* False: enough for now. */
static bool receive_one(struct pump *p, struct caught *c)
{
	struct netmux_ends e = {.udp = true};
	uint8_t data[NETMUX_DATAGRAM + 1];
	union pktinfo control;
	struct iovec iov = {data, sizeof(data)};
	struct msghdr m = {.msg_name = &e.from,
			   .msg_namelen = sizeof(e.from),
			   .msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(c->watch.fd, &m, MSG_DONTWAIT);

	if (n < 0) { /* also an error that an earlier answer met with */
		c->ready = errno != EAGAIN;
		return c->ready;
	}
	if (destination(&m, &e.to))
		muxend_dgram(p->end, &e, data, (size_t)n);
	return true;
}

static void put_control(struct msghdr *m, int level, int type, const void *data, size_t n)
{
	struct cmsghdr *c = m->msg_control;

	/* As a whole: musl's struct has padding that the kernel reads as length. */
	*c = (struct cmsghdr){
		.cmsg_len = CMSG_LEN(n), .cmsg_level = level, .cmsg_type = type};
	memcpy(CMSG_DATA(c), data, n);
	m->msg_controllen = CMSG_SPACE(n);
}

/* The answer comes from the address that was asked. */
static void set_source(struct msghdr *m, const struct sockaddr_storage *sa)
{
	struct sockaddr_in a4;
	struct sockaddr_in6 a6;
	struct in_pktinfo i4 = {0};
	struct in6_pktinfo i6 = {.ipi6_ifindex = LO_INDEX};

	if (sa->ss_family == AF_INET) {
		memcpy(&a4, sa, sizeof(a4));
		i4.ipi_spec_dst = a4.sin_addr;
		put_control(m, IPPROTO_IP, IP_PKTINFO, &i4, sizeof(i4));
	} else {
		memcpy(&a6, sa, sizeof(a6));
		i6.ipi6_addr = a6.sin6_addr;
		put_control(m, IPPROTO_IPV6, IPV6_PKTINFO, &i6, sizeof(i6));
	}
}

static void on_dgram(void *arg, const struct netmux_ends *e, const uint8_t *data,
		     size_t n)
{
	const struct pump *p = arg;
	bool six = e->from.ss_family == AF_INET6;
	struct sockaddr_storage client = e->from;
	union pktinfo control = {{0}};
	struct iovec iov = {(void *)(uintptr_t)data, n};
	struct msghdr m = {.msg_name = &client,
			   .msg_namelen = six ? sizeof(struct sockaddr_in6)
					      : sizeof(struct sockaddr_in),
			   .msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control};

	set_source(&m, &e->to);
	(void)!sendmsg(p->sockets[six ? CAPTURE_UDP6 : CAPTURE_UDP4].watch.fd, &m,
		       MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- who ------------------------------------------------------------------------ */

/* If it is too busy, the host's question runs out of time: nobody is known then. */
static void on_who(void *arg, uint32_t id, const struct netmux_ends *e)
{
	const struct pump *p = arg;

	(void)netwho_ask(p->who.fd, id, e);
}

static void who_ready(struct mux_watch *w, uint32_t events)
{
	struct pump *p = container_of(w, struct pump, who);
	struct netmux_who who;
	uint32_t id;

	(void)events;
	while (netwho_answer(w->fd, &id, &who) == 0)
		muxend_who_is(p->end, id, &who);
}

/* ---- the thread ----------------------------------------------------------------- */

static void socket_ready(struct mux_watch *w, uint32_t events)
{
	(void)events;
	container_of(w, struct caught, watch)->ready = true;
}

static void close_sockets(struct pump *p)
{
	for (int i = 0; i < SOCKETS; i++) {
		close_fd(&p->sockets[i].watch.fd);
		p->sockets[i].ready = false;
	}
}

static int watch_sockets(struct pump *p, int fds[CAPTURE_COUNT])
{
	int r = 0;

	for (int i = 0; i < SOCKETS; i++) {
		struct caught *c = &p->sockets[i];

		*c = (struct caught){
			.watch = {take_fd(&fds[i]), socket_ready}
                };
		if (i == CAPTURE_UDP4 || i == CAPTURE_UDP6)
			prepare_datagrams(c->watch.fd, i == CAPTURE_UDP6 && p->six);
		else
			prepare_listener(c->watch.fd);
		if (r == 0)
			r = muxend_watch(p->end, &c->watch, EPOLLIN);
	}
	return r;
}

static void reopen_sockets(struct pump *p)
{
	int fds[CAPTURE_COUNT];

	if (p->sockets[0].watch.fd >= 0 || capture_sockets(p->six, fds) < 0)
		return;
	close(fds[CAPTURE_DIAG]); /* netwho.c still has the first one */
	watch_sockets(p, fds);
}

static void orders_ready(struct mux_watch *w, uint32_t events)
{
	struct pump *p = container_of(w, struct pump, orders);
	uint8_t nonce[NETMUX_NONCE];

	(void)events;
	while (read(w->fd, nonce, sizeof(nonce)) == sizeof(nonce)) {
		muxend_restart(p->end, nonce);
		reopen_sockets(p);
	}
}

/* The host's end is gone. */
static void wait_for_orders(struct pump *p)
{
	static const uint8_t none[NETMUX_NONCE];
	struct pollfd wait = {.fd = p->orders.fd, .events = POLLIN};

	close_sockets(p);
	muxend_restart(p->end, none); /* resets what there was */
	while (poll(&wait, 1, -1) < 0)
		;
	orders_ready(&p->orders, 0);
}

/* For how long the next turn may sleep. */
static int take_in(struct pump *p)
{
	int pause = -1;

	for (int i = 0; i < SOCKETS; i++) {
		struct caught *c = &p->sockets[i];
		bool more = c->ready;

		for (int n = 0; more && n < BURST && muxend_room(p->end); n++)
			more = i == CAPTURE_UDP4 || i == CAPTURE_UDP6
				       ? receive_one(p, c)
				       : accept_one(p, c, &pause);
		if (more && muxend_room(p->end))
			pause = 0;
	}
	return pause;
}

static void *run(void *arg)
{
	struct pump *p = arg;
	int pause = -1;

	for (;;) {
		if (muxend_turn(p->end, pause) < 0)
			wait_for_orders(p);
		pause = take_in(p);
	}
	return NULL;
}

/* ---- beginning ------------------------------------------------------------------ */

static const struct muxend_ops ops = {.dgram = on_dgram, .who = on_who};

static void pump_free(struct pump *p)
{
	for (int i = 0; i < SOCKETS; i++)
		closep(&p->sockets[i].watch.fd);
	closep(&p->who.fd);
	closep(&p->orders.fd);
	muxend_free(p->end);
	free(p);
}

static int watch_orders(struct pump *p)
{
	int fd[2];

	if (pipe2(fd, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	p->orders = (struct mux_watch){fd[0], orders_ready};
	orders = fd[1];
	return muxend_watch(p->end, &p->orders, EPOLLIN);
}

static int set_up(struct pump *p, int *port, int fds[CAPTURE_COUNT])
{
	static const uint8_t none[NETMUX_NONCE];
	int r = muxend_new(&p->end, port, none, NETMUX_SLOTS, &ops, p);

	if (r == 0)
		r = watch_sockets(p, fds);
	if (r == 0)
		r = watch_orders(p);
	if (r < 0)
		return r;
	p->who = (struct mux_watch){netwho_start(&fds[CAPTURE_DIAG]), who_ready};
	return p->who.fd < 0 ? p->who.fd : muxend_watch(p->end, &p->who, EPOLLIN);
}

/* Signals are the loop's, in the first thread. */
static int start_thread(struct pump *p)
{
	pthread_attr_t attr;
	pthread_t id;
	int r = pthread_attr_init(&attr);

	if (r)
		return -r;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	r = pthread_create(&id, &attr, run, p);
	pthread_attr_destroy(&attr);
	return -r;
}

static int start(struct pump *p, int *port)
{
	int fds[CAPTURE_COUNT], r;
	struct netcapture n;

	netcapture_build(&n, netcapture_has_ipv6());
	p->six = n.six;
	r = (int)capture_open(&n, fds);
	if (r < 0)
		return r;
	r = set_up(p, port, fds);
	for (int i = 0; i < CAPTURE_COUNT; i++)
		closep(&fds[i]); /* those that nobody has taken */
	return r < 0 ? r : start_thread(p);
}

int netpump_start(int port_fd)
{
	cleanup_fd int port = port_fd;
	struct pump *p = calloc(1, sizeof(*p));
	int flags = fcntl(port, F_GETFL), r;
	sigset_t all, old;

	if (!p)
		return -ENOMEM;
	for (int i = 0; i < SOCKETS; i++)
		p->sockets[i].watch.fd = -1;
	p->who.fd = p->orders.fd = -1;
	if (flags < 0 || fcntl(port, F_SETFL, flags | O_NONBLOCK) < 0 ||
	    machine_loopback() < 0) {
		r = -errno;
		free(p);
		return r;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old); /* the threads inherit it */
	r = start(p, &port);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r < 0)
		pump_free(p);
	return r;
}

int netpump_restart(const uint8_t nonce[NETMUX_NONCE])
{
	return write(orders, nonce, NETMUX_NONCE) == NETMUX_NONCE ? 0 : -errno;
}
