/* SPDX-License-Identifier: Apache-2.0 */
/* stream - the table of streams, and the frames every kind of stream sends. */
#include "guest/guest.h"

#include "base/util.h"

#include <stdio.h>

static struct stream **bucket_of(struct guest *g, uint32_t id)
{
	return &g->bucket[id % BUCKETS];
}

struct stream *stream_find(struct guest *g, uint32_t id)
{
	struct stream *s = *bucket_of(g, id);

	while (s && (s->id != id || s->orphan))
		s = s->next;
	return s;
}

struct stream *stream_new(struct guest *g, uint32_t id, const struct stream_ops *ops)
{
	struct stream **at = bucket_of(g, id);
	struct stream *s = NULL;

	if (g->streams < WIRE_STREAMS_MAX)
		s = calloc(1, sizeof(*s));
	if (!s) {
		send_failed(g, id, g->streams < WIRE_STREAMS_MAX ? ENOMEM : EAGAIN,
			    "too many streams", NULL);
		send_frame(g, WIRE_CLOSE, 0, id, NULL, 0);
		return NULL;
	}
	s->id = id;
	s->ops = ops;
	s->in.fd = s->out[0].fd = s->out[1].fd = -1;
	buf_init(&s->in.buf, 2 * WIRE_WINDOW); /* the window, and what was just written */
	s->next = *at;
	*at = s;
	g->streams++;
	return s;
}

void stream_release(struct stream *s)
{
	close_fd(&s->in.fd);
	close_fd(&s->out[0].fd);
	close_fd(&s->out[1].fd);
	s->in.open = s->out[0].open = s->out[1].open = false;
	buf_clear(&s->in.buf);
	if (s->ops->release)
		s->ops->release(s);
	s->deadline_ms = 0;
}

void stream_free(struct guest *g, struct stream *s)
{
	struct stream **at = bucket_of(g, s->id);

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	g->streams--;
	if (!s->closed)
		stream_release(s);
	free(s);
}

void stream_finish(struct guest *g, struct stream *s)
{
	if (s->closed)
		return;
	stream_release(s);
	s->closed = true;
	send_frame(g, WIRE_CLOSE, 0, s->id, NULL, 0);
	/* Freed by the loop (or by the client's CLOSE): a caller may still hold s. */
}

void stream_failed(struct guest *g, struct stream *s, int sys, const char *what)
{
	send_failed(g, s->id, sys, what, NULL);
	stream_finish(g, s);
}

void send_failed(struct guest *g, uint32_t id, int sys, const char *what, const char *cwd)
{
	uint8_t p[3 * 1024];
	struct wire_out o;

	wire_out_init(&o, p, sizeof(p));
	wire_put_u32(&o, WIRE_A_ERRNO, (uint32_t)sys);
	wire_put_attr(&o, WIRE_A_TEXT, what, strnlen(what, 1024));
	if (cwd)
		wire_put_attr(&o, WIRE_A_CWD, cwd, strnlen(cwd, 1024));
	send_frame(g, WIRE_FAILED, 0, id, p, o.len);
}

/* Fits by invariant 2; if memory for the buffer itself is not to be had, we end. */
void send_frame(struct guest *g, uint8_t type, uint8_t sub, uint32_t id, const void *p,
		size_t n)
{
	if (link_send(&g->link, type, sub, id, p, n) < 0)
		g->ending = true;
}
