/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_receive - what the other side says. Every frame here may come from an attacker
 * who owns the guest: a frame that does not fit the state of its stream ends the
 * connection.
 */
#include "core/session_impl.h"

#include "base/util.h"

#include <stdio.h>
#include <sys/epoll.h>

#define BROKEN "the guest broke the protocol"

static int violation(struct session *s, const struct wire_frame *f, const char *what,
		     struct cove_error *err)
{
	session_set_bye(s, BROKEN, NULL);
	session_set_gone(s);
	return fail(err, COVE_EPROTO, 0, BROKEN ": frame %u: %s", f->type, what);
}

/* Text from inside, for an error line: printable only. */
static void clean_text(char *out, size_t size, const uint8_t *text, size_t n)
{
	n = min_size(n, size - 1);
	for (size_t i = 0; i < n; i++)
		out[i] = text[i] < 0x20 || text[i] >= 0x7f ? '?' : (char)text[i];
	out[n] = '\0';
}

static int find_attr(const uint8_t *p, size_t n, uint16_t tag, struct wire_attr *ret)
{
	size_t pos = 0;
	int r;

	while ((r = wire_next_attr(p, n, &pos, ret)) > 0)
		if (ret->tag == tag)
			return 1;
	return r;
}

static bool attr_u32(const struct wire_frame *f, uint16_t tag, uint32_t *ret)
{
	struct wire_attr a;

	return find_attr(f->payload, f->len, tag, &a) > 0 && wire_attr_u32(&a, ret) == 0;
}

static int on_started(struct stream *st, const struct wire_frame *f,
		      struct cove_error *err)
{
	struct wire_attr a;
	uint32_t pid;

	if (st->kind != STREAM_PROC || st->pid || !attr_u32(f, WIRE_A_PID, &pid))
		return violation(st->session, f, "unexpected", err);
	if (find_attr(f->payload, f->len, WIRE_A_SINCE, &a) > 0 &&
	    wire_attr_u64(&a, &st->since) < 0)
		return violation(st->session, f, "malformed", err);
	st->pid = pid;
	return 0;
}

static int on_ended(struct stream *st, const struct wire_frame *f, struct cove_error *err)
{
	uint32_t v;

	if (st->kind != STREAM_PROC || st->exited || st->failed)
		return violation(st->session, f, "unexpected", err);
	if (attr_u32(f, WIRE_A_CODE, &v) && v <= 255)
		st->code = (int)v;
	else if (attr_u32(f, WIRE_A_SIGNAL, &v) && v >= 1 && v <= 64)
		st->signal = (int)v;
	else
		return violation(st->session, f, "no status", err);
	st->exited = true;
	return 0;
}

static int on_failed(struct stream *st, const struct wire_frame *f,
		     struct cove_error *err)
{
	struct wire_attr a;
	uint32_t v = 0;

	if (st->exited || st->failed)
		return violation(st->session, f, "unexpected", err);
	st->failed = true;
	attr_u32(f, WIRE_A_ERRNO, &v);
	st->sys = v && v < 4096 ? (int)v : 0;
	if (find_attr(f->payload, f->len, WIRE_A_TEXT, &a) > 0)
		clean_text(st->text, sizeof(st->text), a.data, a.len);
	return buf_append(&st->result, f->payload, f->len) < 0 ? fail_nomem(err) : 0;
}

static int on_result(struct stream *st, const struct wire_frame *f,
		     struct cove_error *err)
{
	if (st->kind == STREAM_PROC || st->failed)
		return violation(st->session, f, "unexpected", err);
	st->has_result = true;
	buf_clear(&st->result); /* WRITE answers twice: the last one counts */
	return buf_append(&st->result, f->payload, f->len) < 0 ? fail_nomem(err) : 0;
}

static int call_data(struct stream *st, const struct wire_frame *f,
		     struct cove_error *err)
{
	struct sink *k = st->data_sink ? st->data_sink : &st->out[0];

	if (f->sub != 1 || flow_received(&st->out[0].flow, f->len) < 0)
		return violation(st->session, f, "data", err);
	st->data_seen += f->len;
	if (st->released)
		return 0;
	if (st->data_sink) {
		/* A local file: written in full, a short write is an error. */
		for (size_t done = 0; done < f->len;) {
			ssize_t n = write(k->fd, f->payload + done, f->len - done);

			if (n < 0 && errno == EINTR)
				continue;
			if (n < 0)
				return fail(err, COVE_EIO, errno, "write");
			done += (size_t)n;
		}
	} else if (buf_append(&st->data, f->payload, f->len) < 0) {
		return violation(st->session, f, "answer too long", err);
	}
	return grant(st, 1, &st->out[0].flow, f->len, err);
}

static int on_data(struct stream *st, const struct wire_frame *f, struct cove_error *err)
{
	if (f->len == 0)
		return violation(st->session, f, "empty", err);
	if (st->kind == STREAM_CALL)
		return call_data(st, f, err);
	if (f->sub < 1 || f->sub > (st->kind == STREAM_PORT ? 1 : 2) || st->exited ||
	    st->out[f->sub - 1].eof)
		return violation(st->session, f, "unexpected", err);
	if (flow_received(&st->out[f->sub - 1].flow, f->len) < 0)
		return violation(st->session, f, "beyond its credit", err);
	return sink_put(st, f->sub - 1, f->payload, f->len, err);
}

