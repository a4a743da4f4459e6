/* SPDX-License-Identifier: Apache-2.0 */
/*
 * l7_side - a channel with what was read from it and what is still to be written to it.
 *
 * Its watch is edge-triggered and never changed: `ready` remembers the edges, and is only
 * taken back when a call says that it would block.
 */
#include "egress/l7.h"

#include "base/util.h"
#include "egress/wipe.h"

void side_init(struct side *s, uint64_t *count)
{
	*s = (struct side){.read_needs = EPOLLIN,
			   .write_needs = EPOLLOUT,
			   .ready = EPOLLIN | EPOLLOUT,
			   .count = count};
	buf_init(&s->in, HTTP_HEAD_MAX + PUMP_BUF);
	/* A head, and one piece beyond L7_HIGH. */
	buf_init(&s->out, 2 * L7_HIGH + L7_PIECE);
}

static void out_clear(struct side *s)
{
	wipe_clear(&s->out);
	s->out_at = 0;
}

static void in_clear(struct side *s)
{
	wipe_clear(&s->in);
	s->in_at = 0;
}

void side_clear(struct side *s)
{
	out_clear(s);
	in_clear(s);
	chan_clear(&s->ch);
}

void side_rest(struct side *s)
{
	if (!side_queued(s))
		out_clear(s);
	if (!side_unread(s))
		in_clear(s);
}

void side_ready(struct side *s, uint32_t events)
{
	if (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) {
		s->hup = true;
		s->ready |= EPOLLIN;
	}
	if (events & EPOLLPRI) {
		s->urgent = true;
		s->ready |= EPOLLIN;
	}
	if (events & (EPOLLHUP | EPOLLERR))
		s->ready |= EPOLLOUT;
	s->ready |= events & (EPOLLIN | EPOLLOUT);
}

/* What the last call waits for; it is not ready now. */
static uint32_t blocked(struct side *s, uint32_t usual)
{
	uint32_t needs = s->ch.want_write ? EPOLLOUT : s->ch.want_read ? EPOLLIN : usual;

	s->ready &= ~needs;
	return needs;
}

int side_shake(struct side *s)
{
	int r;

	if (!s->ch.shaking || !(s->ready & s->read_needs))
		return 0;
	r = chan_handshake(&s->ch);
	if (r == 0)
		s->read_needs = blocked(s, EPOLLIN);
	else
		s->read_needs = EPOLLIN;
	return r < 0 ? -1 : r;
}

ssize_t side_read(struct side *s, char *p, size_t n)
{
	size_t got = 0;

	while (got < n && (s->ready & s->read_needs)) {
		ssize_t r = chan_read(&s->ch, p + got, n - got);

		if (r == -EAGAIN) {
			s->read_needs = blocked(s, EPOLLIN);
			break;
		}
		s->read_needs = EPOLLIN;
		if (r <= 0) /* told again by the next call */
			return got ? (ssize_t)got : r;
		got += (size_t)r;
		if (s->read_max < got)
			s->read_max = got;
		if (s->ch.ssl)
			continue;
		if (got < n && !s->hup &&
		    !s->urgent) /* a short read emptied the socket */
			s->ready &= ~(uint32_t)EPOLLIN;
		break;
	}
	return got ? (ssize_t)got : -EAGAIN;
}

static ssize_t write_some(struct side *s, const char *p, size_t n)
{
	ssize_t r;

	if (s->ch.shaking || !(s->ready & s->write_needs))
		return 0;
	r = chan_write(&s->ch, p, n);
	if (r == -EAGAIN || (r >= 0 && (size_t)r < n))
		s->write_needs = blocked(s, EPOLLOUT);
	else
		s->write_needs = EPOLLOUT;
	if (r == -EAGAIN)
		return 0;
	if (r > 0)
		*s->count += (uint64_t)r;
	return r;
}

size_t side_queued(const struct side *s)
{
	return s->out.len - s->out_at;
}

int side_flush(struct side *s)
{
	size_t n = side_queued(s);
	ssize_t r;

	if (!n)
		return 0;
	r = write_some(s, s->out.data + s->out_at, n);
	if (r < 0)
		return (int)r;
	explicit_bzero(s->out.data + s->out_at, (size_t)r);
	s->out_at += (size_t)r;
	if (s->out_at == s->out.len)
		s->out.len = s->out_at = 0;
	return r > 0;
}

int side_send(struct side *s, const void *p, size_t n)
{
	ssize_t r = 0;

	if (!side_queued(s) && n)
		r = write_some(s, p, n);
	if (r < 0)
		return (int)r;
	if ((size_t)r == n)
		return 0;
	if (s->out_at) {
		wipe_consume(&s->out, s->out_at);
		s->out_at = 0;
	}
	return wipe_append(&s->out, (const char *)p + r, n - (size_t)r);
}

size_t side_unread(const struct side *s)
{
	return s->in.len - s->in_at;
}

void side_consume(struct side *s, size_t n)
{
	s->looked = 0;
	if (n)
		explicit_bzero(s->in.data + s->in_at, n);
	s->in_at += n;
	if (s->in_at == s->in.len)
		s->in.len = s->in_at = 0;
}

int side_keep(struct side *s, const char *p, size_t n)
{
	if (s->in_at) {
		wipe_consume(&s->in, s->in_at);
		s->in_at = 0;
	}
	return wipe_append(&s->in, p, n);
}

long side_head(struct side *s, const char **why)
{
	long r = http_head_end(s->in.data + s->in_at, side_unread(s), s->looked, why);

	s->looked = r == 0 ? side_unread(s) : 0;
	return r;
}
