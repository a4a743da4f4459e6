/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/table.h"

#include "base/util.h"

#define BUCKETS_FIRST 256u

int table_init(struct table *t)
{
	*t = (struct table){.n_buckets = BUCKETS_FIRST};
	t->bucket = calloc(t->n_buckets, sizeof(struct entry *));
	return t->bucket ? 0 : -ENOMEM;
}

void table_clear(struct table *t)
{
	free(t->bucket);
	*t = (struct table){0};
}

static void put(struct table *t, struct entry *e)
{
	struct entry **at = &t->bucket[e->hash & (t->n_buckets - 1)];

	e->next = *at;
	*at = e;
}

static void grow(struct table *t)
{
	struct table larger = {.n_buckets = t->n_buckets * 2, .n = t->n};

	larger.bucket = calloc(larger.n_buckets, sizeof(struct entry *));
	if (!larger.bucket)
		return;
	for (size_t i = 0; i < t->n_buckets; i++) {
		for (struct entry *e = t->bucket[i], *next; e; e = next) {
			next = e->next;
			put(&larger, e);
		}
	}
	free(t->bucket);
	*t = larger;
}

void table_add(struct table *t, struct entry *e, uint64_t hash)
{
	if (t->n >= t->n_buckets)
		grow(t);
	e->hash = hash;
	put(t, e);
	t->n++;
}

void table_remove(struct table *t, struct entry *e)
{
	struct entry **at = &t->bucket[e->hash & (t->n_buckets - 1)];

	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	t->n--;
}

struct entry *table_next(const struct table *t, const struct entry *e, uint64_t hash)
{
	struct entry *at = e ? e->next : t->bucket[hash & (t->n_buckets - 1)];

	while (at && at->hash != hash)
		at = at->next;
	return at;
}
