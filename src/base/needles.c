/* SPDX-License-Identifier: Apache-2.0 */
#include "base/needles.h"

#include "base/util.h"

#define BUCKETS 1024
#define NOTHING UINT16_MAX

struct needles {
	size_t window; /* bytes of the shortest needle, at most 255 */
	size_t n;
	uint8_t shift[1 << 16]; /* by the window's last two bytes */
	uint16_t head[BUCKETS]; /* of the needles whose window ends so */
	bool first[256];        /* a needle begins with it */
	struct entry {
		struct needle needle;
		uint16_t next;
	} entry[];
};

size_t needles_size(size_t n)
{
	return sizeof(struct needles) + n * sizeof(struct entry);
}

static inline unsigned pair(const unsigned char *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline unsigned bucket(unsigned block)
{
	return (block * 40503u >> 6) % BUCKETS;
}

/* Where a block occurs in a needle's window, the window may jump only that far. */
static void add_shifts(struct needles *set, const unsigned char *p)
{
	for (size_t i = 1; i < set->window; i++) {
		uint8_t *s = &set->shift[pair(p + i - 1)];
		size_t left = set->window - 1 - i;

		if (left < *s)
			*s = (uint8_t)left;
	}
}

int needles_init(struct needles *set, const struct needle *v, size_t n)
{
	size_t window = 255;

	if (n == 0 || n > NEEDLES_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		window = min_size(window, v[i].n);
	if (window < NEEDLE_MIN)
		return -EINVAL;
	set->window = window;
	set->n = n;
	memset(set->shift, (int)window - 1, sizeof(set->shift));
	memset(set->head, 0xff, sizeof(set->head));
	memset(set->first, 0, sizeof(set->first));
	for (size_t i = n; i-- > 0;) { /* from the end, so that a chain is in order */
		unsigned b = bucket(pair(v[i].p + window - 2));

		set->entry[i] = (struct entry){v[i], set->head[b]};
		set->head[b] = (uint16_t)i;
		set->first[v[i].p[0]] = true;
		add_shifts(set, v[i].p);
	}
	return 0;
}

/* The needles at one place: the longest whole one, unless a longer one may be coming. */
static enum needle_found look(const struct needles *set, const unsigned char *text,
			      size_t n, size_t at, bool last, struct needle_hit *ret)
{
	const unsigned char *p = text + at;
	size_t left = n - at, best = 0, coming = 0;

	for (uint16_t i = set->head[bucket(pair(p + set->window - 2))]; i != NOTHING;
	     i = set->entry[i].next) {
		const struct needle *d = &set->entry[i].needle;

		if (pair(d->p) != pair(p) || memcmp(d->p, p, min_size(d->n, left)) != 0)
			continue;
		if (d->n > left) {
			coming = d->n;
		} else if (d->n > best) {
			best = d->n;
			ret->id = i;
		}
	}
	if (!best && (!coming || last))
		return NEEDLE_NONE;
	ret->at = at;
	return coming && !last ? NEEDLE_BEGINNING : NEEDLE_HIT;
}

/* The text's last bytes, fewer than a window: does a needle begin with them? */
static enum needle_found look_short(const struct needles *set, const unsigned char *text,
				    size_t n, size_t at, struct needle_hit *ret)
{
	for (; at < n; at++) {
		if (!set->first[text[at]])
			continue;
		for (size_t i = 0; i < set->n; i++) {
			if (memcmp(set->entry[i].needle.p, text + at, n - at) != 0)
				continue;
			ret->at = at;
			return NEEDLE_BEGINNING;
		}
	}
	return NEEDLE_NONE;
}

enum needle_found needles_next(const struct needles *set, const unsigned char *text,
			       size_t n, size_t from, bool last, struct needle_hit *ret)
{
	const uint8_t *shift = set->shift;
	size_t w = set->window, end = from + w - 1; /* the window's last byte */

	while (end < n) {
		size_t s = shift[pair(text + end - 1)];
		enum needle_found f;

		if (s) {
			end += s;
			continue;
		}
		f = look(set, text, n, end + 1 - w, last, ret);
		if (f != NEEDLE_NONE)
			return f;
		end++;
	}
	return last ? NEEDLE_NONE : look_short(set, text, n, end + 1 - w, ret);
}
