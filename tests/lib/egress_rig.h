/* SPDX-License-Identifier: Apache-2.0 */
/*
 * egress_rig.h - a whole data path for tests: a "host" network namespace with the egress
 * loop in a thread, and a "sandbox" one whose connections it catches.
 *
 * rig_start() leaves the calling thread in the sandbox's namespace; rig_on_host() starts
 * threads (servers) in the host's.
 *
 * With RIG_MACHINE the sandbox is as in a virtual machine: cove-guest's own pump catches
 * its connections, and the egress loop gets one stream.
 */
#ifndef COVE_EGRESS_RIG_H
#define COVE_EGRESS_RIG_H

#include "base/util.h"
#include "egress/conn.h"
#include "egress/lookup.h"
#include "os/netcapture.h"
#include "patient.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

struct rig {
	struct egress e;
	struct buf image;
	struct watch calls;
	pthread_t thread;
	int host_ns, box_ns;
	bool six;    /* IPv6 is caught too */
	int call[2]; /* function pointers for the loop's thread, and its answers */
	int control; /* the host's end of the control socket */
	int port;    /* RIG_MACHINE: a copy of the host's end of the stream */
};

struct rig_call {
	void (*fn)(struct rig *r, void *arg);
	void *arg;
};

static inline int rig_lo_up(void)
{
	cleanup_fd int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq q = {.ifr_name = "lo", .ifr_flags = IFF_UP};

	return ioctl(s, SIOCSIFFLAGS, &q);
}

static inline int rig_netlink(const struct netcapture_batch *b)
{
	cleanup_fd int s = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, b->protocol);
	char reply[4096] __attribute__((aligned(8)));

	if (s < 0 || send(s, b->data, b->size, 0) < 0)
		return -errno;
	for (uint32_t got = 0; got < b->acks;) {
		ssize_t n = recv(s, reply, sizeof(reply), 0);
		const struct nlmsghdr *h = (const void *)reply;

		if (n < 0)
			return -errno;
		for (; NLMSG_OK(h, (size_t)n); h = NLMSG_NEXT(h, n), got++) {
			const struct nlmsgerr *e = NLMSG_DATA(h);

			if (h->nlmsg_type == NLMSG_ERROR && e->error)
				return e->error;
		}
	}
	return 0;
}

static inline int rig_capture(int family)
{
	int s = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;
	struct sockaddr_in a4 = {.sin_family = AF_INET,
				 .sin_port = htons(NETCAPTURE_PORT),
				 .sin_addr.s_addr = htonl(NETCAPTURE_ADDR4)};
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6,
				  .sin6_port = htons(NETCAPTURE_PORT),
				  .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	bool v4 = family == AF_INET;
	const void *sa = v4 ? (const void *)&a4 : (const void *)&a6;

	if (s < 0 ||
	    setsockopt(s, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TRANSPARENT : 75, &one,
		       sizeof(one)) < 0 ||
	    bind(s, sa, v4 ? sizeof(a4) : sizeof(a6)) < 0 || listen(s, 4096) < 0) {
		close(s);
		return -1;
	}
	return s;
}

static inline void rig_called(struct watch *w, uint32_t events)
{
	struct rig *r = container_of(w, struct rig, calls);
	struct rig_call c;

	(void)events;
	if (read(w->fd, &c, sizeof(c)) != sizeof(c))
		return;
	c.fn(r, c.arg);
	if (write(w->fd, "", 1) != 1)
		abort();
}

/* Runs fn in the loop's thread and waits for it. */
static inline void rig_do(struct rig *r, void (*fn)(struct rig *, void *), void *arg)
{
	struct rig_call c = {fn, arg};
	char done;

	if (write(r->call[0], &c, sizeof(c)) != sizeof(c) ||
	    read(r->call[0], &done, 1) != 1)
		abort();
}

static inline void *rig_loop(void *arg)
{
	struct rig *r = arg;

	if (loop_run(r->e.loop) < 0)
		abort();
	return NULL;
}

struct rig_policy {
	const char *network; /* JSON */
	unsigned closed;
	int result;
};

static inline void rig_put_policy(struct rig *r, void *arg)
{
	struct rig_policy *a = arg;
	static uint64_t generation;
	struct buf image = BUF_INIT(1u << 20);
	json_t *o = json_loads(a->network, 0, NULL);
	struct policy_source src = {.network = o, .generation = ++generation};
	struct policy *p = NULL;
	struct cove_error err = {0};

	a->result = policy_compile(&src, &image, &err);
	if (a->result == 0)
		a->result = policy_open(&p, image.data, image.len, &err);
	json_decref(o);
	if (a->result < 0) {
		printf("# policy: %s\n", err.msg);
		buf_clear(&image);
		return;
	}
	policy_close(r->e.policy);
	r->e.policy = p;
	a->closed = conn_review_all(&r->e);
	buf_clear(&r->image); /* nobody points into the old one any more */
	r->image = image;
}

