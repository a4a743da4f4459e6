/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop - epoll for descriptors, a heap for timers.
 *
 * epoll carries the number of a slot and its generation, never a pointer: a slot's
 * generation changes when its watch stops, so an event that is already in the batch finds
 * nobody. A timer costs no system call; the top of the heap is epoll_wait()'s timeout.
 */
#include "egress/loop.h"

#include "base/util.h"

#include <sys/epoll.h>
#include <time.h>

#define BATCH 256
#define TIMERS_SPARE 256 /* beyond two for each watch */

struct slot {
	struct watch *w;     /* NULL: free */
	uint32_t generation; /* of this use */
	uint32_t next_free;
};

struct loop {
	int epoll;
	bool running, stop;
	int failed; /* -errno: loop_run() ends with it */
	int64_t now_ms;
	struct slot *slots; /* [0] is not used */
	uint32_t n_slots, free_slot, n_watches;
	struct timer **heap; /* [1] is the next one */
	uint32_t n_timers, timers_room;
};

static int64_t clock_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int loop_new(struct loop **ret)
{
	struct loop *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll < 0) {
		int r = -errno;

		free(l);
		return r;
	}
	l->now_ms = clock_ms();
	*ret = l;
	return 0;
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	close_fd(&l->epoll);
	free(l->slots);
	free(l->heap);
	free(l);
}

int64_t loop_now(const struct loop *l)
{
	return l->running ? l->now_ms : clock_ms();
}

void loop_stop(struct loop *l)
{
	l->stop = true;
}

/* ---- timers --------------------------------------------------------------------- */

static void heap_put(struct loop *l, uint32_t i, struct timer *t)
{
	l->heap[i] = t;
	t->slot = i;
}

static void heap_up(struct loop *l, uint32_t i, struct timer *t)
{
	for (; i > 1 && l->heap[i / 2]->at_ms > t->at_ms; i /= 2)
		heap_put(l, i, l->heap[i / 2]);
	heap_put(l, i, t);
}

static void heap_down(struct loop *l, uint32_t i, struct timer *t)
{
	for (uint32_t child; (child = 2 * i) <= l->n_timers; i = child) {
		if (child < l->n_timers &&
		    l->heap[child + 1]->at_ms < l->heap[child]->at_ms)
			child++;
		if (l->heap[child]->at_ms >= t->at_ms)
			break;
		heap_put(l, i, l->heap[child]);
	}
	heap_put(l, i, t);
}

static int timers_reserve(struct loop *l, uint32_t n)
{
	uint32_t room = l->timers_room ? l->timers_room : TIMERS_SPARE;
	struct timer **heap;

	if (n < l->timers_room) /* [0] is not used */
		return 0;
	while (room <= n)
		room *= 2;
	heap = reallocarray(l->heap, room, sizeof(*heap));
	if (!heap)
		return -ENOMEM;
	l->heap = heap;
	l->timers_room = room;
	return 0;
}

void timer_stop(struct loop *l, struct timer *t)
{
	uint32_t i = t->slot;
	struct timer *last;

	if (!i)
		return;
	t->slot = 0;
	last = l->heap[l->n_timers--];
	if (last == t)
		return;
	if (i > 1 && l->heap[i / 2]->at_ms > last->at_ms)
		heap_up(l, i, last);
	else
		heap_down(l, i, last);
}

void timer_start(struct loop *l, struct timer *t, int64_t in_ms,
		 void (*fn)(struct timer *))
{
	timer_stop(l, t);
	t->fn = fn;
	t->at_ms = loop_now(l) + (in_ms > 0 ? in_ms : 0);
	/* watch_start() keeps room for two for each watch. A deadline that cannot be kept
	 * would be a hang: the role ends instead, and the sandbox has no network. */
	if (timers_reserve(l, l->n_timers + 1) < 0) {
		l->failed = -ENOMEM;
		return;
	}
	heap_up(l, ++l->n_timers, t);
}

