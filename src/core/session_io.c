/* SPDX-License-Identifier: Apache-2.0 */
/* session_io - moving bytes between streams and the caller's descriptors. */
#include "core/session_impl.h"

#include "base/util.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* ---- output: from the sandbox to a descriptor ----------------------------------- */

/* Gives credit back for n consumed bytes. */
int grant(struct stream *st, uint8_t sub, struct flow *f, size_t n,
	  struct cove_error *err)
{
	uint32_t credit = flow_consumed(f, n);
	uint8_t le[4];

	if (!credit || st->session->gone || st->closed)
		return 0;
	wire_set32(le, credit);
	return session_send(st->session, WIRE_WINDOW_ADD, sub, st->id, le, sizeof(le),
			    err);
}

void sink_close(struct session *s, struct sink *k)
{
	if (k->watched && k->fd >= 0)
		epoll_ctl(s->epfd, EPOLL_CTL_DEL, k->fd, NULL);
	k->watched = false;
	if (k->owned)
		close_fd(&k->fd);
	k->owned = false;
	k->fd = -1;
	buf_clear(&k->wait);
	k->wait_off = 0;
}

/* The reader is gone: the program inside should see that too, as it would in a plain
 * pipe. */
static int sink_break(struct stream *st, int which, struct cove_error *err)
{
	struct sink *k = &st->out[which];

	sink_close(st->session, k);
	k->kind = SINK_DROP;
	k->broken = true;
	if (st->closed || st->session->gone)
		return 0;
	return session_send(st->session, WIRE_EOF, (uint8_t)(which + 1), st->id, NULL, 0,
			    err);
}

static ssize_t sink_write(struct sink *k, const void *data, size_t n)
{
	if (k->kind == SINK_SOCKET)
		return send(k->fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	return write(k->fd, data, n);
}

/* Writes what the descriptor takes now. Returns bytes taken, or -EPIPE-like errors. */
static ssize_t sink_try(struct session *s, struct sink *k, const char *data, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t w = sink_write(k, data + done, n - done);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			break;
		if (w < 0) {
			s->sigpipe = s->sigpipe || errno == EPIPE;
			return -errno;
		}
		done += (size_t)w;
	}
	return (ssize_t)done;
}

static int sink_watch(struct stream *st, int which)
{
	struct sink *k = &st->out[which];
	enum watch_what what = which ? WATCH_OUT2 : WATCH_OUT1;

	if (k->watched)
		return 0;
	k->watched = true;
	return watch(st->session, k->fd, EPOLLOUT, what, st->id, true);
}

int sink_put(struct stream *st, int which, const void *data, size_t n,
	     struct cove_error *err)
{
	struct sink *k = &st->out[which];
	ssize_t done = 0;

	if (k->kind == SINK_CALLBACK && st->output)
		st->output(st->arg, which + 1, data, n);
	if (k->kind == SINK_DROP || k->kind == SINK_CALLBACK)
		return grant(st, (uint8_t)(which + 1), &k->flow, n, err);
	if (k->wait.len == 0) {
		done = sink_try(st->session, k, data, n);
		if (done < 0)
			return sink_break(st, which, err);
	}
	if ((size_t)done < n) {
		/* What was written is dropped only when it is worth the move. */
		if (k->wait_off > k->wait.len / 2) {
			buf_consume(&k->wait, k->wait_off);
			k->wait_off = 0;
		}
		/* Cannot exceed the buffer: it is as large as the credit. */
		if (buf_append(&k->wait, (const char *)data + done, n - (size_t)done) < 0)
			return fail_nomem(err);
		if (sink_watch(st, which) < 0)
			return fail(err, COVE_EIO, errno, "wait for output");
	}
	return grant(st, (uint8_t)(which + 1), &k->flow, (size_t)done, err);
}

int sink_drain(struct stream *st, int which, struct cove_error *err)
{
	struct sink *k = &st->out[which];
	ssize_t done;

	if (k->fd < 0 || !k->watched)
		return 0;
	done = sink_try(st->session, k, k->wait.data + k->wait_off,
			k->wait.len - k->wait_off);
	if (done < 0)
		return sink_break(st, which, err);
	k->wait_off += (size_t)done;
	if (k->wait_off == k->wait.len) {
		k->wait.len = k->wait_off = 0;
		epoll_ctl(st->session->epfd, EPOLL_CTL_DEL, k->fd, NULL);
		k->watched = false;
	}
	return grant(st, (uint8_t)(which + 1), &k->flow, (size_t)done, err);
}

