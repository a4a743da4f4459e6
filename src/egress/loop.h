/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop - the role's event loop: descriptors and timers, nothing else.
 *
 * One thread. A watch belongs to its owner, who embeds it; after watch_stop() its
 * callback is never called again, even if its event is already in the current batch.
 */
#ifndef COVE_EGRESS_LOOP_H
#define COVE_EGRESS_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct loop;

struct watch {
	int fd;
	uint32_t events; /* EPOLLIN, EPOLLOUT; 0: registered, but silent */
	void (*fn)(struct watch *w, uint32_t events);
	bool active;
	uint32_t slot; /* the loop's */
};

struct timer {
	int64_t at_ms;
	void (*fn)(struct timer *t);
	uint32_t slot; /* the loop's; 0: not armed */
};

int loop_new(struct loop **ret); /* 0 or -errno */
void loop_free(struct loop *l);
int loop_run(struct loop *l); /* until loop_stop() */
void loop_stop(struct loop *l);
int64_t loop_now(const struct loop *l); /* CLOCK_MONOTONIC ms, read once a turn */

/* Level-triggered unless events has EPOLLET. 0 or -errno. */
int watch_start(struct loop *l, struct watch *w, int fd, uint32_t events,
		void (*fn)(struct watch *, uint32_t));
int watch_change(struct loop *l, struct watch *w, uint32_t events);
void watch_stop(struct loop *l, struct watch *w); /* not the descriptor */
/* watch_stop() for a descriptor that has no copies and is closed next: closing takes it
 * out of the kernel's set, which saves a system call. */
void watch_forget(struct loop *l, struct watch *w);
/* The registration of `from`, if it is active, is that of `to` from now on. */
void watch_move(struct loop *l, struct watch *to, struct watch *from);

void timer_start(struct loop *l, struct timer *t, int64_t in_ms,
		 void (*fn)(struct timer *)); /* arms again if armed */
void timer_stop(struct loop *l, struct timer *t);

#endif
