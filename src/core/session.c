/* SPDX-License-Identifier: Apache-2.0 */
#include "core/session_impl.h"

#include "base/util.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>

#define REST_MAX 1000 /* reads, of what a guest left when it ended */

int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- watching descriptors ------------------------------------------------------- */

int watch(struct session *s, int fd, uint32_t events, enum watch_what what, uint32_t id,
	  bool add)
{
	struct epoll_event e = {.events = events,
				.data.u64 = ((uint64_t)what << 32) | id};

	return epoll_ctl(s->epfd, add ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &e) < 0
		       ? -errno
		       : 0;
}

/* The link wants EPOLLOUT only while something waits to be written. */
static void watch_link(struct session *s)
{
	bool want = link_pending(&s->link) > 0;

	if (want == s->link_out || s->gone)
		return;
	s->link_out = want;
	watch(s, s->link_fd, EPOLLIN | (want ? EPOLLOUT : 0), WATCH_LINK, 0, false);
}

/* Writes what waits. A failure is no verdict: the guest's last words may still be there
 * to read, and the read side sees the end for certain. What could not be sent is dropped.
 */
static void push(struct session *s)
{
	if (link_flush(&s->link) < 0)
		s->link.out_start = s->link.out_end = 0;
	watch_link(s);
}

/* ---- life ----------------------------------------------------------------------- */

struct session *session_new(int *link_fd, struct cove_error *err)
{
	struct session *s = calloc(1, sizeof(*s));
	int fl;

	if (!s) {
		fail_nomem(err);
		return NULL;
	}
	s->next_id = 1;
	s->hello_by = now_ms() + HELLO_MS;
	s->timer = -1;
	s->link_fd = -1;
	s->guest.alarm = -1;
	s->epfd = epoll_create1(EPOLL_CLOEXEC);
	fl = fcntl(*link_fd, F_GETFL);
	if (s->epfd < 0 || fl < 0 || fcntl(*link_fd, F_SETFL, fl | O_NONBLOCK) < 0 ||
	    watch(s, *link_fd, EPOLLIN, WATCH_LINK, 0, true) < 0) {
		fail(err, COVE_EIO, errno, "connection");
		session_free(s);
		return NULL;
	}
	s->link_fd = take_fd(link_fd);
	link_init(&s->link, s->link_fd, s->link_fd);
	if (link_hello(&s->link) < 0) {
		fail_nomem(err);
		session_free(s);
		return NULL;
	}
	return s;
}

static void stream_destroy(struct stream *st)
{
	for (int i = 0; i < 2; i++) {
		sink_close(st->session, &st->out[i]);
		buf_clear(&st->out[i].wait);
	}
	buf_clear(&st->result);
	buf_clear(&st->data);
	free(st);
}

void session_free(struct session *s)
{
	if (!s)
		return;
	while (s->streams) {
		struct stream *st = s->streams;

		s->streams = st->next;
		stream_destroy(st);
	}
	link_clear(&s->link);
	close_fd(&s->link_fd);
	close_fd(&s->epfd);
	close_fd(&s->timer);
	free(s);
}

int session_fd(const struct session *s)
{
	return s->epfd;
}

bool session_gone(const struct session *s)
{
	return s->gone;
}

const char *session_bye(const struct session *s)
{
	return s->bye;
}

const char *session_bye_hint(const struct session *s)
{
	return s->bye_hint;
}

void session_set_tick(struct session *s, int64_t at_ms, int64_t (*fn)(void *arg),
		      void *arg)
{
	s->tick_at = at_ms;
	s->tick = fn;
	s->tick_arg = arg;
}

void session_set_bye(struct session *s, const char *text, const char *tip)
{
	snprintf(s->bye, sizeof(s->bye), "%s", text);
	snprintf(s->bye_hint, sizeof(s->bye_hint), "%s", tip ? tip : "");
}

void session_wait_for(struct session *s, uint32_t ms)
{
	s->hello_by = now_ms() + ms;
}

int session_set_guest(struct session *s, const struct session_watch *w)
{
	s->guest = *w;
	s->pulse.limit_ms = w->silence_ms;
	if (w->up_ms)
		session_wait_for(s, w->up_ms);
	return w->alarm < 0 ? 0 : watch(s, w->alarm, EPOLLIN, WATCH_ALARM, 0, true);
}