/* Those due now; one that arms itself again at once waits for the next turn. */
static void timers_run(struct loop *l)
{
	for (uint32_t n = l->n_timers; n && l->n_timers; n--) {
		struct timer *t = l->heap[1];

		if (t->at_ms > l->now_ms)
			return;
		timer_stop(l, t);
		t->fn(t);
	}
}

/* ---- watches -------------------------------------------------------------------- */

static int slots_grow(struct loop *l)
{
	uint32_t n = l->n_slots ? l->n_slots * 2 : 64;
	struct slot *slots = reallocarray(l->slots, n, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	l->slots = slots;
	for (uint32_t i = n - 1; i >= (l->n_slots ? l->n_slots : 1); i--) {
		slots[i] = (struct slot){.next_free = l->free_slot};
		l->free_slot = i;
	}
	l->n_slots = n;
	return 0;
}

static struct epoll_event event_of(const struct loop *l, const struct watch *w)
{
	uint64_t generation = l->slots[w->slot].generation;

	return (struct epoll_event){.events = w->events,
				    .data.u64 = generation << 32 | w->slot};
}

int watch_start(struct loop *l, struct watch *w, int fd, uint32_t events,
		void (*fn)(struct watch *, uint32_t))
{
	struct epoll_event ev;
	uint32_t slot;

	if (timers_reserve(l, 2 * l->n_watches + TIMERS_SPARE) < 0 ||
	    (!l->free_slot && slots_grow(l) < 0))
		return -ENOMEM;
	slot = l->free_slot;
	*w = (struct watch){.fd = fd, .events = events, .fn = fn, .slot = slot};
	ev = event_of(l, w);
	if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
		return -errno;
	l->free_slot = l->slots[slot].next_free;
	l->slots[slot].w = w;
	l->n_watches++;
	w->active = true;
	return 0;
}

int watch_change(struct loop *l, struct watch *w, uint32_t events)
{
	struct epoll_event ev;
	uint32_t before = w->events;

	if (!w->active)
		return -EINVAL;
	if (events == before)
		return 0;
	w->events = events;
	ev = event_of(l, w);
	if (epoll_ctl(l->epoll, EPOLL_CTL_MOD, w->fd, &ev) == 0)
		return 0;
	w->events = before;
	return -errno;
}

void watch_forget(struct loop *l, struct watch *w)
{
	struct slot *s = &l->slots[w->slot];

	if (!w->active)
		return;
	w->active = false;
	s->w = NULL;
	s->generation++;
	s->next_free = l->free_slot;
	l->free_slot = w->slot;
	l->n_watches--;
}

void watch_move(struct loop *l, struct watch *to, struct watch *from)
{
	*to = *from;
	from->active = false;
	if (to->active)
		l->slots[to->slot].w = to;
}

void watch_stop(struct loop *l, struct watch *w)
{
	if (!w->active)
		return;
	epoll_ctl(l->epoll, EPOLL_CTL_DEL, w->fd, NULL);
	watch_forget(l, w);
}

/* ---- turns ---------------------------------------------------------------------- */

static void dispatch(struct loop *l, const struct epoll_event *ev)
{
	uint32_t slot = (uint32_t)ev->data.u64;
	const struct slot *s = &l->slots[slot];

	if (s->w && s->generation == (uint32_t)(ev->data.u64 >> 32))
		s->w->fn(s->w, ev->events);
}

static int timeout_ms(const struct loop *l)
{
	int64_t left;

	if (!l->n_timers)
		return -1;
	left = l->heap[1]->at_ms - l->now_ms;
	return left < 0 ? 0 : left > 3600000 ? 3600000 : (int)left;
}

int loop_run(struct loop *l)
{
	struct epoll_event ev[BATCH];

	l->running = true;
	l->now_ms = clock_ms();
	while (!l->stop && !l->failed) {
		int n = epoll_wait(l->epoll, ev, BATCH, timeout_ms(l));

		if (n < 0 && errno != EINTR)
			l->failed = -errno;
		l->now_ms = clock_ms();
		for (int i = 0; i < n && !l->stop; i++)
			dispatch(l, &ev[i]);
		timers_run(l);
	}
	l->running = false;
	l->stop = false;
	return l->failed;
}
