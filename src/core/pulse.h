/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pulse - does a guest still answer? Pure: the caller has the clock and the link.
 *
 * While something is expected of it, a guest that says nothing for a second is asked
 * (PING), and asked again only when it has answered. What counts against it are seconds
 * in which we ourselves were awake: a host that slept, or a keeper that was stopped, is
 * no fault of the guest's.
 */
#ifndef COVE_CORE_PULSE_H
#define COVE_CORE_PULSE_H

#include <stdbool.h>
#include <stdint.h>

#define PULSE_MS 1000

struct pulse {
	uint32_t limit_ms; /* of silence after a question; 0: it is never asked */
	int64_t due_ms;    /* when to look again; 0: nothing is expected */
	uint32_t silent_ms;
	bool heard; /* since we looked last */
	bool asked; /* and not answered yet */
};

enum pulse_verdict { PULSE_WELL, PULSE_ASK, PULSE_LOST };

static inline void pulse_heard(struct pulse *p)
{
	p->heard = true;
}

/* To be called whenever the caller's loop turns. */
enum pulse_verdict pulse_turn(struct pulse *p, int64_t now_ms, bool expected);

#endif
