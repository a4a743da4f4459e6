/* SPDX-License-Identifier: Apache-2.0 */
/* lru - see lru.h: a hash table whose entries are also in a list by last use. */
#include "egress/lru.h"

#include "base/util.h"

#include <errno.h>

struct lru_entry {
	struct lru_entry *chain;         /* of the bucket */
	struct lru_entry *newer, *older; /* of the list */
	void *value;
	char key[];
};

static size_t slot_of(const struct lru *t, const char *key)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (; *key; key++)
		h = (h ^ (unsigned char)*key) * 0x100000001b3u;
	return (size_t)(h ^ (h >> 29)) & (t->n_buckets - 1);
}

int lru_init(struct lru *t, size_t max, void (*drop)(void *))
{
	size_t n = 16;

	while (n < max)
		n *= 2;
	*t = (struct lru){.drop = drop, .max = max, .n_buckets = n};
	t->bucket = calloc(n, sizeof(*t->bucket));
	return t->bucket ? 0 : -ENOMEM;
}

static void list_out(struct lru *t, const struct lru_entry *e)
{
	*(e->newer ? &e->newer->older : &t->newest) = e->older;
	*(e->older ? &e->older->newer : &t->oldest) = e->newer;
}

static void list_in(struct lru *t, struct lru_entry *e)
{
	e->newer = NULL;
	e->older = t->newest;
	*(e->older ? &e->older->newer : &t->oldest) = e;
	t->newest = e;
}

static struct lru_entry **find(const struct lru *t, const char *key)
{
	struct lru_entry **at = &t->bucket[slot_of(t, key)];

	while (*at && strcmp((*at)->key, key) != 0)
		at = &(*at)->chain;
	return at;
}

static void discard(struct lru *t, struct lru_entry **at)
{
	struct lru_entry *e = *at;

	*at = e->chain;
	list_out(t, e);
	t->n--;
	t->drop(e->value);
	free(e);
}

void lru_flush(struct lru *t)
{
	while (t->oldest)
		discard(t, find(t, t->oldest->key));
}

void lru_clear(struct lru *t)
{
	lru_flush(t);
	free(t->bucket);
	*t = (struct lru){0};
}

void *lru_get(struct lru *t, const char *key)
{
	struct lru_entry *e = *find(t, key);

	if (!e)
		return NULL;
	list_out(t, e);
	list_in(t, e);
	return e->value;
}

int lru_put(struct lru *t, const char *key, void *value)
{
	size_t n = strlen(key) + 1;
	struct lru_entry *e = calloc(1, sizeof(*e) + n);
	struct lru_entry **at;

	if (!e)
		return -ENOMEM;
	memcpy(e->key, key, n);
	e->value = value;
	lru_remove(t, key);
	if (t->n >= t->max)
		discard(t, find(t, t->oldest->key));
	at = &t->bucket[slot_of(t, key)];
	e->chain = *at;
	*at = e;
	list_in(t, e);
	t->n++;
	return 0;
}

void lru_remove(struct lru *t, const char *key)
{
	struct lru_entry **at = find(t, key);

	if (*at)
		discard(t, at);
}