struct link *session_link(struct session *s)
{
	return &s->link;
}

struct stream *session_find(struct session *s, uint32_t id)
{
	for (struct stream *st = s->streams; st; st = st->next)
		if (st->id == id)
			return st;
	return NULL;
}

static void unlink_stream(struct session *s, struct stream *st)
{
	struct stream **p = &s->streams;

	while (*p && *p != st)
		p = &(*p)->next;
	if (*p)
		*p = st->next;
}

/* ---- opening and sending -------------------------------------------------------- */

int session_send(struct session *s, uint8_t type, uint8_t sub, uint32_t id,
		 const void *payload, size_t n, struct cove_error *err)
{
	int r;

	if (s->gone)
		return fail(err, COVE_EGONE, 0, "the sandbox has ended");
	r = link_send(&s->link, type, sub, id, payload, n);
	if (r < 0)
		return fail(err, r == -ENOBUFS ? COVE_ESTATE : COVE_ENOMEM, -r, "send");
	/* Now, not at the next turn: a signal or a request should be on its way. */
	push(s);
	return 0;
}

struct stream *session_open(struct session *s, enum stream_kind kind, uint8_t type,
			    uint8_t sub, const void *payload, size_t n,
			    struct cove_error *err)
{
	struct stream *st = calloc(1, sizeof(*st));

	if (!st) {
		fail_nomem(err);
		return NULL;
	}
	st->session = s;
	st->kind = kind;
	st->id = s->next_id++;
	if (s->next_id == 0)
		s->next_id = 1;
	st->in.fd = -1;
	flow_init(&st->in.flow);
	for (int i = 0; i < 2; i++) {
		st->out[i].fd = -1;
		flow_init(&st->out[i].flow);
		buf_init(&st->out[i].wait, 2 * WIRE_WINDOW);
	}
	buf_init(&st->result, WIRE_PAYLOAD_MAX);
	buf_init(&st->data, CALL_DATA_MAX);
	if (session_send(s, type, sub, st->id, payload, n, err) < 0) {
		free(st);
		return NULL;
	}
	st->next = s->streams;
	s->streams = st;
	return st;
}

void session_release(struct stream *st)
{
	struct session *s;
	struct cove_error ignored;

	if (!st)
		return;
	s = st->session;
	if (st->in.fd >= 0 && st->in.polled)
		epoll_ctl(s->epfd, EPOLL_CTL_DEL, st->in.fd, NULL);
	st->in.fd = -1;
	st->output = NULL;
	for (int i = 0; i < 2; i++) {
		sink_close(s, &st->out[i]);
		st->out[i].kind = SINK_DROP;
	}
	if (st->closed || s->gone) {
		unlink_stream(s, st);
		stream_destroy(st);
		return;
	}
	st->released = true; /* freed when the server's CLOSE arrives */
	session_send(s, WIRE_CLOSE, 0, st->id, NULL, 0, &ignored);
}

/* Is there something that it has not finished? */
static bool expected(const struct session *s)
{
	for (const struct stream *st = s->streams; st; st = st->next)
		if (!st->closed && !st->exited && !st->failed && !st->released)
			return true;
	return !s->link.hello_seen;
}

static void lost(struct session *s, bool silent)
{
	if (s->guest.lost && !s->bye[0] && expected(s))
		s->guest.lost(s->guest.arg, silent);
	else if (silent && !s->bye[0])
		session_set_bye(s, "the guest does not answer", NULL);
	if (s->guest.alarm >= 0)
		epoll_ctl(s->epfd, EPOLL_CTL_DEL, s->guest.alarm, NULL);
}

void session_set_gone(struct session *s)
{
	if (s->gone)
		return;
	lost(s, false);
	s->gone = true;
	epoll_ctl(s->epfd, EPOLL_CTL_DEL, s->link_fd, NULL);
	for (struct stream *st = s->streams; st; st = st->next) {
		st->gone = !st->exited && !st->failed;
		st->closed = true;
	}
}

/* ---- turns ---------------------------------------------------------------------- */