static int on_eof(struct stream *st, const struct wire_frame *f, struct cove_error *err)
{
	if (st->kind == STREAM_CALL && f->sub == 1)
		st->data_eof = true;
	else if (st->kind != STREAM_CALL && f->sub >= 1 && f->sub <= 2)
		st->out[f->sub - 1].eof = true;
	else
		return violation(st->session, f, "descriptor", err);
	return 0;
}

static int on_window(struct stream *st, const struct wire_frame *f,
		     struct cove_error *err)
{
	if (f->sub != 0 || f->len != 4 ||
	    flow_granted(&st->in.flow, wire_get32(f->payload)) < 0)
		return violation(st->session, f, "credit", err);
	source_resume(st); /* not read: it may have nothing, and would block us */
	return 0;
}

static int on_close(struct stream *st, const struct wire_frame *f, struct cove_error *err)
{
	(void)f;
	if (st->closed)
		return 0;
	if (!st->released)
		session_send(st->session, WIRE_CLOSE, 0, st->id, NULL, 0, err);
	st->closed = true;
	if (st->kind == STREAM_PROC && !st->exited && !st->failed)
		st->gone = true;
	return 0;
}

static const struct {
	uint8_t type;
	bool stray_ok; /* may cross a CLOSE on the way */
	int (*fn)(struct stream *st, const struct wire_frame *f, struct cove_error *err);
} handlers[] = {
	{WIRE_STARTED,    false, on_started},
        {WIRE_EXIT,       false, on_ended  },
	{WIRE_FAILED,     false, on_failed },
        {WIRE_RESULT,     false, on_result },
	{WIRE_DATA,       true,  on_data   },
        {WIRE_EOF,        true,  on_eof    },
	{WIRE_WINDOW_ADD, true,  on_window },
        {WIRE_CLOSE,      true,  on_close  },
};

/* A line, and perhaps another that is a hint. */
static void take_bye(struct session *s, const uint8_t *text, size_t n)
{
	const uint8_t *end = memchr(text, '\n', n);
	size_t first = end ? (size_t)(end - text) : n;

	clean_text(s->bye, sizeof(s->bye), text, first);
	if (end)
		clean_text(s->bye_hint, sizeof(s->bye_hint), end + 1, n - first - 1);
}

static int on_connection(struct session *s, const struct wire_frame *f,
			 struct cove_error *err)
{
	switch (f->type) {
	case WIRE_HELLO:
	case WIRE_PONG:
		return 0;
	case WIRE_PING:
		return f->len > 64 ? violation(s, f, "too long", err)
				   : session_send(s, WIRE_PONG, 0, 0, f->payload, f->len,
						  err);
	case WIRE_BYE:
		if (!s->bye[0])
			take_bye(s, f->payload, f->len);
		return 0;
	default:
		return violation(s, f, "not for the connection", err);
	}
}

static int dispatch(struct session *s, const struct wire_frame *f, struct cove_error *err)
{
	struct stream *st;

	if (f->stream == 0)
		return on_connection(s, f, err);
	st = session_find(s, f->stream);
	for (size_t i = 0; i < ARRAY_LEN(handlers); i++) {
		if (handlers[i].type != f->type)
			continue;
		if (st && !st->closed &&
		    !(st->released && handlers[i].stray_ok && f->type != WIRE_CLOSE))
			return handlers[i].fn(st, f, err);
		if (st && st->released) /* we lost interest: whatever it is */
			return 0;
		return handlers[i].stray_ok ? 0 : violation(s, f, "no such stream", err);
	}
	return violation(s, f, "unknown type", err);
}

int session_receive(struct session *s, struct cove_error *err)
{
	struct wire_frame f;
	int r = link_fill(&s->link), more;

	if (r < 0 && r != -EPIPE && r != -ECONNRESET) {
		session_set_gone(s);
		return fail(err, COVE_EIO, -r, "link");
	}
	if (r > 0)
		pulse_heard(&s->pulse);
	while ((more = link_next(&s->link, &f)) > 0) {
		int d = dispatch(s, &f, err);

		if (d < 0)
			return d;
	}
	if (more < 0) {
		session_set_bye(s, BROKEN, NULL);
		session_set_gone(s);
		return fail(err, COVE_EPROTO, 0, BROKEN ": not a frame");
	}
	if (r < 0)
		session_set_gone(s);
	return 0;
}

bool stream_done(const struct stream *st)
{
	if (!st->exited && !st->failed && !st->gone)
		return false;
	for (int i = 0; i < 2; i++)
		if (st->out[i].wait.len)
			return false;
	return true;
}

bool stream_result_u64(const struct stream *st, uint16_t tag, uint64_t *ret)
{
	struct wire_attr a;
	uint32_t v;

	if (!st->result.data ||
	    find_attr((const uint8_t *)st->result.data, st->result.len, tag, &a) <= 0)
		return false;
	if (wire_attr_u64(&a, ret) == 0)
		return true;
	if (wire_attr_u32(&a, &v) < 0)
		return false;
	*ret = v;
	return true;
}

char *stream_result_str(const struct stream *st, uint16_t tag)
{
	struct wire_attr a;
	char *s;

	if (!st->result.data ||
	    find_attr((const uint8_t *)st->result.data, st->result.len, tag, &a) <= 0)
		return NULL;
	s = malloc((size_t)a.len + 1);
	if (s && wire_attr_str(&a, s, (size_t)a.len + 1) < 0) {
		free(s);
		s = NULL;
	}
	return s;
}
