/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge - see merge.h.
 *
 * A difference is rarely the only shortest one: of ten equal lines, any may be the one
 * that was deleted, and what a merge gives may hang on which. So it is made twice, from
 * differences that lean to the end and from ones that lean to the start. A merge is clean
 * when both are and agree to the byte; anything else is a conflict for a human.
 */
#include "text/merge.h"

#include "text/script.h"

enum { BASE, OURS, THEIRS, SIDES };

struct merge {
	struct lines l[SIDES];
	struct text_diff d[SIDES]; /* from base; none for BASE */
	size_t next[SIDES];        /* the first change not merged yet */
	size_t conflicts;
};

/* A stretch that at least one side changed: where it is in each text. */
struct region {
	uint32_t at[SIDES], end[SIDES];
	bool changed[SIDES];
};

static const struct text_hunk *peek(const struct merge *m, int side)
{
	return m->next[side] < m->d[side].n ? &m->d[side].v[m->next[side]] : NULL;
}

/* Takes into the region the changes of one side that touch it. */
static bool absorb(struct merge *m, struct region *g, int side)
{
	const struct text_hunk *h;
	bool grown = false;

	while ((h = peek(m, side)) && h->old_at <= g->end[BASE]) {
		uint32_t end = h->old_at + h->old_n;

		if (end > g->end[BASE])
			g->end[BASE] = end;
		g->changed[side] = grown = true;
		m->next[side]++;
	}
	return grown;
}

/* Where line `at` of base, which no change holds, is in the text of a side, given that
 * all its changes before m->next are above it. */
static uint32_t translate(const struct merge *m, int side, uint32_t at)
{
	const struct text_hunk *h;

	if (m->next[side] == 0)
		return at;
	h = &m->d[side].v[m->next[side] - 1];
	return h->new_at + h->new_n + (at - h->old_at - h->old_n);
}

static bool next_region(struct merge *m, struct region *g)
{
	const struct text_hunk *a = peek(m, OURS), *b = peek(m, THEIRS);

	if (!a && !b)
		return false;
	*g = (struct region){0};
	g->at[BASE] = !b || (a && a->old_at < b->old_at) ? a->old_at : b->old_at;
	g->end[BASE] = g->at[BASE];
	for (int side = OURS; side < SIDES; side++)
		g->at[side] = translate(m, side, g->at[BASE]);
	while (absorb(m, g, OURS) | absorb(m, g, THEIRS))
		;
	for (int side = OURS; side < SIDES; side++)
		g->end[side] = translate(m, side, g->end[BASE]);
	return true;
}

static struct text part(const struct merge *m, const struct region *g, int side)
{
	return lines_range(&m->l[side], g->at[side], g->end[side] - g->at[side]);
}

static int put(struct buf *out, struct text t)
{
	return t.len ? buf_append(out, t.data, t.len) : 0;
}

/* A marker begins a line, also after a text that lacks its last newline. */
static int put_marked(struct buf *out, const char *marker, struct text t)
{
	int r = buf_puts(out, marker);

	if (r == 0)
		r = put(out, t);
	if (r == 0 && t.len && t.data[t.len - 1] != '\n')
		r = buf_puts(out, "\n");
	return r;
}

static int put_conflict(struct buf *out, const struct text t[SIDES])
{
	int r = put_marked(out, "<<<<<<< ours\n", t[OURS]);

	if (r == 0)
		r = put_marked(out, "||||||| base\n", t[BASE]);
	if (r == 0)
		r = put_marked(out, "=======\n", t[THEIRS]);
	return r == 0 ? buf_puts(out, ">>>>>>> theirs\n") : r;
}

static int put_region(struct buf *out, struct merge *m, const struct region *g)
{
	struct text t[SIDES] = {part(m, g, BASE), part(m, g, OURS), part(m, g, THEIRS)};

	if (!g->changed[THEIRS] || text_equal(t[OURS], t[THEIRS]))
		return put(out, t[OURS]);
	if (!g->changed[OURS])
		return put(out, t[THEIRS]);
	m->conflicts++;
	return put_conflict(out, t);
}