static void arm_timer(struct session *s)
{
	int64_t next = s->tick_at;
	struct itimerspec t = {0};

	for (struct stream *st = s->streams; st; st = st->next)
		if (st->deadline_ms && !st->exited && (!next || st->deadline_ms < next))
			next = st->deadline_ms;
	if (!s->link.hello_seen && (!next || s->hello_by < next))
		next = s->hello_by;
	if (s->pulse.due_ms && (!next || s->pulse.due_ms < next))
		next = s->pulse.due_ms;
	if (next == s->timer_at)
		return;
	if (s->timer < 0) {
		s->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
		if (s->timer < 0 || watch(s, s->timer, EPOLLIN, WATCH_TIMER, 0, true) < 0)
			return;
	}
	t.it_value.tv_sec = next / 1000;
	t.it_value.tv_nsec = next % 1000 * 1000000;
	timerfd_settime(s->timer, TFD_TIMER_ABSTIME, &t, NULL);
	s->timer_at = next;
}

static void give_up(struct session *s)
{
	lost(s, true);
	session_set_gone(s);
}

static void feel_pulse(struct session *s)
{
	struct cove_error ignored;

	switch (pulse_turn(&s->pulse, now_ms(), s->link.hello_seen && expected(s))) {
	case PULSE_WELL:
		break;
	case PULSE_ASK:
		session_send(s, WIRE_PING, 0, 0, NULL, 0, &ignored);
		break;
	case PULSE_LOST:
		give_up(s);
		break;
	}
}

/* First SIGTERM, 2 s later SIGKILL, and a guest that reports no end even then is given
 * up. The host decides: the guest is not asked for the time. */
static void expire(struct session *s)
{
	int64_t now = now_ms();
	struct cove_error ignored;

	if (s->tick_at && now >= s->tick_at)
		s->tick_at = s->tick(s->tick_arg);
	if (!s->link.hello_seen && now >= s->hello_by)
		give_up(s);
	for (struct stream *st = s->streams; st && !s->gone; st = st->next) {
		if (!st->deadline_ms || st->deadline_ms > now || st->exited || st->closed)
			continue;
		st->timed_out = true;
		if (st->kill_step == 3)
			give_up(s);
		else
			stream_signal(st, st->kill_step++ ? SIGKILL : SIGTERM, &ignored);
		st->deadline_ms = now + 2000;
	}
}

static void free_released(struct session *s)
{
	struct stream **p = &s->streams;

	while (*p) {
		struct stream *st = *p;

		if (st->released && st->closed) {
			*p = st->next;
			stream_destroy(st);
		} else {
			p = &st->next;
		}
	}
}

/* A part of the guest's place has ended, and so has the guest; what it said before
 * counts. */
static int receive_rest(struct session *s, struct cove_error *err)
{
	struct pollfd p = {.fd = s->link_fd, .events = POLLIN};
	int r = 0;

	for (int i = 0; r == 0 && !s->gone && i < REST_MAX && poll(&p, 1, 0) > 0; i++)
		r = session_receive(s, err);
	session_set_gone(s);
	return r;
}

static int handle_event(struct session *s, const struct epoll_event *e,
			struct cove_error *err)
{
	enum watch_what what = (enum watch_what)(e->data.u64 >> 32);
	struct stream *st = session_find(s, (uint32_t)e->data.u64);

	switch (what) {
	case WATCH_LINK:
		return session_receive(s, err);
	case WATCH_TIMER: {
		uint64_t n;

		if (read(s->timer, &n, sizeof(n)) > 0) {
			s->timer_at = 0;
			expire(s);
		}
		return 0;
	}
	case WATCH_STDIN:
		return st ? source_pump(st, err) : 0;
	case WATCH_OUT1:
	case WATCH_OUT2:
		return st ? sink_drain(st, what == WATCH_OUT1 ? 0 : 1, err) : 0;
	case WATCH_OWNER:
		s->owner_ready = true;
		return 0;
	case WATCH_ALARM:
		return receive_rest(s, err);
	case WATCH_PORT:
		if (s->accept)
			s->accept(s->ports, (uint32_t)e->data.u64);
		return 0;
	default:
		return 0;
	}
}

