/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port - PORT requests: a connection to something that listens inside, carried as a
 * stream. Each direction ends on its own; the stream ends when both have.
 */
#include "guest/file.h"

#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_un un;
};

static int try_connect(struct stream *s, const union address *a, socklen_t n)
{
	int fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (connect(fd, &a->any, n) < 0 && errno != EINPROGRESS) {
		int err = -errno;

		close(fd);
		return err;
	}
	close_fd(&s->in.fd);
	s->in.fd = fd;
	s->want_writable = true; /* also when it is connected already: one way for both */
	return 0;
}

static int try_tcp(struct stream *s, bool v6)
{
	union address a = {0};

	if (v6) {
		a.in6.sin6_family = AF_INET6;
		a.in6.sin6_port = htons(s->port.number);
		a.in6.sin6_addr = in6addr_loopback;
		return try_connect(s, &a, sizeof(a.in6));
	}
	a.in.sin_family = AF_INET;
	a.in.sin_port = htons(s->port.number);
	a.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return try_connect(s, &a, sizeof(a.in));
}

static int try_unix(struct stream *s, const char *path)
{
	union address a = {0};
	size_t n = strlen(path);

	if (n >= sizeof(a.un.sun_path))
		return -ENAMETOOLONG;
	a.un.sun_family = AF_UNIX;
	memcpy(a.un.sun_path, path, n + 1);
	return try_connect(s, &a, sizeof(a.un));
}

static void connected(struct guest *g, struct stream *s)
{
	int copy = fcntl(s->in.fd, F_DUPFD_CLOEXEC, 3);

	if (copy < 0) {
		stream_failed(g, s, errno, "connection");
		return;
	}
	s->want_writable = false;
	s->out[0].fd = copy;
	s->out[0].open = true;
	flow_init(&s->out[0].flow);
	send_frame(g, WIRE_RESULT, 0, s->id, NULL, 0);
	sink_pump(g, s); /* what came meanwhile */
}

static void port_writable(struct guest *g, struct stream *s)
{
	int err = 0;
	socklen_t n = sizeof(err);

	if (getsockopt(s->in.fd, SOL_SOCKET, SO_ERROR, &err, &n) < 0)
		err = errno;
	if (err && s->port.v6_left) {
		s->port.v6_left = false;
		if (try_tcp(s, true) == 0)
			return;
	}
	if (err)
		stream_failed(g, s, err, "connect");
	else
		connected(g, s);
}

static void port_end(struct guest *g, struct stream *s)
{
	(void)g;
	if (s->in.fd >= 0)
		shutdown(s->in.fd, SHUT_WR);
	close_fd(&s->in.fd);
	s->port.ended = true;
}

static void port_settle(struct guest *g, struct stream *s)
{
	if (!s->want_writable && !s->out[0].open && (s->port.ended || s->in.broken))
		stream_finish(g, s);
}

static const struct stream_ops port_ops = {
	.writable = port_writable,
	.end_of_input = port_end,
	.settle = port_settle,
};

static int port_start(struct stream *s, const struct request *r)
{
	int err;

	if (r->count[WIRE_A_PATH] == 1 && !request_has(r, WIRE_A_PORT))
		return try_unix(s, request_path(r));
	if (r->count[WIRE_A_PATH] || r->num[WIRE_A_PORT] < 1 ||
	    r->num[WIRE_A_PORT] > 65535)
		return -EINVAL;
	s->port.number = (uint16_t)r->num[WIRE_A_PORT];
	s->port.v6_left = true;
	err = try_tcp(s, false);
	if (err < 0) {
		s->port.v6_left = false;
		err = try_tcp(s, true) == 0 ? 0 : err;
	}
	return err;
}

int on_port(struct guest *g, const struct wire_frame *f)
{
	cleanup_request struct request r = {0};
	int err = request_parse(&r, f, TAG(WIRE_A_PORT) | TAG(WIRE_A_PATH));
	struct stream *s;

	if (err == -EPROTO)
		return violation(g, "malformed PORT");
	s = stream_new(g, f->stream, &port_ops);
	if (!s)
		return 0;
	s->in.open = true;
	flow_init(&s->in.flow);
	if (err == 0)
		err = port_start(s, &r);
	if (err < 0)
		stream_failed(g, s, -err, "connect");
	return 0;
}
