/* SPDX-License-Identifier: Apache-2.0 */
/* diff - see diff.h and script.h. */
#include "text/diff.h"

#include "text/script.h"
#include "text/search.h"

#define BINARY_LOOK 8000

bool text_is_binary(struct text t)
{
	size_t n = min_size(t.len, BINARY_LOOK);

	return n > 0 && memchr(t.data, 0, n);
}

/* The lines worth a search: a line the other text lacks is a change whatever happens. The
 * order is turned round for SCRIPT_UP, so that the search prefers the other end. */
static void gather(struct sequence *ret, uint32_t *ids, uint32_t *places, uint32_t n,
		   uint32_t head, enum script_bias bias, uint8_t *cut)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (ids[i] == LINE_ALONE) {
			cut[head + i] = 1;
			continue;
		}
		ids[kept] = ids[i];
		places[kept++] = head + i;
	}
	for (uint32_t i = 0; bias == SCRIPT_UP && i < kept / 2; i++) {
		uint32_t id = ids[i], place = places[i], j = kept - 1 - i;

		ids[i] = ids[j];
		places[i] = places[j];
		ids[j] = id;
		places[j] = place;
	}
	*ret = (struct sequence){.v = ids, .place = places, .n = kept, .cut = cut};
}

static int search_middle(const struct side *old, const struct side *new,
			 enum script_bias bias)
{
	uint32_t head, tail, n, m;
	cleanup_free uint32_t *ids = NULL, *places = NULL;
	struct sequence a, b;

	lines_trim(old->lines, new->lines, &head, &tail);
	n = old->lines->n - head - tail;
	m = new->lines->n - head - tail;
	if (n == 0 || m == 0) {
		memset(old->cut + head, 1, n);
		memset(new->cut + head, 1, m);
		return 0;
	}
	ids = calloc((size_t)n + m, sizeof(*ids));
	places = calloc((size_t)n + m, sizeof(*places));
	if (!ids || !places)
		return -ENOMEM;
	if (lines_number(old->lines, new->lines, head, tail, ids, ids + n) < 0)
		return -ENOMEM;
	gather(&a, ids, places, n, head, bias, old->cut);
	gather(&b, ids + n, places + n, m, head, bias, new->cut);
	return search_changes(&a, &b);
}

/* Walks both sides gap by gap. Called twice: to count, then to fill. */
static size_t collect(const struct side *old, const struct side *new,
		      struct text_hunk *ret)
{
	uint32_t i = 0, j = 0;
	size_t n = 0;

	for (;; i++, j++) {
		struct text_hunk h = {.old_at = i, .new_at = j};

		while (old->cut[i])
			i++;
		while (new->cut[j])
			j++;
		h.old_n = i - h.old_at;
		h.new_n = j - h.new_at;
		if (h.old_n || h.new_n) {
			if (ret)
				ret[n] = h;
			n++;
		}
		if (i >= old->lines->n || j >= new->lines->n)
			return n;
	}
}

static int hunks_of(struct text_diff *ret, const struct side *old, const struct side *new)
{
	struct text_diff d = {.n = collect(old, new, NULL)};

	if (d.n > 0) {
		d.v = calloc(d.n, sizeof(*d.v));
		if (!d.v)
			return -ENOMEM;
		collect(old, new, d.v);
	}
	for (size_t i = 0; i < d.n; i++) {
		d.removed += d.v[i].old_n;
		d.added += d.v[i].new_n;
	}
	*ret = d;
	return 0;
}

int script_make(struct text_diff *ret, const struct lines *old, const struct lines *new,
		enum script_bias bias)
{
	cleanup_free uint8_t *cut_old = calloc((size_t)old->n + 1, 1);
	cleanup_free uint8_t *cut_new = calloc((size_t) new->n + 1, 1);
	struct side a = {old, cut_old}, b = {new, cut_new};
	int r;

	if (!cut_old || !cut_new)
		return -ENOMEM;
	r = search_middle(&a, &b, bias);
	if (r < 0)
		return r;
	slide_changes(&a, &b, bias);
	slide_changes(&b, &a, bias);
	return hunks_of(ret, &a, &b);
}

int text_diff(struct text_diff *ret, struct text old, struct text new)
{
	cleanup_lines struct lines a = {0}, b = {0};
	int r;

	r = lines_split(&a, old);
	if (r == 0)
		r = lines_split(&b, new);
	if (r < 0)
		return r;
	return script_make(ret, &a, &b, SCRIPT_READABLE);
}

void text_diff_clear(struct text_diff *d)
{
	free(d->v);
	*d = (struct text_diff){0};
}