void session_each(const struct session *s, void (*fn)(void *arg, const struct stream *st),
		  void *arg)
{
	for (const struct stream *st = s->streams; st; st = st->next)
		fn(arg, st);
}

void session_read(struct session *s)
{
	struct cove_error ignored = {0};

	if (!s->gone)
		session_receive(s, &ignored);
}

int session_set_watch(struct session *s, int fd, void (*fn)(void *arg), void *arg)
{
	s->owner = fn;
	s->owner_arg = arg;
	return watch(s, fd, EPOLLIN, WATCH_OWNER, 0, true);
}

void session_set_ports(struct session *s, void (*accept)(void *arg, uint32_t which),
		       void (*settle)(void *arg), void *arg)
{
	s->accept = accept;
	s->settle = settle;
	s->ports = arg;
}

int session_watch_port(struct session *s, int fd, uint32_t which, bool on)
{
	if (on)
		return watch(s, fd, EPOLLIN, WATCH_PORT, which, true);
	return epoll_ctl(s->epfd, EPOLL_CTL_DEL, fd, NULL) < 0 ? -errno : 0;
}

/* Sources that epoll cannot watch (regular files) are read whenever there is room. */
static bool pump_files(struct session *s, struct cove_error *err)
{
	bool busy = false;

	for (struct stream *st = s->streams; st; st = st->next)
		if (st->in.fd >= 0 && !st->in.polled && st->in.open && source_room(st)) {
			source_pump(st, err);
			busy = busy || (st->in.open && source_room(st));
		}
	return busy;
}

/* A write to a closed pipe raises SIGPIPE: hold it back, and swallow the one we caused.
 */
static void sigpipe_block(sigset_t *old)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &set, old);
}

static void sigpipe_restore(const sigset_t *old, bool caused)
{
	const struct timespec zero = {0};
	sigset_t set;

	if (caused && !sigismember(old, SIGPIPE)) {
		sigemptyset(&set);
		sigaddset(&set, SIGPIPE);
		while (sigtimedwait(&set, NULL, &zero) < 0 && errno == EINTR)
			;
	}
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

static void flush(struct session *s)
{
	if (!s->gone && link_pending(&s->link))
		push(s);
}

/* As much as credit and room allow, at once: for a file no event says when to go on, and
 * the caller may be waiting in a loop of its own. */
static bool pump_all(struct session *s, struct cove_error *err)
{
	bool busy = pump_files(s, err);

	for (int i = 0; busy && i < 64; i++) {
		flush(s);
		busy = pump_files(s, err);
	}
	return busy;
}

static int turn(struct session *s, int timeout_ms, struct cove_error *err)
{
	struct epoll_event ev[16];
	int n, r = 0;

	if (pump_all(s, err))
		timeout_ms = 0;
	arm_timer(s);
	flush(s);
	n = epoll_wait(s->epfd, ev, 16, timeout_ms);
	if (n < 0)
		return errno == EINTR ? 0 : fail(err, COVE_EIO, errno, "wait");
	for (int i = 0; i < n && r == 0; i++)
		r = handle_event(s, &ev[i], err);
	if (s->owner_ready) {
		s->owner_ready = false;
		s->owner(s->owner_arg);
	}
	if (s->settle)
		s->settle(s->ports);
	if (!s->gone)
		feel_pulse(s);
	pump_all(s, err);
	flush(s);
	free_released(s);
	if (!s->gone)
		arm_timer(s); /* the caller may wait for our descriptor now, without a
				 turn */
	return r;
}

static bool draining(const struct session *s)
{
	for (const struct stream *st = s->streams; st; st = st->next)
		for (int i = 0; i < 2; i++)
			if (st->out[i].wait.len)
				return true;
	return false;
}

int session_turn(struct session *s, int timeout_ms, struct cove_error *err)
{
	sigset_t old;
	int r;

	if (s->gone && !draining(s)) {
		fail(err, COVE_EGONE, 0, "the sandbox has ended%s%s",
		     s->bye[0] ? ": " : "", s->bye);
		return s->bye_hint[0] ? hint(err, "%s", s->bye_hint) : err->code;
	}
	sigpipe_block(&old);
	s->sigpipe = false;
	r = turn(s, timeout_ms, err);
	sigpipe_restore(&old, s->sigpipe);
	return r;
}
