/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop - one turn: wait, move bytes, take frames, reap, settle, write out.
 *
 * The poll set is built anew each turn from the state of the streams: there is no second
 * record of interest that could go wrong, and a one-shot pays for no epoll set. SIGCHLD
 * is blocked but while we wait in ppoll().
 */
#include "guest/guest.h"

#include "base/util.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define IDLE_MS 500        /* then buffers go back to the kernel */
#define HOLD_MS 2          /* how long STARTED and EOF may wait for what comes next */
#define AFTER_KILL_MS 500  /* for the last EXITs of a shutdown */
#define LAST_WORDS_MS 2000 /* how long a peer that does not read may delay our end */

volatile sig_atomic_t guest_child_ended, guest_terminated;

enum { SINK = 2 }; /* 0 and 1: a source */

struct pollset {
	struct slot {
		struct stream *s;
		int which;
	} * slot;
	struct pollfd *fd;
	size_t n, cap;
	bool generator; /* something is ready without waiting */
};

int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void on_sigchld(int sig)
{
	(void)sig;
	guest_child_ended = 1;
}

static void on_sigterm(int sig)
{
	(void)sig;
	guest_terminated = 1;
}

void guest_signals(bool init)
{
	static const unsigned long dfl[4]; /* the kernel's struct sigaction: SIG_DFL */
	struct sigaction chld = {.sa_handler = on_sigchld};
	struct sigaction term = {.sa_handler = on_sigterm};
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	sigset_t set;

	/* What the caller ignored would be ignored in every process we start. */
	for (int i = 1; i <= 64; i++)
		syscall(SYS_rt_sigaction, i, dfl, NULL, sizeof(unsigned long));
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaction(SIGCHLD, &chld, NULL);
	sigaction(SIGPIPE, &ignore, NULL);
	if (!init) {
		const int sigs[] = {SIGTERM, SIGINT, SIGHUP};

		for (size_t i = 0; i < ARRAY_LEN(sigs); i++) {
			sigaction(sigs[i], &term, NULL);
			sigaddset(&set, sigs[i]);
		}
	}
	sigprocmask(SIG_SETMASK, &set, NULL);
}

