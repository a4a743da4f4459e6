/* SPDX-License-Identifier: Apache-2.0 */
/* unified - unified output of a difference, and picking some of its changes; see diff.h.
 */
#include "text/lines.h"

/* Both texts and a difference that has been checked to be one of these two. */
struct view {
	struct lines old, new;
	const struct text_diff *d;
	uint32_t context;
};

static bool diff_fits(const struct text_diff *d, uint32_t old_n, uint32_t new_n)
{
	uint64_t i = 0, j = 0;

	for (size_t k = 0; k < d->n; k++) {
		const struct text_hunk *h = &d->v[k];

		if (h->old_at < i || h->old_at - i != (uint64_t)h->new_at - j)
			return false;
		i = (uint64_t)h->old_at + h->old_n;
		j = (uint64_t)h->new_at + h->new_n;
		if (i > old_n || j > new_n)
			return false;
	}
	return old_n - i == new_n - j;
}

static int view_open(struct view *w, struct text old, struct text new,
		     const struct text_diff *d, uint32_t context)
{
	int r = lines_split(&w->old, old);

	if (r == 0)
		r = lines_split(&w->new, new);
	if (r < 0)
		return r;
	w->d = d;
	w->context = context;
	return diff_fits(d, w->old.n, w->new.n) ? 0 : -EINVAL;
}

static void view_clearp(struct view *w)
{
	lines_clear(&w->old);
	lines_clear(&w->new);
}
#define cleanup_view __attribute__((cleanup(view_clearp)))

/* The index after the last change of the group that begins with `first`. */
static size_t group_end(const struct text_diff *d, uint32_t context, size_t first)
{
	size_t i = first + 1;

	for (; i < d->n; i++) {
		const struct text_hunk *h = &d->v[i - 1];
		uint64_t gap = (uint64_t)d->v[i].old_at - h->old_at - h->old_n;

		if (gap > 2 * (uint64_t)context)
			break;
	}
	return i;
}

size_t text_groups(const struct text_diff *d, uint32_t context, size_t *ret_first,
		   size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < d->n; i = group_end(d, context, i)) {
		if (n < max)
			ret_first[n] = i;
		n++;
	}
	return n;
}

static int put_line(struct buf *out, char sign, struct text line)
{
	static const char no_newline[] = "\n\\ No newline at end of file\n";
	int r = buf_append(out, &sign, 1);

	if (r == 0)
		r = buf_append(out, line.data, line.len);
	if (r == 0 && (line.len == 0 || line.data[line.len - 1] != '\n'))
		r = buf_append(out, no_newline, sizeof(no_newline) - 1);
	return r;
}

static int put_lines(struct buf *out, char sign, const struct lines *l, uint32_t at,
		     uint32_t n)
{
	int r = 0;

	for (uint32_t i = 0; i < n && r == 0; i++)
		r = put_line(out, sign, lines_get(l, at + i));
	return r;
}

static int put_range(struct buf *out, char sign, uint32_t at, uint32_t n)
{
	if (n == 1)
		return buf_printf(out, " %c%u", sign, at + 1);
	return buf_printf(out, " %c%u,%u", sign, n ? at + 1 : at, n);
}

/* What a group stands under: the nearest line above that begins like a definition, by the
 * rule git has for files of no known language. */
struct heading {
	uint32_t seen; /* lines above this one have been looked at */
	struct text text;
};

static bool is_heading(struct text t)
{
	char c = t.len ? t.data[0] : 0;

	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$';
}

#define HEADING_MAX 80

static void heading_seek(struct heading *h, const struct lines *l, uint32_t from)
{
	for (uint32_t i = from; i > h->seen; i--) {
		struct text t = lines_get(l, i - 1);

		if (!is_heading(t))
			continue;
		if (t.len > HEADING_MAX) {
			t.len = HEADING_MAX; /* not within a character of UTF-8 */
			while (t.len > 0 && (t.data[t.len] & 0xc0) == 0x80)
				t.len--;
		}
		while (t.len > 0 && memchr(" \t\r\n\v\f", t.data[t.len - 1], 6))
			t.len--;
		h->text = t;
		break;
	}
	h->seen = from;
}

