/* SPDX-License-Identifier: Apache-2.0 */
/* The search for several strings, against one that looks at every place. */
#include "base/needles.h"

#include "base/util.h"
#include "tap.h"

#define TEXT 300
#define MANY 12

static uint32_t state = 12345;

static unsigned dice(unsigned n)
{
	state = state * 1664525 + 1013904223;
	return (state >> 8) % n;
}

/* The longest needle at a place, or one that the end of the text cuts. */
static enum needle_found plain(const struct needle *v, size_t n,
			       const unsigned char *text, size_t len, size_t from,
			       bool last, struct needle_hit *ret)
{
	for (size_t at = from; at < len; at++) {
		size_t best = 0;
		bool cut = false;

		for (size_t i = 0; i < n; i++) {
			if (memcmp(v[i].p, text + at, min_size(v[i].n, len - at)) != 0)
				continue;
			if (v[i].n > len - at) {
				cut = true;
			} else if (v[i].n > best) {
				best = v[i].n;
				ret->id = (unsigned)i;
			}
		}
		if (!best && (!cut || last))
			continue;
		ret->at = at;
		return cut && !last ? NEEDLE_BEGINNING : NEEDLE_HIT;
	}
	return NEEDLE_NONE;
}

static bool round_agrees(void)
{
	unsigned char bytes[MANY][40], text[TEXT];
	unsigned letters = 1 + dice(4), n = 1 + dice(MANY);
	struct needle v[MANY];
	struct needles *set = malloc(needles_size(MANY));
	bool same = set != NULL, last = dice(2);

	for (unsigned i = 0; i < n; i++) {
		v[i] = (struct needle){bytes[i], NEEDLE_MIN + dice(30)};
		for (size_t k = 0; k < v[i].n; k++)
			bytes[i][k] = (unsigned char)('a' + dice(letters));
	}
	for (size_t k = 0; k < TEXT; k++)
		text[k] = (unsigned char)('a' + dice(letters));
	for (unsigned i = 0; i < 4; i++) { /* so that there is something to find */
		const struct needle *d = &v[dice(n)];
		size_t at = dice(TEXT - 8);

		memcpy(text + at, d->p, min_size(d->n, TEXT - at));
	}
	same = same && needles_init(set, v, n) == 0;
	for (size_t from = 0; same && from < TEXT; from++) {
		struct needle_hit a = {0}, b = {0};
		enum needle_found x = needles_next(set, text, TEXT, from, last, &a);
		enum needle_found y = plain(v, n, text, TEXT, from, last, &b);

		same = x == y && (x == NEEDLE_NONE || a.at == b.at) &&
		       (x != NEEDLE_HIT || v[a.id].n == v[b.id].n);
	}
	free(set);
	return same;
}

int main(void)
{
	static const unsigned char word[] = "12345678";
	struct needle v = {word, 7};
	struct needles *set = malloc(needles_size(1));
	unsigned bad = 0;

	OK(set && needles_init(set, &v, 1) == -EINVAL, "too short");
	OK(needles_init(set, &v, 0) == -EINVAL, "none");
	free(set);
	for (int i = 0; i < 3000; i++)
		bad += !round_agrees();
	OK(bad == 0, "3000 random sets agree with the plain search (%u do not)", bad);
	return tap_done();
}
