/* SPDX-License-Identifier: Apache-2.0 */
#include "scan/literals.h"

#include "base/util.h"

#define SLOTS 65536u

struct word {
	char *text;
	size_t len, index;
	struct word *next; /* with the same last two bytes of the window */
};

struct literals {
	size_t window; /* length of the shortest word */
	size_t n;
	struct word *word;
	unsigned char fold[256];
	unsigned char shift[SLOTS];
	struct word *slot[SLOTS];
};

/* The two bytes that end a window; a window of one byte has only that. */
static size_t key(const struct literals *l, const unsigned char *end)
{
	size_t last = l->fold[end[-1]];

	return l->window < 2 ? last : (size_t)l->fold[end[-2]] << 8 | last;
}

static void index_word(struct literals *l, struct word *w)
{
	size_t block = l->window < 2 ? 1 : 2, k;
	const unsigned char *t = (const unsigned char *)w->text;

	for (size_t end = block; end <= l->window; end++) {
		size_t far = min_size(l->window - end, 255);

		k = key(l, t + end);
		if (l->shift[k] > far)
			l->shift[k] = (unsigned char)far;
	}
	k = key(l, t + l->window);
	w->next = l->slot[k];
	l->slot[k] = w;
}

struct literals *literals_new(const char *const *words, const size_t *lens, size_t n,
			      bool fold)
{
	struct literals *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->word = calloc(n + 1, sizeof(*l->word));
	l->window = SIZE_MAX;
	for (int i = 0; i < 256; i++)
		l->fold[i] = (unsigned char)(fold && i >= 'A' && i <= 'Z' ? i + 32 : i);
	for (size_t i = 0; l->word && i < n; i++) {
		struct word *w = &l->word[l->n];

		if (!lens[i])
			continue;
		*w = (struct word){malloc(lens[i]), lens[i], i, NULL};
		if (!w->text) {
			literals_free(l);
			return NULL;
		}
		memcpy(w->text, words[i], lens[i]);
		l->window = min_size(l->window, lens[i]);
		l->n++;
	}
	if (!l->word) {
		free(l);
		return NULL;
	}
	memset(l->shift, (int)min_size(l->window < 2 ? 1 : l->window - 1, 255), SLOTS);
	for (size_t i = 0; i < l->n; i++)
		index_word(l, &l->word[i]);
	return l;
}

static bool same(const struct literals *l, const struct word *w, const unsigned char *t)
{
	for (size_t i = 0; i < w->len; i++)
		if (l->fold[t[i]] != (unsigned char)w->text[i])
			return false;
	return true;
}

void literals_find(const struct literals *l, const char *text, size_t len,
		   bool (*fn)(void *arg, size_t index, size_t end), void *arg)
{
	const unsigned char *t = (const unsigned char *)text;
	size_t end = l->window; /* of the window */

	if (!l->n || len < l->window)
		return;
	while (end <= len) {
		size_t k = key(l, t + end), start = end - l->window;

		if (l->shift[k]) {
			end += l->shift[k];
			continue;
		}
		for (const struct word *w = l->slot[k]; w; w = w->next)
			if (w->len <= len - start && same(l, w, t + start) &&
			    !fn(arg, w->index, start + w->len))
				return;
		end++;
	}
}

void literals_free(struct literals *l)
{
	if (!l)
		return;
	for (size_t i = 0; l->word && i < l->n; i++)
		free(l->word[i].text);
	free(l->word);
	free(l);
}