/* A new policy in force; the number of connections it closed. */
static inline unsigned rig_policy(struct rig *r, const char *network)
{
	struct rig_policy a = {.network = network};

	rig_do(r, rig_put_policy, &a);
	if (a.result < 0)
		abort();
	return a.closed;
}

struct rig_limit {
	int64_t *limit, ms;
};

static inline void rig_put_limit(struct rig *r, void *arg)
{
	const struct rig_limit *a = arg;

	(void)r;
	*a->limit = a->ms;
}

/* For connections from now on: one of r->e.limits, PATIENT_MS otherwise. */
static inline void rig_limit(struct rig *r, int64_t *limit, int64_t ms)
{
	rig_do(r, rig_put_limit, &(struct rig_limit){limit, ms});
}

static inline void rig_get_conns(struct rig *r, void *arg)
{
	*(unsigned *)arg = r->e.n_conns;
}

static inline bool rig_has_none(void *arg)
{
	unsigned n;

	rig_do(arg, rig_get_conns, &n);
	return n == 0;
}

/* All connections have come to their end. */
static inline bool rig_idle(struct rig *r)
{
	return becomes(rig_has_none, r);
}

struct rig_name {
	const char *name;
	bool v6;
	struct addr addr;
};

static inline void rig_get_name(struct rig *r, void *arg)
{
	struct rig_name *a = arg;
	const struct name *n = names_get(r->e.names, a->name, loop_now(r->e.loop));

	if (!n)
		abort();
	names_addr(n, a->v6, &a->addr);
}

struct rig_say {
	int s;
	struct sockaddr_storage to;
	socklen_t to_n;
	const void *p; /* NULL: nothing */
	size_t n;
	int error;
};

static inline void rig_put_bytes(struct rig *r, void *arg)
{
	struct rig_say *a = arg;

	(void)r;
	if (connect(a->s, (struct sockaddr *)&a->to, a->to_n) < 0 ||
	    (a->p && send(a->s, a->p, a->n, MSG_NOSIGNAL) != (ssize_t)a->n))
		a->error = errno;
}

static inline int rig_socket(const struct addr *to, uint16_t port, struct rig_say *ret)
{
	ret->to_n = addr_to_sockaddr(to, port, &ret->to);
	ret->s = socket(ret->to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (ret->s < 0)
		ret->error = errno;
	return ret->s;
}

static inline int rig_connect_addr(const struct addr *a, uint16_t port)
{
	struct rig_say c = {0};

	if (rig_socket(a, port, &c) >= 0)
		rig_put_bytes(NULL, &c);
	if (c.error)
		close_fd(&c.s);
	errno = c.error;
	return c.s;
}

static inline struct addr rig_addr(struct rig *r, const char *host)
{
	struct rig_name q = {.name = host};

	if (addr_parse(host, &q.addr) != 0)
		rig_do(r, rig_get_name, &q);
	return q.addr;
}

/* As a program inside: by name (through its synthetic address), or by address. */
static inline int rig_connect(struct rig *r, const char *host, uint16_t port)
{
	struct addr a = rig_addr(r, host);

	return rig_connect_addr(&a, port);
}

/* The same, with bytes that are there before the loop sees the connection, so that no
 * limit of it passes while they are on their way. */
static inline int rig_connect_saying(struct rig *r, const char *host, uint16_t port,
				     const void *p, size_t n)
{
	struct addr a = rig_addr(r, host);
	struct rig_say c = {.p = p, .n = n};

	if (rig_socket(&a, port, &c) >= 0)
		rig_do(r, rig_put_bytes, &c);
	if (c.error)
		close_fd(&c.s);
	errno = c.error;
	return c.s;
}

static inline void rig_get_log(struct rig *r, void *arg)
{
	struct buf *b = arg;
	char text[4096];
	ssize_t n;
	off_t at = 0;

	egress_log_flush(&r->e);
	while ((n = pread(r->e.log_fd, text, sizeof(text), at)) > 0) {
		buf_append(b, text, (size_t)n);
		at += n;
	}
	buf_append(b, "", 1);
}

/* Does the log have this text? */
static inline bool rig_logged(struct rig *r, const char *text)
{
	struct buf b = BUF_INIT(4u << 20);
	bool found;

	rig_do(r, rig_get_log, &b);
	found = b.data && strstr((const char *)b.data, text);
	buf_clear(&b);
	return found;
}

struct rig_text {
	struct rig *rig;
	const char *text;
};

static inline bool rig_has_logged(void *arg)
{
	const struct rig_text *a = arg;

	return rig_logged(a->rig, a->text);
}

/* Does this text come into the log? */
static inline bool rig_logs(struct rig *r, const char *text)
{
	return becomes(rig_has_logged, &(struct rig_text){r, text});
}

static inline int rig_egress(struct rig *r, const char *hosts)
{
	int control[2];

	r->e.log_fd = memfd_create("log", MFD_CLOEXEC);
	r->e.log = (struct buf)BUF_INIT(1u << 20);
	r->e.limits = (struct egress_limits){.conns = 20000,
					     .undecided = 4096,
					     .inspected = 1024,
					     .who_ms = PATIENT_MS,
					     .dial_ms = PATIENT_MS,
					     .first_bytes_ms = PATIENT_MS,
					     .headers_ms = PATIENT_MS,
					     .ask_ms = PATIENT_MS,
					     .refuse_ms = PATIENT_MS};
	if (loop_new(&r->e.loop) < 0 || names_new(&r->e.names, 1024) < 0 ||
	    lookup_new(&r->e.lookup, r->e.loop) < 0 ||
	    lookup_configure(r->e.lookup, "127.0.0.53", hosts) < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, r->call) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
		       control) < 0)
		return -1;
	r->control = control[0];
	return egress_control(&r->e, control[1]) < 0 ||
			       watch_start(r->e.loop, &r->calls, r->call[1], EPOLLIN,
					   rig_called) < 0
		       ? -1
		       : 0;
}

