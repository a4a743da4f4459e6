/* SPDX-License-Identifier: Apache-2.0 */
#include "core/execs.h"

#include "base/util.h"
#include "ipc/wire.h"

static int read_labels(struct exec_info *e, const uint8_t *payload, size_t n)
{
	struct wire_attr a;
	size_t pos = 0;
	uint32_t flags;
	int r, bad = 0;

	while (!bad && (r = wire_next_attr(payload, n, &pos, &a)) > 0) {
		if (a.tag == WIRE_A_AGENT)
			bad = wire_attr_str(&a, e->agent, sizeof(e->agent));
		else if (a.tag == WIRE_A_TOOL)
			bad = wire_attr_str(&a, e->tool, sizeof(e->tool));
		else if (a.tag == WIRE_A_FLAGS && wire_attr_u32(&a, &flags) == 0)
			e->offline = flags & WIRE_EXEC_OFFLINE;
	}
	return bad ? bad : r;
}

/* A free place: a new one while there is room, else that of the oldest that has ended. */
static struct exec_info *place(struct execs *x)
{
	struct exec_info *oldest = NULL;

	if (x->n == x->cap && x->cap < EXECS_MAX) {
		size_t cap = x->cap ? x->cap * 2 : 16;
		struct exec_info *v = realloc(x->v, cap * sizeof(*v));

		if (!v)
			return NULL;
		x->v = v;
		x->cap = cap;
	}
	if (x->n < x->cap)
		return &x->v[x->n++];
	for (size_t i = 0; i < x->n; i++)
		if (!x->v[i].stream && (!oldest || x->v[i].number < oldest->number))
			oldest = &x->v[i];
	return oldest;
}

int execs_sent(struct execs *x, uint32_t stream, const uint8_t *payload, size_t n)
{
	struct exec_info e = {.stream = stream}, *p;
	int r = read_labels(&e, payload, n);

	if (r < 0)
		return r;
	p = place(x);
	if (!p)
		return -ENOMEM;
	e.number = ++x->next;
	*p = e;
	return 0;
}

static struct exec_info *by_stream(struct execs *x, uint32_t stream)
{
	for (size_t i = x->n; stream && i-- > 0;)
		if (x->v[i].stream == stream)
			return &x->v[i];
	return NULL;
}

void execs_started(struct execs *x, uint32_t stream, uint32_t pid, uint64_t now)
{
	struct exec_info *e = by_stream(x, stream);

	if (!e || e->pid == pid)
		return;
	e->pid = pid;
	e->known = now;
}

void execs_ended(struct execs *x, uint32_t stream)
{
	struct exec_info *e = by_stream(x, stream);

	if (e)
		e->stream = 0;
}

bool execs_offline(struct execs *x, uint32_t stream)
{
	const struct exec_info *e = by_stream(x, stream);

	return e && e->offline;
}

const struct exec_info *execs_find(const struct execs *x, uint32_t pid, uint64_t started)
{
	const struct exec_info *found = NULL;

	for (size_t i = 0; pid && i < x->n; i++)
		if (x->v[i].pid == pid && (!found || x->v[i].number > found->number))
			found = &x->v[i];
	return found && started <= found->known ? found : NULL;
}

void execs_adopt(struct execs *x, const struct exec_info *e)
{
	struct exec_info *p = e->pid ? place(x) : NULL;

	if (!p)
		return;
	*p = *e;
	p->stream = 0;
	p->number = ++x->next;
}

void execs_clear(struct execs *x)
{
	free(x->v);
	*x = (struct execs){0};
}