/* A second description of the same pipe or terminal, so that O_NONBLOCK stays ours. */
static int reopen(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

int stream_set_out(struct stream *st, int which, int fd, struct cove_error *err)
{
	struct sink *k = &st->out[which];
	struct stat x;

	if (fd < 0)
		return 0; /* dropped */
	if (fstat(fd, &x) < 0)
		return fail(err, COVE_EINVAL, errno, "output descriptor %d", fd);
	if (S_ISSOCK(x.st_mode)) {
		k->kind = SINK_SOCKET;
		k->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	} else if (S_ISFIFO(x.st_mode) || isatty(fd)) {
		k->kind = SINK_NONBLOCK;
		k->fd = reopen(fd);
	}
	if (k->fd < 0) { /* files, /dev/null, and what cannot be opened again */
		k->kind = SINK_BLOCKING;
		k->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	}
	k->owned = true;
	return k->fd < 0 ? fail(err, COVE_EIO, errno, "output descriptor %d", fd) : 0;
}

/* ---- input: from a descriptor into the sandbox ---------------------------------- */

int stream_set_stdin(struct stream *st, int fd, struct cove_error *err)
{
	struct source *in = &st->in;
	int r;

	in->open = true;
	if (fd < 0)
		return 0;
	r = watch(st->session, fd, EPOLLIN, WATCH_STDIN, st->id, true);
	if (r < 0 && r != -EPERM)
		return fail(err, COVE_EIO, -r, "input descriptor %d", fd);
	in->fd = fd;
	in->polled = r == 0;
	in->watched = in->polled;
	return 0;
}

/* How much may be sent now: credit, and room in the link beyond the reserve. */
size_t source_room(const struct stream *st)
{
	size_t room = link_room(&st->session->link);

	if (st->closed || st->session->gone || room <= LINK_RESERVE)
		return 0;
	return min_size(min_size(room - LINK_RESERVE, st->in.flow.credit),
			WIRE_PAYLOAD_MAX);
}

/* Out of credit: stop asking epoll; session_receive() turns it on again with WINDOW_ADD.
 */
static void source_watch(struct stream *st, bool on)
{
	struct source *in = &st->in;

	if (!in->polled || in->watched == on)
		return;
	in->watched = on;
	/* Out of it altogether: a hang-up is reported whatever one asks for. */
	if (on)
		watch(st->session, in->fd, EPOLLIN, WATCH_STDIN, st->id, true);
	else
		epoll_ctl(st->session->epfd, EPOLL_CTL_DEL, in->fd, NULL);
}

void source_resume(struct stream *st)
{
	if (st->in.fd >= 0 && st->in.open)
		source_watch(st, source_room(st) > 0);
}

void stream_resume(struct stream *st)
{
	source_resume(st);
}

static int source_end(struct stream *st, struct cove_error *err)
{
	struct source *in = &st->in;

	if (in->fd >= 0 && in->polled)
		epoll_ctl(st->session->epfd, EPOLL_CTL_DEL, in->fd, NULL);
	in->fd = -1;
	in->polled = in->watched = false;
	return stream_eof(st, err);
}

int source_pump(struct stream *st, struct cove_error *err)
{
	struct source *in = &st->in;
	size_t want = source_room(st);
	uint8_t *at;
	ssize_t n;

	if (in->fd < 0 || !in->open)
		return 0;
	source_watch(st, want > 0);
	at = want ? link_data_begin(&st->session->link, want) : NULL;
	if (!at)
		return 0;
	n = read(in->fd, at, want);
	link_data_commit(&st->session->link, 0, st->id, n > 0 ? (size_t)n : 0);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n <= 0)
		return source_end(st, err);
	in->flow.credit -= (uint32_t)n;
	return 0;
}

int64_t stream_write(struct stream *st, const void *data, size_t n,
		     struct cove_error *err)
{
	size_t take = min_size(n, source_room(st));

	if (!st->in.open || st->session->gone)
		return fail(err, COVE_ESTATE, 0, "stdin is closed");
	if (take == 0)
		return 0;
	if (session_send(st->session, WIRE_DATA, 0, st->id, data, take, err) < 0)
		return err->code;
	st->in.flow.credit -= (uint32_t)take;
	return (int64_t)take;
}

int stream_eof(struct stream *st, struct cove_error *err)
{
	if (!st->in.open)
		return 0;
	st->in.open = false;
	if (st->closed || st->session->gone)
		return 0;
	return session_send(st->session, WIRE_EOF, 0, st->id, NULL, 0, err);
}

int stream_signal(struct stream *st, int signo, struct cove_error *err)
{
	uint8_t le[4];

	if (signo < 1 || signo > 64)
		return fail(err, COVE_EINVAL, 0, "signal %d", signo);
	if (st->closed || st->exited)
		return fail(err, COVE_ESTATE, 0, "the process has ended");
	wire_set32(le, (uint32_t)signo);
	return session_send(st->session, WIRE_SIGNAL, 0, st->id, le, sizeof(le), err);
}

int stream_resize(struct stream *st, uint16_t rows, uint16_t cols, struct cove_error *err)
{
	uint8_t le[4];

	if (st->closed || st->exited)
		return 0;
	wire_set16(le, rows);
	wire_set16(le + 2, cols);
	return session_send(st->session, WIRE_RESIZE, 0, st->id, le, sizeof(le), err);
}