struct rig_fds {
	int fd[2];
};

static inline void rig_listen(struct rig *r, void *arg)
{
	struct rig_fds *f = arg;

	if (egress_listen(&r->e, f->fd[0], f->fd[1], -1, -1) < 0)
		abort();
}

#ifdef RIG_MACHINE
#include "guest/machine_root.h"
#include "guest/netpump.h"

int machine_loopback(void)
{
	return rig_lo_up();
}

struct rig_stream {
	int fd;
	uint8_t nonce[NETMUX_NONCE];
};

static inline void rig_take_stream(struct rig *r, void *arg)
{
	struct rig_stream *s = arg;

	if (egress_stream(&r->e, s->fd, s->nonce) < 0)
		abort();
}

static inline int rig_sandbox(struct rig *r)
{
	struct rig_stream s = {0};
	int pair[2];

	if (unshare(CLONE_NEWNET) < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -1;
	r->box_ns = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	r->six = netcapture_has_ipv6();
	r->port = fcntl(pair[0], F_DUPFD_CLOEXEC, 0);
	s.fd = pair[0];
	rig_do(r, rig_take_stream, &s);
	return netpump_start(pair[1]);
}
#else
static inline int rig_sandbox(struct rig *r)
{
	struct netcapture n;
	struct rig_fds f;

	netcapture_build(&n, netcapture_has_ipv6());
	if (unshare(CLONE_NEWNET) < 0 || rig_lo_up() < 0 || rig_netlink(&n.routes) < 0 ||
	    rig_netlink(&n.rules) < 0)
		return -1;
	r->box_ns = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	f.fd[0] = rig_capture(AF_INET);
	f.fd[1] = n.six ? rig_capture(AF_INET6) : -1;
	if (f.fd[0] < 0 || (n.six && f.fd[1] < 0))
		return -1;
	r->six = n.six;
	rig_do(r, rig_listen, &f);
	return 0;
}
#endif

/* hosts: text of a hosts file; network: the policy. -1: this machine cannot. servers()
 * runs in the host's namespace, where what it starts stays. */
static inline int rig_start(struct rig *r, const char *hosts, const char *network,
			    void (*servers)(void))
{
	struct rig_policy first = {.network = network};

	*r = (struct rig){.host_ns = -1, .image = BUF_INIT(1u << 20)};
	signal(SIGPIPE, SIG_IGN);
	alarm(10 * PATIENT_MS / 1000); /* whatever waits for ever fails the whole */
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0 || rig_lo_up() < 0)
		return -1;
	r->host_ns = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (rig_egress(r, hosts) < 0)
		return -1;
	rig_put_policy(r, &first);
	servers();
	if (first.result < 0 || pthread_create(&r->thread, NULL, rig_loop, r) != 0)
		return -1;
	return rig_sandbox(r);
}

static inline void rig_end(struct rig *r, void *arg)
{
	(void)arg;
	egress_unlisten(&r->e);
	loop_stop(r->e.loop);
}

static inline void rig_stop(struct rig *r)
{
	rig_do(r, rig_end, NULL);
	pthread_join(r->thread, NULL);
	names_free(r->e.names);
	lookup_free(r->e.lookup);
	policy_close(r->e.policy);
	buf_clear(&r->image);
	buf_clear(&r->e.log);
	watch_stop(r->e.loop, &r->calls);
	loop_free(r->e.loop);
	close(r->call[0]);
	close(r->call[1]);
	close(r->control);
	close(r->e.log_fd);
}

#endif
