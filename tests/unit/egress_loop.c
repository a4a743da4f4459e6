/* SPDX-License-Identifier: Apache-2.0 */
/* The loop: events, timers in order, and nothing after a stop. */
#include "egress/loop.h"

#include "base/util.h"
#include "tap.h"

#include <sys/epoll.h>
#include <sys/socket.h>

static struct loop *loop;

/* ---- two watches, each of which stops the other --------------------------------- */

struct end {
	struct watch w;
	struct end *other;
	int calls;
};

static void stops_other(struct watch *w, uint32_t events)
{
	struct end *e = container_of(w, struct end, w);

	(void)events;
	e->calls++;
	watch_stop(loop, &e->other->w);
	/* Its slot is used again at once: the event in the batch is not for this one. */
	watch_start(loop, &e->other->w, e->other->w.fd, 0, stops_other);
	loop_stop(loop);
}

static void stopped_watch_is_silent(void)
{
	struct end a = {.other = NULL}, b = {.other = &a};
	int p[2], q[2];

	a.other = &b;
	OK(socketpair(AF_UNIX, SOCK_STREAM, 0, p) == 0 &&
		   socketpair(AF_UNIX, SOCK_STREAM, 0, q) == 0,
	   "sockets");
	OK(write(p[1], "x", 1) == 1 && write(q[1], "x", 1) == 1, "both are readable");
	OK(watch_start(loop, &a.w, p[0], EPOLLIN, stops_other) == 0 &&
		   watch_start(loop, &b.w, q[0], EPOLLIN, stops_other) == 0,
	   "watched");
	OK(loop_run(loop) == 0 && a.calls + b.calls == 1, "only one of them was called");
	watch_stop(loop, &a.w);
	watch_stop(loop, &b.w);
	watch_stop(loop, &b.w); /* twice is fine */
	for (int i = 0; i < 2; i++) {
		close(p[i]);
		close(q[i]);
	}
}

static void moved(struct watch *w, uint32_t events)
{
	struct end *e = container_of(w, struct end, w);

	(void)events;
	e->calls++;
	loop_stop(loop);
}

static void moved_watch_is_called(void)
{
	struct end a = {.calls = 0}, b = {.calls = 0};
	int p[2];

	OK(socketpair(AF_UNIX, SOCK_STREAM, 0, p) == 0 && write(p[1], "x", 1) == 1 &&
		   watch_start(loop, &a.w, p[0], EPOLLIN, moved) == 0,
	   "one more");
	watch_move(loop, &b.w, &a.w);
	OK(loop_run(loop) == 0 && a.calls == 0 && b.calls == 1,
	   "it is called where it is");
	OK(watch_change(loop, &a.w, 0) == -EINVAL && watch_change(loop, &b.w, 0) == 0,
	   "and changed there");
	close(p[0]);
	watch_forget(loop, &b.w);
	close(p[1]);
}

/* ---- timers --------------------------------------------------------------------- */

#define TIMERS 600

struct tick {
	struct timer t;
	int calls;
};
static struct tick ticks[TIMERS];
static int64_t last_at;
static int wrong, left;

static void tick(struct timer *t)
{
	struct tick *k = container_of(t, struct tick, t);

	k->calls++;
	wrong += t->at_ms < last_at || t->slot != 0;
	last_at = t->at_ms;
	if (--left == 0)
		loop_stop(loop);
}

static void timers_in_order(void)
{
	unsigned seed = 1;
	int stopped = 0;

	for (int i = 0; i < TIMERS; i++) {
		seed = seed * 1103515245u + 12345u;
		timer_start(loop, &ticks[i].t, seed >> 16 & 63, tick);
	}
	for (int i = 0; i < TIMERS; i += 3, stopped++)
		timer_stop(loop, &ticks[i].t);
	for (int i = 1; i < TIMERS; i += 3)
		timer_start(loop, &ticks[i].t, i % 50, tick); /* anew */
	left = TIMERS - stopped;
	OK(loop_run(loop) == 0 && wrong == 0, "in order");
	for (int i = 0; i < TIMERS; i++)
		wrong += ticks[i].calls != (i % 3 != 0);
	OK(wrong == 0, "each once, the stopped ones never");
}

static void again(struct timer *t)
{
	if (--left == 0)
		loop_stop(loop);
	else
		timer_start(loop, t, 0, again);
}

static void zero_timer_lets_others_in(void)
{
	struct end a = {.calls = 0};
	struct timer t = {0};
	int p[2];

	left = 1000000;
	OK(socketpair(AF_UNIX, SOCK_STREAM, 0, p) == 0 && write(p[1], "x", 1) == 1 &&
		   watch_start(loop, &a.w, p[0], EPOLLIN, moved) == 0,
	   "a watch beside a timer that always is due");
	timer_start(loop, &t, 0, again);
	OK(loop_run(loop) == 0 && a.calls == 1 && left > 999000, "is called");
	timer_stop(loop, &t);
	watch_stop(loop, &a.w);
	close(p[0]);
	close(p[1]);
}

int main(void)
{
	OK(loop_new(&loop) == 0, "a loop");
	stopped_watch_is_silent();
	moved_watch_is_called();
	timers_in_order();
	zero_timer_lets_others_in();
	loop_free(loop);
	return tap_done();
}
