/* SPDX-License-Identifier: Apache-2.0 */
#include "os/capture.h"

#include "os/raw.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define BACKLOG 4096 /* net.core.somaxconn of a new namespace */
#define DNS_PORT 53
#define DNS_UNUSED 1
#define IPV6_TRANSPARENT_ 75 /* in no header that musl has too */

/* ---- netlink -------------------------------------------------------------------- */

/* The answers in one datagram: how many, or the first error among them. */
IN_CHILD static long count_acks(const char *data, long n)
{
	long acks = 0;

	while (n >= (long)sizeof(struct nlmsghdr)) {
		const struct nlmsghdr *h = (const struct nlmsghdr *)(const void *)data;
		const struct nlmsgerr *e = (const struct nlmsgerr *)(h + 1);
		long len = (long)NLMSG_ALIGN(h->nlmsg_len);

		if (h->nlmsg_type != NLMSG_ERROR || len > n ||
		    h->nlmsg_len < sizeof(*h) + sizeof(*e))
			return -EPROTO;
		if (e->error)
			return e->error;
		acks++;
		data += len;
		n -= len;
	}
	return acks;
}

/* The kernel works while we send, so all its answers are there when that returns. */
IN_CHILD static long read_acks(long s, uint32_t want)
{
	char reply[4096] __attribute__((aligned(8)));

	for (uint32_t got = 0; got < want;) {
		long n = raw6(SYS_recvfrom, s, (long)reply, sizeof(reply), MSG_DONTWAIT,
			      0, 0);

		TRY(n);
		n = count_acks(reply, n);
		TRY(n);
		got += (uint32_t)n;
	}
	return 0;
}

IN_CHILD static long send_batch(const struct netcapture_batch *b)
{
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	long s = raw3(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, b->protocol);
	long r;

	TRY(s);
	r = raw6(SYS_sendto, s, (long)b->data, b->size, 0, (long)&kernel, sizeof(kernel));
	if (r >= 0)
		r = read_acks(s, b->acks);
	close_raw(s);
	return r;
}

/* ---- sockets -------------------------------------------------------------------- */

struct wanted {
	int family, type;
	uint16_t port;
};

/* Transparent also for datagrams: the answer comes from the address that was asked. */
IN_CHILD static long set_options(long s, int family)
{
	const int on = 1;

	if (family == AF_INET)
		return raw5(SYS_setsockopt, s, IPPROTO_IP, IP_TRANSPARENT, &on,
			    sizeof(on));
	TRY(raw5(SYS_setsockopt, s, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)));
	return raw5(SYS_setsockopt, s, IPPROTO_IPV6, IPV6_TRANSPARENT_, &on, sizeof(on));
}

IN_CHILD static uint32_t swap32(uint32_t v)
{
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? __builtin_bswap32(v) : v;
}

IN_CHILD static uint16_t swap16(uint16_t v)
{
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? __builtin_bswap16(v) : v;
}

IN_CHILD static long bind_to(long s, const struct wanted *w)
{
	struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_port = swap16(w->port)};
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_port = swap16(w->port)};

	if (w->type == SOCK_STREAM) {
		a4.sin_addr.s_addr = swap32(NETCAPTURE_ADDR4);
		a6.sin6_addr.s6_addr[15] = 1;
	}
	return w->family == AF_INET ? raw3(SYS_bind, s, &a4, sizeof(a4))
				    : raw3(SYS_bind, s, &a6, sizeof(a6));
}

IN_CHILD static long open_socket(const struct wanted *w)
{
	long s, r;

	if (w->family == AF_NETLINK)
		return raw3(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC,
			    NETLINK_SOCK_DIAG);
	s = raw3(SYS_socket, w->family, w->type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	TRY(s);
	r = set_options(s, w->family);
	if (r >= 0)
		r = bind_to(s, w);
	if (r >= 0 && w->type == SOCK_STREAM)
		r = raw2(SYS_listen, s, BACKLOG);
	if (r < 0)
		close_raw(s);
	return r < 0 ? r : s;
}

/* Where IPv6 would be, on a kernel without it: sockets that nothing is sent to, so that
 * nobody needs to know. */
static const struct wanted without6[CAPTURE_COUNT] = {
	[CAPTURE_TCP6] = {AF_INET, SOCK_STREAM, NETCAPTURE_PORT + 1},
	[CAPTURE_UDP6] = {AF_INET, SOCK_DGRAM,  DNS_UNUSED         },
};

static const struct wanted wanted[CAPTURE_COUNT] = {
	[CAPTURE_TCP4] = {AF_INET,    SOCK_STREAM, NETCAPTURE_PORT},
	[CAPTURE_TCP6] = {AF_INET6,   SOCK_STREAM, NETCAPTURE_PORT},
	[CAPTURE_UDP4] = {AF_INET,    SOCK_DGRAM,  DNS_PORT       },
	[CAPTURE_UDP6] = {AF_INET6,   SOCK_DGRAM,  DNS_PORT       },
	[CAPTURE_DIAG] = {AF_NETLINK, SOCK_RAW,    0              },
};

IN_CHILD long capture_rules(const struct netcapture *n)
{
	TRY(send_batch(&n->routes));
	return send_batch(&n->rules);
}

IN_CHILD long capture_sockets(bool six, int fds[CAPTURE_COUNT])
{
	for (int i = 0; i < CAPTURE_COUNT; i++) {
		bool missing = wanted[i].family == AF_INET6 && !six;
		long s = open_socket(missing ? &without6[i] : &wanted[i]);

		if (s < 0) {
			while (i > 0)
				close_raw(fds[--i]);
			return s;
		}
		fds[i] = (int)s;
	}
	return 0;
}

IN_CHILD long capture_open(const struct netcapture *n, int fds[CAPTURE_COUNT])
{
	TRY(capture_rules(n));
	return capture_sockets(n->six, fds);
}