static int merge_regions(struct buf *out, struct merge *m)
{
	uint32_t at = 0;
	struct region g;
	int r = 0;

	while (r == 0 && next_region(m, &g)) {
		r = put(out, lines_range(&m->l[BASE], at, g.at[BASE] - at));
		if (r == 0)
			r = put_region(out, m, &g);
		at = g.end[BASE];
	}
	return r < 0 ? r : put(out, lines_range(&m->l[BASE], at, m->l[BASE].n - at));
}

static int merge_biased(struct buf *out, struct merge *m, enum script_bias bias)
{
	int r = script_make(&m->d[OURS], &m->l[BASE], &m->l[OURS], bias);

	if (r == 0)
		r = script_make(&m->d[THEIRS], &m->l[BASE], &m->l[THEIRS], bias);
	m->next[OURS] = m->next[THEIRS] = m->conflicts = 0;
	if (r == 0)
		r = merge_regions(out, m);
	text_diff_clear(&m->d[OURS]);
	text_diff_clear(&m->d[THEIRS]);
	return r;
}

/* One conflict over all that is not equal in the three texts. */
static int merge_whole(struct buf *out, struct merge *m)
{
	uint32_t head = UINT32_MAX, tail = UINT32_MAX, least = UINT32_MAX, h, t;
	const struct lines *base = &m->l[BASE];
	struct text part_of[SIDES];
	int r;

	for (int side = OURS; side < SIDES; side++) {
		lines_trim(base, &m->l[side], &h, &t);
		head = h < head ? h : head;
		tail = t < tail ? t : tail;
	}
	for (int side = BASE; side < SIDES; side++)
		least = m->l[side].n < least ? m->l[side].n : least;
	if (tail > least - head)
		tail = least - head;
	for (int side = BASE; side < SIDES; side++)
		part_of[side] =
			lines_range(&m->l[side], head, m->l[side].n - head - tail);
	m->conflicts = 1;
	r = put(out, lines_range(base, 0, head));
	if (r == 0)
		r = put_conflict(out, part_of);
	return r < 0 ? r : put(out, lines_range(base, base->n - tail, tail));
}

/* The merge by every bias; what counts is left in `out`. */
static int merge_checked(struct buf *out, struct merge *m)
{
	static const enum script_bias others[] = {SCRIPT_UP, SCRIPT_DOWN};
	int r = merge_biased(out, m, SCRIPT_READABLE);

	for (size_t i = 0; i < ARRAY_LEN(others) && r == 0 && m->conflicts == 0; i++) {
		cleanup_buf struct buf other = BUF_INIT(out->max);

		r = merge_biased(&other, m, others[i]);
		if (r < 0 || (m->conflicts == 0 &&
			      text_equal((struct text){out->data, out->len},
					 (struct text){other.data, other.len})))
			continue;
		buf_clear(out);
		r = m->conflicts ? buf_append(out, other.data, other.len)
				 : merge_whole(out, m);
	}
	return r;
}

int text_merge3(struct buf *out, struct text base, struct text ours, struct text theirs,
		size_t *ret_conflicts)
{
	const struct text t[SIDES] = {base, ours, theirs};
	cleanup_buf struct buf merged = BUF_INIT(out->max - out->len);
	struct merge m = {0};
	int r = 0;

	if (text_equal(ours, theirs) || text_equal(base, theirs) ||
	    text_equal(base, ours)) {
		r = put(out, text_equal(base, ours) ? theirs : ours);
		if (r == 0)
			*ret_conflicts = 0;
		return r;
	}
	for (int side = BASE; side < SIDES && r == 0; side++)
		r = lines_split(&m.l[side], t[side]);
	if (r == 0)
		r = merge_checked(&merged, &m);
	if (r == 0)
		r = put(out, (struct text){merged.data, merged.len});
	if (r == 0)
		*ret_conflicts = m.conflicts;
	for (int side = BASE; side < SIDES; side++)
		lines_clear(&m.l[side]);
	return r;
}
