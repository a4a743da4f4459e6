/* SPDX-License-Identifier: Apache-2.0 */
/* search - see search.h. */
#include "text/search.h"

#include "base/util.h"

#include <stdbool.h>

/* Work allowed in all, in steps, shared out over the length: what is left for one box is
 * never so little that ordinary files notice. */
#define COST_BUDGET ((int64_t)1 << 27)
#define COST_LIMIT_MIN 48

struct search {
	const struct sequence *a, *b;
	int32_t *v[2]; /* furthest x by diagonal, from the start and from the end */
	int32_t limit; /* rounds until a box is cut without having found its middle */
};

struct box {
	int32_t a, n, b, m; /* a[a .. a + n) against b[b .. b + m) */
};

struct point {
	int32_t x, y;
};

static void mark(const struct sequence *s, int32_t at, int32_t n)
{
	for (int32_t i = at; i < at + n; i++)
		s->cut[s->place[i]] = 1;
}

static int32_t clamp(int32_t x, int32_t most)
{
	return x < most ? x : most;
}

/* Follows equal elements from (x, y), measured from the start of the box or from its end.
 */
static int32_t snake(const struct search *s, const struct box *q, bool back, int32_t x,
		     int32_t y)
{
	const uint32_t *a = s->a->v + q->a, *b = s->b->v + q->b;

	if (!back)
		while (x < q->n && y < q->m && a[x] == b[y])
			x++, y++;
	else
		while (x < q->n && y < q->m && a[q->n - 1 - x] == b[q->m - 1 - y])
			x++, y++;
	return x;
}

/*
 * One more edit on every diagonal k = x - y, in one direction. Both directions look the
 * same, as the backward one measures x and y from the end; its diagonal k is n - m - k of
 * the forward one. True when the two met, in *ret, measured like the direction.
 * A point that would leave the box is moved back along its diagonal: it is reached with
 * no more edits, as a neighbour of one that is.
 */
static bool advance(struct search *s, const struct box *q, bool back, int32_t d,
		    struct point *ret)
{
	int32_t *v = s->v[back], *other = s->v[!back];
	int32_t delta = q->n - q->m, reach = back ? d : d - 1;
	int32_t lo = d <= q->m ? -d : -q->m + ((d - q->m) & 1);
	int32_t hi = d <= q->n ? d : q->n - ((d - q->n) & 1);
	bool meet = (delta & 1) == !back;

	v[-d - 1] = v[d + 1] = -1;
	for (int32_t k = lo; k <= hi; k += 2) {
		int32_t x = v[k - 1] + 1 > v[k + 1] ? v[k - 1] + 1 : v[k + 1];
		int32_t k2 = delta - k;

		x = clamp(clamp(x, q->n), q->m + k);
		v[k] = x = snake(s, q, back, x, x - k);
		if (meet && k2 >= -reach && k2 <= reach && x + other[k2] >= q->n) {
			*ret = (struct point){x, x - k};
			return true;
		}
	}
	return false;
}

/* The point that got furthest after d edits in one direction. */
static struct point furthest(const struct search *s, const struct box *q, bool back,
			     int32_t d)
{
	const int32_t *v = s->v[back];
	int32_t lo = d <= q->m ? -d : -q->m + ((d - q->m) & 1);
	int32_t hi = d <= q->n ? d : q->n - ((d - q->n) & 1);
	struct point best = {0, 0};

	for (int32_t k = lo; k <= hi; k += 2)
		if (2 * (int64_t)v[k] - k > (int64_t)best.x + best.y)
			best = (struct point){v[k], v[k] - k};
	return best;
}

static struct point from_end(const struct box *q, struct point p)
{
	return (struct point){q->n - p.x, q->m - p.y};
}

/* A point on a shortest path through the box, or on a good one when that costs too much.
 */
static struct point find_middle(struct search *s, const struct box *q)
{
	struct point p, r;

	for (int32_t d = 0; d <= s->limit; d++) {
		if (advance(s, q, false, d, &p))
			return p;
		if (advance(s, q, true, d, &p))
			return from_end(q, p);
	}
	p = furthest(s, q, false, s->limit);
	r = furthest(s, q, true, s->limit);
	return (int64_t)p.x + p.y >= (int64_t)r.x + r.y ? p : from_end(q, r);
}

static void trim(const struct search *s, struct box *q)
{
	const uint32_t *a = s->a->v, *b = s->b->v;

	while (q->n > 0 && q->m > 0 && a[q->a] == b[q->b])
		q->a++, q->b++, q->n--, q->m--;
	while (q->n > 0 && q->m > 0 && a[q->a + q->n - 1] == b[q->b + q->m - 1])
		q->n--, q->m--;
}

/* Recurses into the smaller part only, so the depth is logarithmic whatever the cuts. */
static void solve(struct search *s, struct box q)
{
	for (;;) {
		struct box head, tail;
		struct point p;

		trim(s, &q);
		if (q.n == 0 || q.m == 0) {
			mark(s->a, q.a, q.n);
			mark(s->b, q.b, q.m);
			return;
		}
		p = find_middle(s, &q);
		head = (struct box){q.a, p.x, q.b, p.y};
		tail = (struct box){q.a + p.x, q.n - p.x, q.b + p.y, q.m - p.y};
		if ((int64_t)head.n + head.m < (int64_t)tail.n + tail.m) {
			solve(s, head);
			q = tail;
		} else {
			solve(s, tail);
			q = head;
		}
	}
}

int search_changes(const struct sequence *a, const struct sequence *b)
{
	int64_t total = (int64_t)a->n + b->n, limit = COST_BUDGET / (total + 1);
	struct search s = {.a = a, .b = b};
	cleanup_free int32_t *v = NULL;
	size_t width;

	if (limit < COST_LIMIT_MIN)
		limit = COST_LIMIT_MIN;
	if (limit > total / 2 + 1) /* no middle is further away than that */
		limit = total / 2 + 1;
	s.limit = (int32_t)limit;
	width = 2 * (size_t)limit + 5;
	v = calloc(2 * width, sizeof(*v));
	if (!v)
		return -ENOMEM;
	s.v[0] = v + width / 2;
	s.v[1] = v + width + width / 2;
	solve(&s, (struct box){0, (int32_t)a->n, 0, (int32_t)b->n});
	return 0;
}
