/* SPDX-License-Identifier: Apache-2.0 */
/* keeper_conn - a connection that never blocks its owner and never grows without bound.
 */
#include "core/keeper_impl.h"

#include "base/util.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

int conn_init(struct keeper *k, struct conn *c, int fd, enum what what, uint32_t key)
{
	struct epoll_event e = {.events = EPOLLIN,
				.data.u64 = ((uint64_t)what << 32) | key};
	int fl = fcntl(fd, F_GETFL);

	*c = (struct conn){.fd = fd};
	buf_init(&c->queue, QUEUE_MAX);
	link_init(&c->link, fd, fd);
	if (fl < 0 || fcntl(fd, F_SETFL, fl | O_NONBLOCK) < 0 ||
	    epoll_ctl(k->epfd, EPOLL_CTL_ADD, fd, &e) < 0)
		return -errno;
	return link_hello(&c->link);
}

void conn_clear(struct keeper *k, struct conn *c)
{
	if (c->fd >= 0)
		epoll_ctl(k->epfd, EPOLL_CTL_DEL, c->fd, NULL);
	link_clear(&c->link);
	buf_clear(&c->queue);
	close_fd(&c->fd);
}

int conn_send(struct conn *c, uint8_t type, uint8_t sub, uint32_t id, const void *p,
	      size_t n)
{
	uint8_t header[WIRE_HEADER];
	int r;

	if (c->fd < 0)
		return -EPIPE;
	if (c->queue.len == 0 && !c->held) {
		r = link_send(&c->link, type, sub, id, p, n);
		if (r != -ENOBUFS)
			return r;
	}
	wire_put_header(header, type, sub, id, (uint32_t)n);
	r = buf_reserve(&c->queue, WIRE_HEADER + n);
	if (r < 0)
		return r;
	buf_append(&c->queue, header, sizeof(header));
	return buf_append(&c->queue, p, n);
}

static int flush_queue(struct conn *c)
{
	while (c->queue_done < c->queue.len) {
		ssize_t n =
			send(c->fd, c->queue.data + c->queue_done,
			     c->queue.len - c->queue_done, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		c->queue_done += (size_t)n;
	}
	buf_clear(&c->queue);
	c->queue_done = 0;
	return 0;
}

int conn_flush(struct conn *c)
{
	int r = link_pending(&c->link) ? link_flush(&c->link) : 0;

	if (r != 0)
		return r < 0 ? r : 0; /* broken, or the socket is full */
	return c->queue.len && !c->held ? flush_queue(c) : 0;
}

void conn_watch(struct keeper *k, struct conn *c, enum what what, uint32_t key)
{
	bool want = link_pending(&c->link) || (c->queue.len && !c->held);
	struct epoll_event e = {.events = EPOLLIN | (want ? EPOLLOUT : 0),
				.data.u64 = ((uint64_t)what << 32) | key};

	if (c->fd < 0 || want == c->want_out)
		return;
	c->want_out = want;
	epoll_ctl(k->epfd, EPOLL_CTL_MOD, c->fd, &e);
}
