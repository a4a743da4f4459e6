/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dns_udp - questions in datagrams, answered from the address that was asked.
 *
 * Every address is local where our socket is, and a client that asked one of them drops
 * an answer from another: each datagram tells its destination, which becomes the source
 * of the answer. An answer that the client's buffer has no room for is lost, as datagrams
 * are; nothing waits for it. A machine's datagrams come by its stream instead, with both
 * ends in front, and so do their answers.
 */
#include "egress/dns_impl.h"
#include "egress/mux.h"

#include "base/util.h"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define BATCH 32 /* a turn's share */
#define CONTROL_SIZE CMSG_SPACE(sizeof(struct in6_pktinfo))

#ifndef IPV6_FREEBIND
#define IPV6_FREEBIND 78
#endif

union pktinfo {
	char bytes[CONTROL_SIZE];
	struct cmsghdr align;
};

struct peer {
	const struct netmux_ends *ends; /* a machine's; then nothing else is set */
	struct sockaddr_storage addr;
	socklen_t len;
	union pktinfo control; /* the destination, then the source */
	size_t control_len;
};

struct udp_query {
	struct dns_query query;
	struct dns_udp *udp;
	struct udp_query *next, **link;
	struct peer peer;
	struct netmux_ends ends; /* behind peer.ends */
};

struct dns_udp {
	struct egress *egress;
	struct watch watch;
	int fd; /* -1: the machine's stream */
	struct udp_query *queries;
	struct mmsghdr msg[BATCH];
	struct iovec iov[BATCH];
	struct sockaddr_storage from[BATCH];
	union pktinfo control[BATCH];
	uint8_t data[BATCH][DNS_UDP_EDNS];
};

static void respond(const struct dns_udp *u, const struct dns_question *q,
		    const struct dns_answer *a, struct peer *peer)
{
	uint8_t out[DNS_UDP_EDNS];
	size_t max =
		!q->has_edns || q->udp_size < DNS_UDP_PLAIN ? DNS_UDP_PLAIN : q->udp_size;
	struct iovec iov = {out, dns_write(q, a, out, min_size(max, sizeof(out)))};
	struct msghdr msg = {.msg_name = &peer->addr,
			     .msg_namelen = peer->len,
			     .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control =
				     peer->control_len ? peer->control.bytes : NULL,
			     .msg_controllen = peer->control_len};

	if (iov.iov_len && peer->ends)
		mux_dgram(u->egress, peer->ends, out, iov.iov_len);
	else if (iov.iov_len)
		sendmsg(u->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- questions that wait --------------------------------------------------------- */

static void query_free(struct udp_query *uq)
{
	*uq->link = uq->next;
	if (uq->next)
		uq->next->link = uq->link;
	free(uq);
}

static void on_done(struct dns_query *dq, const struct dns_answer *a)
{
	struct udp_query *uq = container_of(dq, struct udp_query, query);

	respond(uq->udp, &dq->q, a, &uq->peer);
	query_free(uq);
}

static bool wait_for(struct dns_udp *u, const struct dns_question *q,
		     const struct peer *peer)
{
	struct udp_query *uq = dns_query_room(u->egress) ? calloc(1, sizeof(*uq)) : NULL;

	if (!uq)
		return false;
	uq->udp = u;
	uq->peer = *peer;
	if (peer->ends) {
		uq->ends = *peer->ends;
		uq->peer.ends = &uq->ends;
	}
	uq->next = u->queries;
	uq->link = &u->queries;
	if (uq->next)
		uq->next->link = &uq->next;
	u->queries = uq;
	dns_query_start(u->egress, &uq->query, q, on_done);
	return true;
}

/* ---- datagrams ------------------------------------------------------------------- */

static void put_source(struct peer *p, int level, int type, const void *data, size_t n)
{
	struct cmsghdr *c = &p->control.align;

	*p = (struct peer){.addr = p->addr, .len = p->len};
	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(n);
	memcpy(CMSG_DATA(c), data, n);
	p->control_len = CMSG_SPACE(n);
}

/* The destination of what came is the source of what goes. */
static void take_destination(struct msghdr *msg, struct peer *p)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			struct in_pktinfo in, out = {0};

			memcpy(&in, CMSG_DATA(c), sizeof(in));
			out.ipi_spec_dst = in.ipi_addr;
			put_source(p, IPPROTO_IP, IP_PKTINFO, &out, sizeof(out));
		} else if (c->cmsg_level == IPPROTO_IPV6 &&
			   c->cmsg_type == IPV6_PKTINFO) {
			struct in6_pktinfo in;

			memcpy(&in, CMSG_DATA(c), sizeof(in)); /* keeps the interface */
			put_source(p, IPPROTO_IPV6, IPV6_PKTINFO, &in, sizeof(in));
		}
	}
}

