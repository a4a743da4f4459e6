/* SPDX-License-Identifier: Apache-2.0 */
/* seen - see seen.h. The hash is seeded: whoever writes a spec cannot aim at one slot. */
#include "spec/seen.h"

#include "base/util.h"

static size_t slot_of(const char *const *slots, size_t size, const char *text)
{
	/* where the table happens to lie is as random as anything the pure code has */
	uint64_t h = (uint64_t)(uintptr_t)slots * 0x9e3779b97f4a7c15u;
	size_t i;

	for (const char *s = text; *s; s++) {
		h = (h ^ (unsigned char)*s) * 0x100000001b3u;
		h ^= h >> 29;
	}
	for (i = (size_t)h & (size - 1); slots[i] && strcmp(slots[i], text) != 0;)
		i = (i + 1) & (size - 1);
	return i;
}

static int grow(struct seen *s)
{
	size_t size = s->size ? s->size * 4 : 64;
	const char **slots = calloc(size, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < s->size; i++)
		if (s->slots[i])
			slots[slot_of(slots, size, s->slots[i])] = s->slots[i];
	free(s->slots);
	s->slots = slots;
	s->size = size;
	return 0;
}

int seen_add(struct seen *s, const char *text)
{
	size_t i;

	if (s->n * 2 >= s->size && grow(s) < 0)
		return -ENOMEM;
	i = slot_of(s->slots, s->size, text);
	if (s->slots[i])
		return 0;
	s->slots[i] = text;
	s->n++;
	return 1;
}

void seen_clear(struct seen *s)
{
	free(s->slots);
	*s = (struct seen){0};
}
