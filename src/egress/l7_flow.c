/* SPDX-License-Identifier: Apache-2.0 */
/* l7_flow - a pump between two plain sides, driven by what they are ready for. */
#include "egress/l7.h"

void flow_start(struct flow *f, const struct side *from, const struct side *to,
		uint64_t n)
{
	pump_init(&f->pump, from->ch.fd, to->ch.fd, n, to->count);
	f->waits = PUMP_MORE;
	f->on = true;
}

void flow_clear(struct flow *f)
{
	if (f->on)
		pump_clear(&f->pump);
	f->on = false;
}

enum pump_state flow_run(struct egress *e, struct flow *f, struct side *from,
			 struct side *to)
{
	if (f->waits == PUMP_READ && !(from->ready & EPOLLIN))
		return PUMP_READ;
	if (f->waits == PUMP_WRITE && !(to->ready & EPOLLOUT))
		return PUMP_WRITE;
	f->pump.hup = from->hup;
	f->pump.urgent = from->urgent;
	f->waits = pump_run(e, &f->pump);
	if (f->waits == PUMP_READ)
		from->ready &= ~(uint32_t)EPOLLIN;
	if (f->waits == PUMP_WRITE)
		to->ready &= ~(uint32_t)EPOLLOUT;
	return f->waits;
}