/* data: of this length, or cut off. */
static void answer_one(struct dns_udp *u, struct peer *peer, const uint8_t *data,
		       size_t n, bool cut)
{
	struct dns_question q;
	struct dns_plan plan;
	int parsed = dns_parse(data, n, &q);

	if (parsed == -EPROTO)
		return;
	if (cut)
		parsed = -EBADMSG;
	dns_decide(u->egress, parsed, &q, &plan);
	if (!plan.lookup)
		respond(u, &q, &plan.answer, peer);
	else if (!wait_for(u, &q, peer))
		respond(u, &q, &dns_busy, peer);
}

static void answer_message(struct dns_udp *u, const struct mmsghdr *m,
			   const uint8_t *data)
{
	struct msghdr msg = m->msg_hdr;
	struct peer peer = {.len = msg.msg_namelen};

	if (msg.msg_name)
		memcpy(&peer.addr, msg.msg_name, min_size(peer.len, sizeof(peer.addr)));
	take_destination(&msg, &peer);
	answer_one(u, &peer, data, m->msg_len, msg.msg_flags & MSG_TRUNC);
}

static void prepare(struct dns_udp *u)
{
	for (int i = 0; i < BATCH; i++) {
		u->iov[i] = (struct iovec){u->data[i], sizeof(u->data[i])};
		u->msg[i].msg_hdr = (struct msghdr){
			.msg_name = &u->from[i],
			.msg_namelen = sizeof(u->from[i]),
			.msg_iov = &u->iov[i],
			.msg_iovlen = 1,
			.msg_control = u->control[i].bytes,
			.msg_controllen = sizeof(u->control[i].bytes),
		};
	}
}

static void on_ready(struct watch *w, uint32_t events)
{
	struct dns_udp *u = container_of(w, struct dns_udp, watch);
	int n;

	(void)events;
	prepare(u);
	n = recvmmsg(u->fd, u->msg, BATCH, MSG_DONTWAIT, NULL);
	for (int i = 0; i < n; i++)
		answer_message(u, &u->msg[i], u->data[i]);
}

/* ---- the socket ------------------------------------------------------------------ */

static int prepare_socket(int fd)
{
	int one = 1, domain;
	socklen_t n = sizeof(domain);

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) < 0)
		return -errno;
	if (domain == AF_INET)
		return setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &one, sizeof(one)) < 0
			       ? -errno
			       : 0;
	if (setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &one, sizeof(one)) < 0)
		return -errno;
	/* A source that no interface has needs this with IPv6; a route is enough with
	 * IPv4. */
	setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &one, sizeof(one));
	return 0;
}

/* fd: -1, or prepared, and taken over if it is a success. */
static int udp_new(struct egress *e, int fd, struct dns_udp **ret)
{
	struct dns_state *s = dns_state(e);
	struct dns_udp *u;
	int r = 0;

	if (!s || s->n_udp == ARRAY_LEN(s->udp))
		return s ? -EBUSY : -ENOMEM;
	u = calloc(1, sizeof(*u));
	if (!u)
		return -ENOMEM;
	u->egress = e;
	u->fd = fd;
	if (fd >= 0)
		r = watch_start(e->loop, &u->watch, fd, EPOLLIN, on_ready);
	if (r < 0) {
		free(u);
		return r;
	}
	s->udp[s->n_udp++] = u;
	*ret = u;
	return 0;
}

int dns_serve_udp(struct egress *e, int fd)
{
	struct dns_udp *u;
	int r = prepare_socket(fd);

	if (r == 0)
		r = udp_new(e, fd, &u);
	if (r < 0)
		close(fd);
	return r;
}

void dns_serve_datagram(struct egress *e, const struct netmux_ends *ends,
			const uint8_t *p, size_t n)
{
	struct dns_state *s = dns_state(e);
	struct peer peer = {.ends = ends};
	struct dns_udp *u = s && s->n_udp ? s->udp[0] : NULL;

	if (!u && udp_new(e, -1, &u) < 0)
		return;
	answer_one(u, &peer, p, min_size(n, DNS_UDP_EDNS), n > DNS_UDP_EDNS);
}

void dns_udp_free(struct dns_udp *u)
{
	while (u->queries) {
		dns_query_cancel(&u->queries->query);
		query_free(u->queries);
	}
	watch_stop(u->egress->loop, &u->watch);
	closep(&u->fd);
	free(u);
}
