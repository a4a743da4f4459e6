/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch - one frame from the host: is it allowed now, and who handles it. */
#include "guest/guest.h"

#include "base/util.h"

int violation(struct guest *g, const char *what)
{
	if (!g->bye)
		g->bye = what;
	return -EPROTO;
}

static int on_ping(struct guest *g, const struct wire_frame *f)
{
	send_frame(g, WIRE_PONG, 0, 0, f->payload, f->len);
	return 0;
}

static int on_nothing(struct guest *g, const struct wire_frame *f)
{
	(void)g;
	(void)f;
	return 0;
}

static int on_unsupported(struct guest *g, const struct wire_frame *f)
{
	static const struct stream_ops none = {0};
	struct stream *s = stream_new(g, f->stream, &none);

	if (s)
		stream_failed(g, s, EOPNOTSUPP, "a request for the keeper");
	return 0;
}

static int on_data(struct guest *g, struct stream *s, const struct wire_frame *f)
{
	if (f->sub != 0)
		return violation(g, "data for an output");
	return sink_data(g, s, f->payload, f->len);
}

static int on_eof(struct guest *g, struct stream *s, const struct wire_frame *f)
{
	if (f->sub == 0)
		return sink_eof(g, s);
	source_break(g, s, f->sub - 1);
	return 0;
}

static int on_window(struct guest *g, struct stream *s, const struct wire_frame *f)
{
	struct source *o;

	if (f->sub == 0)
		return violation(g, "credit for an input");
	o = &s->out[f->sub - 1];
	if (o->open && flow_granted(&o->flow, wire_get32(f->payload)) < 0)
		return violation(g, "credit overflow");
	return 0;
}

static int on_signal(struct guest *g, struct stream *s, const struct wire_frame *f)
{
	uint32_t sig = wire_get32(f->payload);

	if (sig < 1 || sig > 64)
		return violation(g, "no such signal");
	proc_signal(s, sig);
	return 0;
}

static int on_resize(struct guest *g, struct stream *s, const struct wire_frame *f)
{
	(void)g;
	proc_resize(s, wire_get16(f->payload), wire_get16(f->payload + 2));
	return 0;
}

static int on_close(struct guest *g, struct stream *s, const struct wire_frame *f)
{
	(void)f;
	s->peer_closed = true;
	if (s->closed)
		stream_free(g, s);
	else if (s->ops->abandon)
		s->ops->abandon(g, s);
	else
		stream_finish(g, s);
	return 0;
}

/* Frames of the connection, and those that open a stream. */
static int (*const requests[])(struct guest *g, const struct wire_frame *f) = {
	[WIRE_PING] = on_ping,          [WIRE_PONG] = on_nothing,
	[WIRE_SETUP] = on_setup,        [WIRE_SHUTDOWN] = on_shutdown,
	[WIRE_QUIESCE] = on_quiesce,    [WIRE_RESUME] = on_resume,
	[WIRE_EXEC] = on_exec,          [WIRE_FILE] = on_file,
	[WIRE_PORT] = on_port,          [WIRE_INFO] = on_info,
	[WIRE_KEEPER] = on_unsupported, [WIRE_ATTACH] = on_unsupported,
};

/* Frames of an open stream. */
static int (*const stream_frames[])(struct guest *g, struct stream *s,
				    const struct wire_frame *f) = {
	[WIRE_DATA] = on_data,         [WIRE_EOF] = on_eof,
	[WIRE_WINDOW_ADD] = on_window, [WIRE_SIGNAL] = on_signal,
	[WIRE_RESIZE] = on_resize,     [WIRE_CLOSE] = on_close,
};

int dispatch(struct guest *g, const struct wire_frame *f)
{
	struct stream *s = f->stream ? stream_find(g, f->stream) : NULL;

	if ((g->quiet != NULL) != (f->type == WIRE_RESUME))
		return violation(g, g->quiet ? "only RESUME follows QUIESCE"
					     : "RESUME without QUIESCE");
	if (f->type < ARRAY_LEN(stream_frames) && stream_frames[f->type]) {
		/* They may cross our CLOSE on the way, or the end of an unknown stream.
		 */
		if (!s || (f->type != WIRE_CLOSE && (s->closed || s->peer_closed)))
			return 0;
		if (f->type == WIRE_CLOSE && s->peer_closed)
			return violation(g, "closed twice");
		return stream_frames[f->type](g, s, f);
	}
	if (f->type >= ARRAY_LEN(requests) || !requests[f->type])
		return violation(g, "a frame that only a server sends");
	if (s)
		return violation(g, "stream in use");
	if (f->stream)
		g->any_request = true;
	return requests[f->type](g, f);
}
