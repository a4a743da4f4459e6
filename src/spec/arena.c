/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/arena.h"

#include <stdalign.h>
#include <stdlib.h>

#define CHUNK_BYTES 8000

struct chunk {
	struct chunk *next;
	size_t used, size;
	alignas(max_align_t) char data[];
};

void *arena_alloc(struct chunk **chunks, size_t n)
{
	struct chunk *c = *chunks;
	size_t size;
	void *p;

	n = (n + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
	if (!c || c->size - c->used < n) {
		size = n > CHUNK_BYTES ? n : CHUNK_BYTES;
		c = malloc(sizeof(*c) + size);
		if (!c)
			return NULL;
		c->next = *chunks;
		c->used = 0;
		c->size = size;
		*chunks = c;
	}
	p = c->data + c->used;
	c->used += n;
	return p;
}

void arena_clear(struct chunk **chunks)
{
	while (*chunks) {
		struct chunk *next = (*chunks)->next;

		free(*chunks);
		*chunks = next;
	}
}
