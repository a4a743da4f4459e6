/* SPDX-License-Identifier: Apache-2.0 */
#include "scan/view.h"

#include "base/util.h"

/* The segment that holds `at`. */
static size_t find_seg(const struct view *v, size_t at)
{
	size_t lo = 0, hi = v->n_segs;

	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (v->seg[mid].at <= at)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

static uint64_t count_lines(const char *p, const char *end)
{
	uint64_t n = 0;

	while (p < end && (p = memchr(p, '\n', (size_t)(end - p)))) {
		n++;
		p++;
	}
	return n;
}

uint64_t view_line(const struct view *v, size_t at)
{
	struct line_cache none = {0}, *c = v->cache ? v->cache : &none;

	if (v->parent && v->n_segs) {
		const struct seg *s = &v->seg[find_seg(v, at)];
		size_t in = at > s->at ? at - s->at : 0;

		return view_line(v->parent,
				 s->from + (s->decoded ? 0 : min_size(in, s->len)));
	}
	at = min_size(at, v->len);
	if (at < c->at)
		*c = none;
	c->lines += count_lines(v->text + c->at, v->text + at);
	c->at = at;
	return v->line + c->lines;
}

bool view_is_new(const struct view *v, size_t start, size_t end)
{
	if (!v->n_segs)
		return end > v->seen || v->seen == 0;
	for (size_t i = find_seg(v, start); i < v->n_segs && v->seg[i].at < end; i++)
		if (v->seg[i].decoded && v->seg[i].at + v->seg[i].len > start)
			return true;
	return false;
}
