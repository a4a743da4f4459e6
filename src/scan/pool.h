/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool - memory that is released all at once, with a cap on the sum of what was asked
 * for.
 *
 * The parsers of this directory build trees from text that somebody else wrote; a pool
 * bounds what such a text can cost and makes every error path a plain return.
 */
#ifndef COVE_SCAN_POOL_H
#define COVE_SCAN_POOL_H

#include <stddef.h>

struct pool_block;

struct pool {
	struct pool_block *blocks;
	size_t used, max; /* bytes handed out, and how many at most */
};

#define POOL_INIT(max_) \
	{ \
		.max = (max_) \
	}

/* Zeroed, aligned for anything. NULL: out of memory, or over the cap. */
void *pool_alloc(struct pool *p, size_t n);
/* A copy with a NUL behind it. */
char *pool_copy(struct pool *p, const char *text, size_t n);
void pool_clear(struct pool *p); /* the cap stays */

static inline void pool_clearp(struct pool *p)
{
	pool_clear(p);
}
#define cleanup_pool __attribute__((cleanup(pool_clearp)))

#endif
