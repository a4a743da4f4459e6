/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flow - moves bytes between descriptors and the link, within credit and room.
 *
 * Out: bytes are read straight into the link's output buffer. A source without credit is
 * not polled, so the process behind it blocks in its own write(); no other stream
 * notices. In: bytes go straight to the descriptor; what it does not take waits in the
 * stream's own buffer, which credit bounds. Credit is returned when bytes left that
 * buffer.
 */
#include "guest/guest.h"

#include "base/util.h"

#include <fcntl.h>
#include <sys/ioctl.h>

#define READS_A_TURN 4       /* a busy source gets this many frames, then others */
#define BULK (32u * 1024)    /* one read of this size means bulk data */
#define PIPE_BYTES (1 << 20) /* what the kernel lets everyone ask for */
#define TTY_DRAIN (128u * 1024)

bool source_ready(const struct guest *g, const struct source *o)
{
	if (g->quiet || o->drop)
		return o->open && !g->quiet;
	return o->open && o->flow.credit > o->least &&
	       link_room(&g->link) >= ROOM_FOR_DATA;
}

static void source_eof(struct guest *g, struct stream *s, int which)
{
	struct source *o = &s->out[which];
	bool quiet = g->held == link_pending(&g->link);

	o->open = false;
	close_fd(&o->fd);
	if (o->drop)
		return;
	send_frame(g, WIRE_EOF, (uint8_t)(which + 1), s->id, NULL, 0);
	if (quiet && s->ops == &proc_ops) /* EXIT is near: let them travel together */
		hold(g);
}

void source_break(struct guest *g, struct stream *s, int which)
{
	if (!s->out[which].open)
		return;
	if (s->ops == &proc_ops && s->exec.tty)
		close_fd(&s->in.fd); /* the other copy: only without any it hangs up */
	source_eof(g, s, which);
}

static void grow_pipe(int fd, bool *grown)
{
	if (!*grown)
		(void)fcntl(fd, F_SETPIPE_SZ, PIPE_BYTES); /* only speed is at stake */
	*grown = true;
}

static ssize_t source_read(struct stream *s, struct source *o, uint8_t *p, size_t n)
{
	ssize_t r;

	if (s->ops->read)
		return s->ops->read(s, p, n);
	do
		r = read(o->fd, p, n);
	while (r < 0 && errno == EINTR);
	if (r < 0 && errno == EAGAIN)
		return -EAGAIN;
	return r < 0 ? 0 : r; /* EIO of a terminal, ECONNRESET: the end */
}

/* The process is not to be held up by, nor to learn of, the loss of its client. */
static void source_discard(struct guest *g, struct stream *s, int which)
{
	char nobody[4096];
	ssize_t n = read(s->out[which].fd, nobody, sizeof(nobody));

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		source_eof(g, s, which);
}

void source_pump(struct guest *g, struct stream *s, int which)
{
	struct source *o = &s->out[which];

	if (o->drop) {
		source_discard(g, s, which);
		return;
	}
	for (int i = 0; i < READS_A_TURN && source_ready(g, o); i++) {
		size_t want = link_room(&g->link) - LINK_RESERVE;
		uint8_t *p;
		ssize_t n;

		want = min_size(want, min_size(o->flow.credit, WIRE_PAYLOAD_MAX));
		if (o->draining)
			want = min_size(want, o->left);
		p = link_data_begin(&g->link, want);
		if (!p) {
			g->ending = true; /* no memory for the buffer itself */
			return;
		}
		n = want ? source_read(s, o, p, want) : 0;
		if (n == -EAGAIN && !o->draining)
			return;
		if (n < 0 && n != -EAGAIN) {
			stream_failed(g, s, (int)-n, "read");
			return;
		}
		if (n <= 0) {
			source_eof(g, s, which);
			return;
		}
		link_data_commit(&g->link, (uint8_t)(which + 1), s->id, (size_t)n);
		o->flow.credit -= (uint32_t)n;
		o->left -= o->draining ? (size_t)n : 0;
		if ((size_t)n < want && !o->draining)
			return;
		if ((size_t)n >= BULK && s->ops == &proc_ops && !s->exec.tty)
			grow_pipe(o->fd, &o->grown);
	}
}

void source_drain(struct source *o)
{
	int n = 0;

	if (!o->open || o->draining)
		return;
	o->draining = true;
	o->left = TTY_DRAIN;
	if (ioctl(o->fd, FIONREAD, &n) == 0 && n >= 0 && !isatty(o->fd))
		o->left = (size_t)n;
}

void sink_credit(struct guest *g, struct stream *s, size_t n)
{
	uint32_t grant = flow_consumed(&s->in.flow, n);
	uint8_t p[4];

	if (!grant || !s->in.open || s->orphan)
		return;
	wire_set32(p, grant);
	send_frame(g, WIRE_WINDOW_ADD, 0, s->id, p, sizeof(p));
}

/* How many of the n bytes the descriptor took; all of them if nobody reads any more. */
static size_t sink_write(struct sink *in, const uint8_t *p, size_t n)
{
	ssize_t w;

	if (in->broken || in->fd < 0)
		return n;
	do
		w = write(in->fd, p, n);
	while (w < 0 && errno == EINTR);
	if (w >= 0)
		return (size_t)w;
	if (errno == EAGAIN)
		return 0;
	in->broken = true;
	close_fd(&in->fd);
	return n;
}

int sink_data(struct guest *g, struct stream *s, const uint8_t *p, size_t n)
{
	struct sink *in = &s->in;
	bool grown = n < BULK;
	size_t done = 0;

	if (!in->open || flow_received(&in->flow, n) < 0)
		return violation(g, "data beyond the window or after the end");
	if (s->ops->write)
		return s->ops->write(g, s, p, n);
	if (in->buf.len == 0 && !s->want_writable)
		done = sink_write(in, p, n);
	if (done < n) {
		if (s->ops == &proc_ops && !s->exec.tty && in->fd >= 0)
			grow_pipe(in->fd, &grown);
		if (buf_append(&in->buf, p + done, n - done) < 0) {
			in->broken = true; /* no memory: the reader sees the end early */
			close_fd(&in->fd);
			buf_clear(&in->buf);
			done = n;
		}
	}
	sink_credit(g, s, done);
	return 0;
}

static void sink_end(struct guest *g, struct stream *s)
{
	if (s->ops->end_of_input)
		s->ops->end_of_input(g, s);
	else
		close_fd(&s->in.fd);
}

int sink_eof(struct guest *g, struct stream *s)
{
	if (!s->in.open)
		return 0; /* a stream without input, or one that ended meanwhile */
	s->in.open = false;
	if (s->in.buf.len == 0 && !s->want_writable)
		sink_end(g, s);
	return 0;
}

void sink_pump(struct guest *g, struct stream *s)
{
	struct sink *in = &s->in;
	size_t n = in->buf.len - in->off;
	size_t done = 0;

	if (n)
		done = sink_write(in, (const uint8_t *)in->buf.data + in->off, n);
	in->off += done;
	if (done == n) {
		buf_clear(&in->buf);
		in->off = 0;
	} else if (in->off >
		   in->buf.len / 2) { /* keeps what is moved below what is sent */
		buf_consume(&in->buf, in->off);
		in->off = 0;
	}
	sink_credit(g, s, done);
	if (done == n && !in->open)
		sink_end(g, s);
}
