/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lru - a bounded table of text to pointer; when full, the entry unused for longest goes.
 */
#ifndef COVE_EGRESS_LRU_H
#define COVE_EGRESS_LRU_H

#include <stddef.h>

struct lru_entry;

struct lru {
	void (*drop)(void *value); /* called for each value that leaves the table */
	size_t max, n;
	struct lru_entry **bucket;
	size_t n_buckets;
	struct lru_entry *newest, *oldest;
};

int lru_init(struct lru *t, size_t max, void (*drop)(void *)); /* 0 or -ENOMEM */
void lru_clear(struct lru *t);                                 /* all zero is fine too */
void lru_flush(struct lru *t);                                 /* empties, stays usable */
void *lru_get(struct lru *t, const char *key);                 /* NULL: not there */
/* Takes value (in place of the one that was there); -ENOMEM leaves it with the caller. */
int lru_put(struct lru *t, const char *key, void *value);
void lru_remove(struct lru *t, const char *key);

#endif
