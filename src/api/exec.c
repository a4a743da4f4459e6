/* SPDX-License-Identifier: Apache-2.0 */
/* exec - processes. */
#include "api/handle.h"

#include "base/util.h"
#include "core/audit_notes.h"
#include "core/request.h"
#include "core/terminfo.h"

#include <signal.h>
#include <stdio.h>

#define KNOWN_FLAGS \
	(COVE_EXEC_PTY | COVE_EXEC_STDIO | COVE_EXEC_MAIN | COVE_EXEC_STDIN | \
	 COVE_EXEC_OFFLINE)

static int set_streams(struct stream *st, const struct cove_exec_options *o,
		       struct cove_error *err)
{
	bool stdio = o->flags & COVE_EXEC_STDIO;

	st->output = o->output;
	st->arg = o->arg;
	for (int i = 0; i < 2; i++)
		st->out[i].kind = !stdio && o->output ? SINK_CALLBACK : SINK_DROP;
	if (stdio && (stream_set_out(st, 0, o->out, err) < 0 ||
		      stream_set_out(st, 1, o->err, err) < 0))
		return err->code;
	if ((stdio && o->in >= 0) || (!stdio && (o->flags & COVE_EXEC_STDIN)))
		return stream_set_stdin(st, stdio ? o->in : -1, err);
	return 0;
}

static uint32_t wire_flags(const struct cove *s, const struct cove_exec_options *o)
{
	bool has_in =
		o->flags & COVE_EXEC_STDIO ? o->in >= 0 : !!(o->flags & COVE_EXEC_STDIN);

	return (o->flags & COVE_EXEC_PTY ? WIRE_EXEC_PTY : 0) |
	       (has_in ? 0 : WIRE_EXEC_NO_STDIN) |
	       (o->flags & COVE_EXEC_MAIN && !s->inproc ? WIRE_EXEC_MAIN : 0) |
	       (o->flags & COVE_EXEC_OFFLINE ? WIRE_EXEC_OFFLINE : 0) |
	       (s->oneshot ? WIRE_EXEC_LAST : 0);
}

static int import_exec(struct cove_exec_options *dst, const struct cove_exec_options *src,
		       struct cove_error *err)
{
	if (!src)
		return fail(err, COVE_EINVAL, 0, "exec: no options");
	if (options_import(dst, sizeof(*dst), 16, src, "exec options", err) < 0)
		return err->code;
	if (dst->flags & ~(uint32_t)KNOWN_FLAGS)
		return fail(err, COVE_EINVAL, 0, "exec: unknown flag");
	return 0;
}

static int open_proc(struct cove *s, const struct cove_exec_options *o, uint8_t type,
		     const void *payload, size_t n, struct cove_proc **ret,
		     struct cove_error *err)
{
	struct cove_proc *p = calloc(1, sizeof(*p));
	uint64_t timeout = o->timeout_ms > 0 ? (uint64_t)o->timeout_ms
					     : handle_spec(s)->exec.timeout_ms;

	if (!p)
		return fail_nomem(err);
	p->owner = s;
	p->stream = session_open(s->session, STREAM_PROC, type, 0, payload, n, err);
	if (!p->stream || set_streams(p->stream, o, err) < 0) {
		session_release(p->stream);
		free(p);
		return err->code;
	}
	p->stream->main = o->flags & COVE_EXEC_MAIN;
	if (timeout && type == WIRE_EXEC)
		p->stream->deadline_ms = now_ms() + (int64_t)timeout;
	*ret = p;
	return 0;
}

/* What can wait until the guest is busy: the note for whoever cleans up after us if we
 * are killed, and what others, who were, left behind. */
static int after_first(struct cove *s, struct cove_proc *p, struct cove_error *err)
{
	if (s->swept)
		return 0;
	s->swept = true;
	if (s->inproc && box_note_spec(&s->box, err) < 0) {
		cove_proc_free(p);
		return err->code;
	}
	store_sweep(&s->store);
	return 0;
}

int cove_exec(struct cove *s, const struct cove_exec_options *opt, struct cove_proc **ret,
	      struct cove_error *err)
{
	struct cove_exec_options o;
	struct cove_proc *p = NULL;
	struct wire_out out;

	err = ERR(err);
	if (import_exec(&o, opt, err) < 0)
		return err->code;
	if (!o.argv || !o.argv[0])
		return fail(err, COVE_EINVAL, 0, "exec: no command");
	if (!s->session)
		return fail(err, COVE_EGONE, 0, "the sandbox has ended");
	if ((o.flags & COVE_EXEC_PTY) && o.term &&
	    terminfo_supply(s->session, handle_spec(s), o.term, err) < 0)
		return err->code;
	cleanup_free uint8_t *payload = malloc(WIRE_PAYLOAD_MAX);
	if (!payload)
		return fail_nomem(err);
	wire_out_init(&out, payload, WIRE_PAYLOAD_MAX);
	if (request_exec(&out, handle_spec(s), s->name, &o, wire_flags(s, &o), err) < 0)
		return err->code;
	if (s->inproc && (o.flags & COVE_EXEC_OFFLINE) && box_need_who(&s->box, err) < 0)
		return err->code;
	if (open_proc(s, &o, WIRE_EXEC, payload, out.len, &p, err) < 0 || !p)
		return err->code;
	if (s->inproc && box_exec(&s->box, p->stream->id, payload, out.len, err) < 0) {
		cove_proc_free(p);
		return err->code;
	}
	if (s->inproc)
		p->note = notes_exec(&s->box, payload, out.len);
	if (after_first(s, p, err) < 0)
		return err->code;
	*ret = p;
	return 0;
}

