/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both buffers are linear: bytes live in [start, end), and move to the front only when
 * the tail is too short, so a drained buffer costs nothing. They come from mmap() and not
 * from the heap, so that giving them back really gives the pages back.
 */
#include "ipc/link.h"

#include "base/util.h"

#include <sys/mman.h>
#include <sys/socket.h>

#define GRANT_STEP (WIRE_WINDOW / 4) /* small enough to keep a sender busy, and rare */
#define CREDIT_MAX (1u << 30)

void link_init(struct link *l, int in_fd, int out_fd)
{
	*l = (struct link){.in_fd = in_fd, .out_fd = out_fd};
}

static void drop(uint8_t **buf, size_t size)
{
	if (*buf)
		munmap(*buf, size);
	*buf = NULL;
}

void link_clear(struct link *l)
{
	drop(&l->in, LINK_IN);
	drop(&l->out, LINK_OUT);
	l->in_start = l->in_end = l->out_start = l->out_end = 0;
}

void link_trim(struct link *l)
{
	if (l->in_start == l->in_end) {
		l->in_start = l->in_end = 0;
		drop(&l->in, LINK_IN);
	}
	if (l->out_start == l->out_end) {
		l->out_start = l->out_end = 0;
		drop(&l->out, LINK_OUT);
	}
}

static int need(uint8_t **buf, size_t size)
{
	void *p;

	if (*buf)
		return 0;
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	*buf = p;
	return 0;
}

/* Makes the space behind `end` at least `want` bytes long if moving can do that. */
static void make_room(uint8_t *buf, size_t *start, size_t *end, size_t size, size_t want)
{
	if (*start == *end) {
		*start = *end = 0;
	} else if (*start && size - *end < want) {
		memmove(buf, buf + *start, *end - *start);
		*end -= *start;
		*start = 0;
	}
}

int link_fill(struct link *l)
{
	ssize_t n;

	if (need(&l->in, LINK_IN) < 0)
		return -ENOMEM;
	make_room(l->in, &l->in_start, &l->in_end, LINK_IN,
		  WIRE_HEADER + WIRE_PAYLOAD_MAX);
	if (l->in_end == LINK_IN)
		return 0;
	do
		n = read(l->in_fd, l->in + l->in_end, LINK_IN - l->in_end);
	while (n < 0 && errno == EINTR);
	if (n > 0) {
		l->in_end += (size_t)n;
		return 1;
	}
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n < 0 && errno != ECONNRESET)
		return -errno;
	l->eof = true;
	return -EPIPE;
}

static int hello_check(const struct wire_frame *f)
{
	if (f->type != WIRE_HELLO || wire_get32(f->payload) != WIRE_MAGIC ||
	    wire_get32(f->payload + 4) != WIRE_VERSION ||
	    wire_get32(f->payload + 12) != 0)
		return -EPROTO;
	return 0; /* features we do not know are not used by us; any value is fine */
}

int link_next(struct link *l, struct wire_frame *ret)
{
	struct wire_frame f;
	size_t used;
	int r;

	for (;;) {
		if (l->in_start == l->in_end)
			return 0;
		r = wire_parse(l->in + l->in_start, l->in_end - l->in_start, &f, &used);
		if (r <= 0)
			return r;
		l->in_start += used;
		if (l->hello_seen && f.type == WIRE_HELLO)
			return -EPROTO;
		if (l->hello_seen)
			break;
		if (hello_check(&f) < 0)
			return -EPROTO;
		l->hello_seen = true;
	}
	*ret = f;
	return 1;
}

uint8_t *link_data_begin(struct link *l, size_t want)
{
	if (want > link_room(l) || need(&l->out, LINK_OUT) < 0)
		return NULL;
	make_room(l->out, &l->out_start, &l->out_end, LINK_OUT, WIRE_HEADER + want);
	return l->out + l->out_end + WIRE_HEADER;
}

static void queue(struct link *l, uint8_t type, uint8_t sub, uint32_t stream, size_t n)
{
	wire_put_header(l->out + l->out_end, type, sub, stream, (uint32_t)n);
	l->out_end += WIRE_HEADER + n;
}

void link_data_commit(struct link *l, uint8_t sub, uint32_t stream, size_t n)
{
	if (n)
		queue(l, WIRE_DATA, sub, stream, n);
}

int link_send(struct link *l, uint8_t type, uint8_t sub, uint32_t stream,
	      const void *payload, size_t n)
{
	uint8_t *p;

	if (n > WIRE_PAYLOAD_MAX)
		return -EMSGSIZE;
	if (n > link_room(l))
		return -ENOBUFS;
	p = link_data_begin(l, n);
	if (!p)
		return -ENOMEM;
	if (n)
		memcpy(p, payload, n);
	queue(l, type, sub, stream, n);
	return 0;
}

int link_hello(struct link *l)
{
	uint8_t p[16] = {0};

	wire_set32(p, WIRE_MAGIC);
	wire_set32(p + 4, WIRE_VERSION);
	return link_send(l, WIRE_HELLO, 0, 0, p, sizeof(p));
}

size_t link_room(const struct link *l)
{
	size_t space = LINK_OUT - link_pending(l);

	return space < WIRE_HEADER ? 0 : space - WIRE_HEADER;
}

size_t link_pending(const struct link *l)
{
	return l->out_end - l->out_start;
}

/* A socket must not raise SIGPIPE in a program that embeds us; anything else is a pipe of
 * the guest, which ignores the signal. */
static ssize_t put(struct link *l, const uint8_t *p, size_t n)
{
	ssize_t w;

	if (!l->no_socket) {
		w = send(l->out_fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (w >= 0 || errno != ENOTSOCK)
			return w;
		l->no_socket = true;
	}
	return write(l->out_fd, p, n);
}

int link_flush(struct link *l)
{
	while (l->out_start < l->out_end) {
		ssize_t n = put(l, l->out + l->out_start, l->out_end - l->out_start);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 1 : -errno;
		l->out_start += (size_t)n;
	}
	l->out_start = l->out_end = 0;
	return 0;
}

void flow_init(struct flow *f)
{
	*f = (struct flow){.credit = WIRE_WINDOW};
}

int flow_received(struct flow *f, size_t n)
{
	if (n > f->credit)
		return -EPROTO;
	f->credit -= (uint32_t)n;
	return 0;
}

uint32_t flow_consumed(struct flow *f, size_t n)
{
	uint32_t grant;

	f->owed += (uint32_t)n;
	if (f->owed < GRANT_STEP)
		return 0;
	grant = f->owed;
	f->credit += grant;
	f->owed = 0;
	return grant;
}

int flow_granted(struct flow *f, uint32_t n)
{
	if (n == 0 || n > CREDIT_MAX - f->credit)
		return -EPROTO;
	f->credit += n;
	return 0;
}