static int put_header(struct buf *out, const struct text_hunk *h, struct text heading)
{
	int r = buf_puts(out, "@@");

	if (r == 0)
		r = put_range(out, '-', h->old_at, h->old_n);
	if (r == 0)
		r = put_range(out, '+', h->new_at, h->new_n);
	if (r == 0)
		r = buf_puts(out, heading.len ? " @@ " : " @@");
	if (r == 0)
		r = buf_append(out, heading.data, heading.len);
	return r == 0 ? buf_puts(out, "\n") : r;
}

/* The lines of changes [first, end) with their context. */
static struct text_hunk group_span(const struct view *w, size_t first, size_t end)
{
	const struct text_hunk *a = &w->d->v[first], *z = &w->d->v[end - 1];
	uint32_t after = w->old.n - (z->old_at + z->old_n);
	uint32_t lead = a->old_at < w->context ? a->old_at : w->context;
	uint32_t trail = after < w->context ? after : w->context;
	struct text_hunk h = {.old_at = a->old_at - lead, .new_at = a->new_at - lead};

	h.old_n = z->old_at + z->old_n + trail - h.old_at;
	h.new_n = z->new_at + z->new_n + trail - h.new_at;
	return h;
}

static int put_group(struct buf *out, const struct view *w, size_t first, size_t end,
		     struct heading *heading)
{
	struct text_hunk span = group_span(w, first, end);
	uint32_t at = span.old_at;
	int r;

	heading_seek(heading, &w->old, span.old_at);
	r = put_header(out, &span, heading->text);
	for (size_t i = first; i < end && r == 0; i++) {
		const struct text_hunk *h = &w->d->v[i];

		r = put_lines(out, ' ', &w->old, at, h->old_at - at);
		if (r == 0)
			r = put_lines(out, '-', &w->old, h->old_at, h->old_n);
		if (r == 0)
			r = put_lines(out, '+', &w->new, h->new_at, h->new_n);
		at = h->old_at + h->old_n;
	}
	if (r < 0)
		return r;
	return put_lines(out, ' ', &w->old, at, span.old_at + span.old_n - at);
}

int text_unified(struct buf *out, struct text old, struct text new,
		 const struct text_diff *d, uint32_t context)
{
	cleanup_view struct view w = {0};
	struct heading heading = {0};
	int r = view_open(&w, old, new, d, context);

	for (size_t i = 0, end; i < d->n && r == 0; i = end) {
		end = group_end(d, context, i);
		r = put_group(out, &w, i, end, &heading);
	}
	return r;
}

int text_unified_group(struct buf *out, struct text old, struct text new,
		       const struct text_diff *d, uint32_t context, size_t group)
{
	cleanup_view struct view w = {0};
	struct heading heading = {0};
	int r = view_open(&w, old, new, d, context);
	size_t i = 0;

	while (group > 0 && i < d->n) {
		i = group_end(d, context, i);
		group--;
	}
	if (r == 0 && i >= d->n)
		r = -EINVAL;
	return r < 0 ? r : put_group(out, &w, i, group_end(d, context, i), &heading);
}

static int put_text(struct buf *out, const struct lines *l, uint32_t at, uint32_t n)
{
	struct text t = lines_range(l, at, n);

	return t.len ? buf_append(out, t.data, t.len) : 0;
}

int text_pick(struct buf *out, struct text old, struct text new,
	      const struct text_diff *d, const bool *take)
{
	cleanup_view struct view w = {0};
	int r = view_open(&w, old, new, d, 0);
	uint32_t at = 0;

	for (size_t i = 0; i < d->n && r == 0; i++) {
		const struct text_hunk *h = &d->v[i];

		if (!take[i])
			continue;
		r = put_text(out, &w.old, at, h->old_at - at);
		if (r == 0)
			r = put_text(out, &w.new, h->new_at, h->new_n);
		at = h->old_at + h->old_n;
	}
	return r < 0 ? r : put_text(out, &w.old, at, w.old.n - at);
}
