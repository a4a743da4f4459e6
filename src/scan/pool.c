/* SPDX-License-Identifier: Apache-2.0 */
#include "scan/pool.h"

#include "base/util.h"

#define BLOCK 16384u
#define ALIGN 16u

struct pool_block {
	struct pool_block *next;
	size_t used, size;
	_Alignas(ALIGN) unsigned char data[];
};

static struct pool_block *add_block(struct pool *p, size_t n)
{
	size_t size = n > BLOCK ? n : BLOCK;
	struct pool_block *b = calloc(1, sizeof(*b) + size);

	if (!b)
		return NULL;
	b->size = size;
	b->next = p->blocks;
	p->blocks = b;
	return b;
}

void *pool_alloc(struct pool *p, size_t n)
{
	struct pool_block *b = p->blocks;
	size_t need;

	if (n > p->max - p->used)
		return NULL;
	need = (n + ALIGN - 1) / ALIGN * ALIGN;
	if (!b || need > b->size - b->used)
		b = add_block(p, need);
	if (!b)
		return NULL;
	p->used += n;
	b->used += need;
	return b->data + b->used - need;
}

char *pool_copy(struct pool *p, const char *text, size_t n)
{
	char *s = n < SIZE_MAX ? pool_alloc(p, n + 1) : NULL;

	if (s && n)
		memcpy(s, text, n);
	return s;
}

void pool_clear(struct pool *p)
{
	while (p->blocks) {
		struct pool_block *b = p->blocks;

		p->blocks = b->next;
		free(b);
	}
	p->used = 0;
}
