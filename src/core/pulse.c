/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pulse.h"

static void rest(struct pulse *p)
{
	p->due_ms = 0;
	p->silent_ms = 0;
	p->asked = p->heard = false;
}

enum pulse_verdict pulse_turn(struct pulse *p, int64_t now_ms, bool expected)
{
	bool on_time = now_ms < p->due_ms + PULSE_MS;
	bool silent = p->asked && !p->heard, first = p->due_ms == 0;

	if (!p->limit_ms || !expected) {
		rest(p);
		return PULSE_WELL;
	}
	if (now_ms < p->due_ms)
		return PULSE_WELL;
	p->due_ms = now_ms + PULSE_MS;
	if (first || p->heard) {
		p->heard = p->asked = false;
		p->silent_ms = 0;
		return PULSE_WELL;
	}
	if (silent && on_time)
		p->silent_ms += PULSE_MS;
	if (p->silent_ms >= p->limit_ms)
		return PULSE_LOST;
	if (p->asked)
		return PULSE_WELL;
	p->asked = true;
	return PULSE_ASK;
}
