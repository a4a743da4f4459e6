/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slide - where a change sits among equal lines.
 *
 * When the line before a run of changed lines equals the last of the run, the run can
 * move up by one and the script stays as short; the same downward. The lines between runs
 * are those both texts share, in order, so a run that moves over one of them moves to the
 * next gap between shared lines, and the run of the other text in that same gap belongs
 * to the same change. A cursor on each side walks gap by gap.
 */
#include "text/script.h"

struct run {
	uint32_t at, end; /* marked lines [at, end), possibly none */
};

struct slide {
	const struct side *s, *other;
	struct run run, peer; /* the same gap on both sides */
	uint64_t work; /* left: hostile texts make runs wander and merge for long */
};

#define WORK_PER_LINE 32

static bool run_next(const struct side *s, struct run *r)
{
	if (r->end == s->lines->n)
		return false;
	r->at = r->end = r->end + 1;
	while (s->cut[r->end])
		r->end++;
	return true;
}

static void run_prev(const struct side *s, struct run *r)
{
	r->end = --r->at;
	while (r->at > 0 && s->cut[r->at - 1])
		r->at--;
}

/* Whether lines i and j of the moving side are equal; out of work, nothing moves. */
static bool same(struct slide *c, uint32_t i, uint32_t j)
{
	struct text line = lines_get(c->s->lines, i);
	uint64_t cost = 1 + line.len / 64;

	if (c->work < cost)
		return false;
	c->work -= cost;
	return text_equal(line, lines_get(c->s->lines, j));
}

static bool move_up(struct slide *c)
{
	struct run *r = &c->run;

	if (r->at == 0 || !same(c, r->at - 1, r->end - 1))
		return false;
	c->s->cut[--r->at] = 1;
	c->s->cut[--r->end] = 0;
	while (r->at > 0 && c->s->cut[r->at - 1])
		r->at--;
	run_prev(c->other, &c->peer);
	return true;
}

static bool move_down(struct slide *c)
{
	struct run *r = &c->run;

	if (r->end == c->s->lines->n || !same(c, r->at, r->end))
		return false;
	c->s->cut[r->at++] = 0;
	c->s->cut[r->end++] = 1;
	while (c->s->cut[r->end])
		r->end++;
	run_next(c->other, &c->peer);
	return true;
}

#define INDENT_MAX 200
#define BLANKS_MAX 20

/* Columns of white space before the text; -1 for a blank line. */
static int indent_of(const struct lines *l, uint32_t i)
{
	struct text t = lines_get(l, i);
	int column = 0;

	for (size_t k = 0; k < t.len && column < INDENT_MAX; k++) {
		if (t.data[k] == ' ')
			column++;
		else if (t.data[k] == '\t')
			column += 8 - column % 8;
		else
			return strchr("\r\n\v\f", t.data[k]) && t.data[k] ? -1 : column;
	}
	return column < INDENT_MAX ? -1 : INDENT_MAX;
}

struct badness {
	int indent, penalty;
};

/*
 * How bad it is to begin or end a change just before line i. A reader thinks in blocks,
 * so it is good after a blank line and at a low indent, and bad before a blank line,
 * before the line that closes a block, and between a block and the line that opens it.
 */
static struct badness split_badness(const struct lines *l, uint32_t i)
{
	int before = -1, after = -1, above = 0, below = 0, penalty = 0;

	while (above < BLANKS_MAX && i > (uint32_t)above &&
	       (before = indent_of(l, i - 1 - (uint32_t)above)) < 0)
		above++;
	while (below < BLANKS_MAX && i + (uint32_t)below < l->n &&
	       (after = indent_of(l, i + (uint32_t)below)) < 0)
		below++;
	if (after < 0) /* the end of the text */
		return (struct badness){0, above > 0 ? -10 : 0};
	penalty += above > 0 ? -30 - above : 0;
	penalty += below > 0 ? 4 + 6 * below : 0;
	if (before >= 0 && after > before)
		penalty += above > 0 ? 10 : 4;
	else if (before >= 0 && after < before)
		penalty += above > 0 ? 16 : 24;
	return (struct badness){after, penalty};
}

static bool worse(struct badness a, struct badness b)
{
	int by_indent = (a.indent > b.indent) - (a.indent < b.indent);

	return 60 * by_indent + a.penalty - b.penalty > 0;
}

#define PLACES_MAX 128

/* The end of the best place for the run, which is as far down as it goes; `top` is its
 * end when it is as far up as it goes. Of equally good ones the lowest. */
static uint32_t best_end(const struct slide *c, uint32_t top)
{
	uint32_t size = c->run.end - c->run.at, best = c->run.end;
	uint32_t first = c->run.end - top > PLACES_MAX ? c->run.end - PLACES_MAX : top;
	struct badness least = {0, 0};

	for (uint32_t end = c->run.end; end >= first && end >= size; end--) {
		struct badness from = split_badness(c->s->lines, end - size);
		struct badness to = split_badness(c->s->lines, end);
		struct badness both = {from.indent + to.indent,
				       from.penalty + to.penalty};

		if (end == c->run.end || worse(least, both)) {
			least = both;
			best = end;
		}
	}
	return best;
}

/* Slides one run to both extremes, then to its place. */
static void settle(struct slide *c, enum script_bias bias)
{
	const uint32_t none = UINT32_MAX;
	uint32_t size, top, first_peer, last_peer, want;

	do { /* again when it swallowed a neighbour: the longer run may move further */
		size = c->run.end - c->run.at;
		while (move_up(c))
			;
		top = c->run.end;
		first_peer = last_peer = c->peer.end > c->peer.at ? top : none;
		while (move_down(c)) {
			if (c->peer.end == c->peer.at)
				continue;
			last_peer = c->run.end;
			if (first_peer == none)
				first_peer = last_peer;
		}
	} while (size != c->run.end - c->run.at);
	if (bias == SCRIPT_UP)
		want = first_peer != none ? first_peer : top;
	else if (last_peer != none)
		want = last_peer;
	else
		want = bias == SCRIPT_READABLE ? best_end(c, top) : c->run.end;
	while (c->run.end > want && move_up(c))
		;
}

void slide_changes(const struct side *s, const struct side *other, enum script_bias bias)
{
	struct slide c = {
		.s = s,
		.other = other,
		.work = (uint64_t)WORK_PER_LINE *
			((uint64_t)s->lines->n + s->lines->at[s->lines->n] / 64 + 1024),
	};

	while (s->cut[c.run.end])
		c.run.end++;
	while (other->cut[c.peer.end])
		c.peer.end++;
	do {
		if (c.run.end > c.run.at)
			settle(&c, bias);
		run_next(other, &c.peer);
	} while (run_next(s, &c.run));
}