int cove_attach(struct cove *s, const struct cove_exec_options *opt,
		struct cove_proc **ret, struct cove_error *err)
{
	struct cove_exec_options o;
	uint8_t payload[64];
	struct wire_out out;

	err = ERR(err);
	if (import_exec(&o, opt, err) < 0)
		return err->code;
	if (s->inproc || !s->session)
		return fail(err, COVE_ESTATE, 0,
			    "attach: only a named, running sandbox has a "
			    "main session");
	wire_out_init(&out, payload, sizeof(payload));
	wire_put_u32(&out, WIRE_A_FLAGS, wire_flags(s, &o));
	wire_put_u32(&out, WIRE_A_ROWS, o.rows);
	wire_put_u32(&out, WIRE_A_COLS, o.cols);
	o.flags |= COVE_EXEC_MAIN;
	return open_proc(s, &o, WIRE_ATTACH, payload, out.len, ret, err);
}

static int shell_code(const struct stream *st)
{
	if (st->timed_out)
		return 124;
	if (st->failed)
		return st->sys == ENOENT ? 127 : 126;
	return st->signal ? 128 + st->signal : st->code;
}

/* What became of it, or an error when that cannot be known. */
static int report(const struct cove_proc *p, struct cove_status *ret,
		  struct cove_error *err)
{
	const struct stream *st = p->stream;
	struct cove_status v = {.size = sizeof(v)};

	if (st->gone) {
		const char *bye = session_bye(st->session);

		fail(err, COVE_EGONE, 0, "the sandbox ended before the process%s%s",
		     *bye ? ": " : "", bye);
		bye = session_bye_hint(st->session);
		return *bye ? hint(err, "%s", bye) : err->code;
	}
	notes_end(&p->owner->box, p->note, st->code, st->signal,
		  st->failed ? st->sys : 0);
	v.exited = st->exited && !st->signal;
	v.code = st->code;
	v.signal = st->signal;
	v.timed_out = st->timed_out;
	v.shell = shell_code(st);
	if (st->failed && st->sys != ENOENT && st->sys != EACCES && st->sys != ENOEXEC &&
	    st->sys != ENOTDIR && st->sys != EISDIR && st->sys != E2BIG) {
		/* Not the command's fault: a keeper's refusal, no memory, no pty ... */
		fail(err, COVE_EIO, st->sys, "%s", st->text[0] ? st->text : "exec");
		return err->code;
	}
	if (st->failed)
		fail(err, COVE_EIO, st->sys, "%s", st->text);
	if (ret) {
		uint32_t size =
			ret->size && ret->size < sizeof(v) ? ret->size : sizeof(v);

		memcpy(ret, &v, size);
	}
	return 1;
}

int cove_poll(struct cove_proc *p, struct cove_status *ret, struct cove_error *err)
{
	return stream_done(p->stream) ? report(p, ret, ERR(err)) : 0;
}

int cove_wait(struct cove_proc *p, int timeout_ms, struct cove_status *ret,
	      struct cove_error *err)
{
	int64_t until = now_ms() + timeout_ms;
	int r;

	err = ERR(err);
	while (!stream_done(p->stream)) {
		int64_t left = timeout_ms < 0 ? -1 : until - now_ms();

		if (timeout_ms >= 0 && left <= 0)
			return fail(err, COVE_ETIMEDOUT, 0, "still running");
		if (session_turn(p->stream->session, (int)left, err) < 0 &&
		    !stream_done(p->stream))
			return err->code;
		handle_deliver(p->owner);
	}
	r = report(p, ret, err);
	return r < 0 ? r : 0;
}

int64_t cove_proc_id(const struct cove_proc *p)
{
	return p->stream->pid;
}

int cove_proc_signal(struct cove_proc *p, int signo, struct cove_error *err)
{
	return stream_signal(p->stream, signo, ERR(err));
}

int cove_proc_resize(struct cove_proc *p, uint16_t rows, uint16_t cols,
		     struct cove_error *err)
{
	return stream_resize(p->stream, rows, cols, ERR(err));
}

int64_t cove_proc_write(struct cove_proc *p, const void *data, size_t n,
			struct cove_error *err)
{
	return stream_write(p->stream, data, n, ERR(err));
}

int cove_proc_close_stdin(struct cove_proc *p, struct cove_error *err)
{
	return stream_eof(p->stream, ERR(err));
}

void cove_proc_free(struct cove_proc *p)
{
	if (!p)
		return;
	/* After cove_finish() the session, and with it the stream, is gone already. */
	if (p->owner->session) {
		execs_ended(&p->owner->box.execs, p->stream->id);
		session_release(p->stream);
	}
	free(p);
}
