/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/serve.h"

#include "base/fscontrol.h"
#include "base/util.h"
#include "fs/fs.h"
#include "fs/tables.h"

#include <fcntl.h>
#include <poll.h>

/* Bytes from begin to end are waiting. */
struct side {
	uint8_t *data;
	size_t begin, end;
};

/* Input: a whole message, and the beginning of what follows it. Output: an answer is only
 * made when there is room for the longest. */
#define SIDE_SIZE (2u * FS_MESSAGE_MAX)
#define EVENTS_EVERY 256 /* requests at most before the host's changes are looked at */
#define WRITE_SOON (64u * 1024) /* this much is worth a write while requests wait */

struct server {
	struct fs *fs;
	int fd;
	struct side in, out;
	unsigned since_events; /* requests */
	bool more_events;
	int control, tables; /* -1: none */
	bool holding;        /* no notices */
	bool asked;          /* ... and somebody waits for the last to be heard */
	bool settling;       /* somebody waits until there is nothing to tell */
};

static size_t waiting(const struct side *s)
{
	return s->end - s->begin;
}

/* Moves what is waiting to the front. Small messages never make that happen: when all is
 * done, both ends are set back. */
static void compact(struct side *s)
{
	size_t n = waiting(s);

	if (s->begin && n)
		memmove(s->data, s->data + s->begin, n);
	s->begin = 0;
	s->end = n;
}

static size_t room(struct side *s, size_t wanted)
{
	if (SIDE_SIZE - s->end < wanted || s->begin == s->end)
		compact(s);
	return SIDE_SIZE - s->end;
}

/* 0: all that could be done now; -errno: the peer is gone. */
static int flush(struct server *s)
{
	while (waiting(&s->out)) {
		ssize_t n = write(s->fd, s->out.data + s->out.begin, waiting(&s->out));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		s->out.begin += (size_t)n;
	}
	return 0;
}

/* A whole message at the front of the input: its length, 0 if there is none yet. */
static ssize_t complete(const struct server *s)
{
	ssize_t n;

	if (waiting(&s->in) < sizeof(uint32_t))
		return 0;
	n = fs_message_length(s->in.data + s->in.begin);
	return n < 0 || (size_t)n <= waiting(&s->in) ? n : 0;
}

static void notices(struct server *s)
{
	size_t n = 1;

	while (n && !s->holding && room(&s->out, FS_NOTICE_MAX) >= FS_NOTICE_MAX) {
		n = fs_notice(s->fs, s->out.data + s->out.end);
		s->out.end += n;
	}
}

static void host_changes(struct server *s)
{
	s->since_events = 0;
	s->more_events = fs_host_changes(s->fs);
}

static int answer_all(struct server *s)
{
	ssize_t n, r;

	while (room(&s->out, FS_MESSAGE_MAX) >= FS_MESSAGE_MAX) {
		n = complete(s);
		if (n <= 0)
			return (int)n;
		r = fs_request(s->fs, s->in.data + s->in.begin, (size_t)n,
			       s->out.data + s->out.end);
		if (r < 0)
			return (int)r;
		s->in.begin += (size_t)n;
		s->out.end += (size_t)r;
		if (++s->since_events >= EVENTS_EVERY && !s->holding)
			host_changes(s);
		r = waiting(&s->out) >= WRITE_SOON ? flush(s) : 0;
		if (r < 0)
			return (int)r;
	}
	return 0;
}

/* 1: something came, or nothing did; 0: end. */
static int receive(struct server *s)
{
	size_t n = room(&s->in, FS_MESSAGE_MAX);
	ssize_t r;

	if (n == 0)
		return 1;
	r = read(s->fd, s->in.data + s->in.end, n);
	if (r < 0)
		return errno == EAGAIN || errno == EINTR ? 1 : -errno;
	s->in.end += (size_t)r;
	return r > 0;
}

/* ---- for a save ------------------------------------------------------------------- */

static void reply(struct server *s, int32_t result)
{
	if (write(s->control, &result, sizeof(result)) < 0)
		s->control = -1; /* whoever asked is gone */
}

static int save(struct server *s)
{
	if (!s->holding || s->asked || waiting(&s->in) || waiting(&s->out))
		return -EBUSY;
	if (ftruncate(s->tables, 0) < 0 || lseek(s->tables, 0, SEEK_SET) < 0)
		return -errno;
	return fs_tables_save(s->fs, s->tables);
}

static void control(struct server *s)
{
	char what = 0;
	ssize_t n = read(s->control, &what, 1);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		s->control = -1;
		return;
	}
	if (what == FS_HOLD) {
		s->holding = s->asked = true;
		return;
	}
	if (what == FS_SETTLE) {
		s->settling = true;
		return;
	}
	if (what == FS_RELEASE)
		s->holding = s->asked = false;
	reply(s, what == FS_SAVE ? save(s) : what == FS_RELEASE ? 0 : -EINVAL);
}

static void tell_held(struct server *s)
{
	if (!s->asked || waiting(&s->out) || !fs_told_all(s->fs))
		return;
	s->asked = false;
	reply(s, 0);
}

static void tell_settled(struct server *s)
{
	if (!s->settling || s->more_events || waiting(&s->out) || !fs_settled(s->fs))
		return;
	s->settling = false;
	reply(s, 0);
}

static int turn(struct server *s)
{
	bool full = room(&s->out, FS_MESSAGE_MAX) < FS_MESSAGE_MAX;
	/* The tables hold still, too. */
	bool more = !s->holding && (s->more_events || fs_changes_wait(s->fs));
	struct pollfd p[3] = {
		{.fd = s->fd      },
		{ .fd = s->holding ? -1 : fs_watch_fd(s->fs), .events = POLLIN},
		{ .fd = s->control, .events = POLLIN}
        };
	int r = 1;

	p[0].events = (short)((full ? 0 : POLLIN) | (waiting(&s->out) ? POLLOUT : 0));
	if (poll(p, 3, more ? 0 : -1) < 0)
		return errno == EINTR ? 1 : -errno;
	if (p[0].revents & (POLLIN | POLLHUP | POLLERR) && !full)
		r = receive(s);
	if (r <= 0)
		return r;
	if (p[1].revents || more)
		host_changes(s);
	r = flush(s);
	if (r == 0)
		r = answer_all(s);
	notices(s);
	if (r == 0)
		r = flush(s);
	if (p[2].revents)
		control(s);
	tell_held(s);
	tell_settled(s);
	return r < 0 ? r : 1;
}

int fs_serve(struct fs *fs, int stream)
{
	return fs_serve_saved(fs, stream, -1, -1);
}

int fs_serve_saved(struct fs *fs, int stream, int control_fd, int tables)
{
	struct server s = {
		.fs = fs, .fd = stream, .control = control_fd, .tables = tables};
	int r = 1;

	s.in.data = malloc(SIDE_SIZE);
	s.out.data = malloc(SIDE_SIZE);
	if (!s.in.data || !s.out.data)
		r = -ENOMEM;
	else if (fcntl(stream, F_SETFL, fcntl(stream, F_GETFL) | O_NONBLOCK) < 0)
		r = -errno;
	while (r > 0)
		r = turn(&s);
	free(s.in.data);
	free(s.out.data);
	return r == -EPIPE || r == -ECONNRESET ? 0 : r;
}