int guest_open(struct guest *g, int in_fd, int out_fd, bool init)
{
	*g = (struct guest){.init = init};
	link_init(&g->link, in_fd, out_fd);
	if (fcntl(in_fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	if (out_fd != in_fd && fcntl(out_fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	g->poll = calloc(1, sizeof(*g->poll));
	return g->poll ? link_hello(&g->link) : -ENOMEM;
}

static int pollset_reserve(struct pollset *p, size_t n)
{
	size_t cap = p->cap ? p->cap : 8;
	void *q;

	while (cap < n)
		cap *= 2;
	if (cap == p->cap)
		return 0;
	q = realloc(p->fd, cap * sizeof(*p->fd));
	if (!q)
		return -ENOMEM;
	p->fd = q;
	q = realloc(p->slot, cap * sizeof(*p->slot));
	if (!q)
		return -ENOMEM;
	p->slot = q;
	p->cap = cap;
	return 0;
}

static void pollset_add(struct pollset *p, struct stream *s, int which, int fd,
			short events)
{
	p->fd[p->n] = (struct pollfd){.fd = fd, .events = events};
	p->slot[p->n++] = (struct slot){s, which};
}

static void pollset_add_stream(struct guest *g, struct stream *s)
{
	struct pollset *p = g->poll;

	if (s->closed)
		return;
	for (int i = 0; i < 2; i++) {
		if (!source_ready(g, &s->out[i]))
			continue;
		if (s->out[i].fd < 0 || s->out[i].draining)
			p->generator = true;
		pollset_add(p, s, i, s->out[i].fd, POLLIN);
	}
	if (s->in.fd >= 0 && (s->in.buf.len || s->want_writable) && !g->quiet)
		pollset_add(p, s, SINK, s->in.fd, POLLOUT);
}

void hold(struct guest *g)
{
	g->held = link_pending(&g->link);
	g->held_until_ms = now_ms() + HOLD_MS;
}

/* May everything that is to be written wait a moment longer? */
static bool held(const struct guest *g)
{
	return g->held && g->held == link_pending(&g->link) && !g->ending &&
	       now_ms() < g->held_until_ms;
}

static bool takes_input(const struct guest *g)
{
	return !g->link.eof && link_room(&g->link) >= ROOM_FOR_INPUT;
}

static int pollset_build(struct guest *g)
{
	struct pollset *p = g->poll;
	struct link *l = &g->link;
	bool wants_out = link_pending(l) && !held(g);

	if (pollset_reserve(p, g->streams * 3 + 2) < 0)
		return -ENOMEM;
	p->n = 0;
	p->generator = false;
	/* The link comes first: slot 0 to read, slot 1 to write. */
	pollset_add(p, NULL, 0, takes_input(g) ? l->in_fd : -1, POLLIN);
	pollset_add(p, NULL, 1, wants_out ? l->out_fd : -1, POLLOUT);
	for (unsigned i = 0; i < BUCKETS; i++)
		for (struct stream *s = g->bucket[(i + g->turn) % BUCKETS]; s;
		     s = s->next)
			pollset_add_stream(g, s);
	g->turn++; /* a full output buffer must not always serve the same streams */
	return 0;
}

static void sooner(int64_t *t, int64_t deadline)
{
	if (deadline > 0 && (*t < 0 || deadline < *t))
		*t = deadline;
}

/* Milliseconds until something is due; -1: nothing is. */
static int time_left(const struct guest *g, int max_ms)
{
	int64_t t = -1, left;

	if (g->poll->generator || guest_child_ended)
		return 0;
	if (g->quiet)
		return -1;
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct stream *s = g->bucket[i]; s; s = s->next)
			sooner(&t, s->deadline_ms);
	sooner(&t, g->shutdown_ms);
	if (held(g))
		sooner(&t, g->held_until_ms);
	if (t < 0 && max_ms < 0)
		return g->link.in || g->link.out ? IDLE_MS : -1;
	left = t < 0 ? max_ms : t - now_ms();
	if (max_ms >= 0 && left > max_ms)
		left = max_ms;
	return left < 0 ? 0 : (int)left;
}

static int wait_for_events(struct guest *g, int max_ms)
{
	int ms = time_left(g, max_ms);
	struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
	sigset_t none;
	int n;

	sigemptyset(&none);
	n = ppoll(g->poll->fd, g->poll->n, ms < 0 ? NULL : &t, &none);
	if (n < 0 && errno != EINTR)
		return -errno;
	if (n < 0) /* what revents hold is undefined */
		for (size_t i = 0; i < g->poll->n; i++)
			g->poll->fd[i].revents = 0;
	if (n == 0 && ms == IDLE_MS)
		link_trim(&g->link);
	return 0;
}

static void pump(struct guest *g)
{
	struct pollset *p = g->poll;

	for (size_t i = 2; i < p->n; i++) {
		struct stream *s = p->slot[i].s;
		int which = p->slot[i].which;
		bool ready = p->fd[i].revents != 0;

		if (s->closed)
			continue;
		if (which != SINK) {
			if (ready || p->fd[i].fd < 0 || s->out[which].draining)
				source_pump(g, s, which);
		} else if (ready && s->want_writable) {
			s->ops->writable(g, s);
		} else if (ready) {
			sink_pump(g, s);
		}
	}
}

static int take_input(struct guest *g)
{
	struct link *l = &g->link;
	struct wire_frame f;
	int r = 0;

	if (g->poll->fd[0].revents)
		r = link_fill(l);
	if (r < 0 && !l->eof)
		return r;
	while (!g->ending && link_room(l) >= ROOM_FOR_INPUT) {
		r = link_next(l, &f);
		if (r < 0)
			return violation(g, "malformed frame");
		if (r == 0)
			break;
		r = dispatch(g, &f);
		if (r < 0)
			return r;
	}
	return l->eof ? -EPIPE : 0;
}

/* SHUTDOWN is over when every process is gone and its EXIT is on the way. */
static void settle_shutdown(struct guest *g, bool all_said)
{
	if (g->alone && all_said)
		g->ending = true;
	if (now_ms() < g->shutdown_ms)
		return;
	if (g->killed)
		g->ending = true;
	proc_kill_all(g, SIGKILL);
	g->killed = true;
	g->shutdown_ms = now_ms() + AFTER_KILL_MS;
}

static void settle_all(struct guest *g)
{
	bool all_said = true;

	for (size_t i = 0; i < BUCKETS; i++) {
		struct stream *s = g->bucket[i], *next;

		for (; s; s = next) {
			next = s->next;
			if (!s->closed && s->ops->settle)
				s->ops->settle(g, s);
			if (!s->closed && s->ops == &proc_ops)
				all_said = false;
			if (s->closed && s->peer_closed)
				stream_free(g, s);
		}
	}
	if (g->shutdown)
		settle_shutdown(g, all_said);
}

static int write_out(struct guest *g)
{
	int r;

	if (!link_pending(&g->link) || held(g))
		return 0;
	r = link_flush(&g->link);
	if (r == 0)
		g->held = 0;
	return r < 0 ? r : 0;
}

int guest_turn(struct guest *g, int max_ms)
{
	int r = pollset_build(g);

	if (r == 0)
		r = wait_for_events(g, max_ms);
	if (r < 0)
		return r;
	pump(g);
	r = take_input(g);
	if (guest_child_ended) {
		guest_child_ended = 0;
		proc_reap(g);
	}
	if (!g->quiet)
		settle_all(g);
	if (r == 0 && !g->ending)
		r = write_out(g);
	return r < 0 ? r : g->ending || guest_terminated ? -ESHUTDOWN : 0;
}

/* The peer may be slow to read our last words, or never read them. */
static void last_words(struct guest *g)
{
	int64_t until = now_ms() + LAST_WORDS_MS;
	struct pollfd p = {.fd = g->link.out_fd, .events = POLLOUT};

	if (g->bye)
		send_frame(g, WIRE_BYE, 0, 0, g->bye, strlen(g->bye));
	while (link_flush(&g->link) == 1 && now_ms() < until)
		poll(&p, 1, 100);
}

int guest_run(struct guest *g)
{
	int r;

	do
		r = guest_turn(g, -1);
	while (r == 0);
	last_words(g);
	return g->bye ? 1 : 0;
}

/* In a namespace of ours the kernel does this when we exit. */
static void kill_children(struct guest *g)
{
	struct timespec pause = {0, 50000}; /* death takes a moment; longer each time */

	for (int i = 0; i < 200; i++) {
		proc_kill_all(g, SIGKILL);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
			return;
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < 10000000)
			pause.tv_nsec *= 2;
	}
}

void guest_close(struct guest *g)
{
	if (!g->init)
		kill_children(g);
	for (size_t i = 0; i < BUCKETS; i++)
		while (g->bucket[i])
			stream_free(g, g->bucket[i]);
	link_clear(&g->link);
	if (g->poll) {
		free(g->poll->fd);
		free(g->poll->slot);
	}
	free(g->poll);
	g->poll = NULL;
	free(g->env_arena);
	g->env_arena = NULL;
	g->env = NULL;
}
