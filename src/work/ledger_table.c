/* SPDX-License-Identifier: Apache-2.0 */
/* ledger_table - entries by path. Paths are the sandbox's choice, so the hash is keyed.
 */
#include "base/util.h"
#include "work/ledger_impl.h"

#include <sodium/randombytes.h>

static void node_free(struct node *n)
{
	if (n)
		free(n->path);
	free(n);
}

static void unsort(struct table *t)
{
	free(t->sorted);
	t->sorted = NULL;
}

void table_clear(struct table *t)
{
	for (size_t i = 0; i < t->cap; i++)
		node_free(t->slot[i]);
	free(t->slot);
	unsort(t);
	*t = (struct table){0};
}

/* The slot that holds path, or the free one where it would go. */
static size_t place(const struct table *t, const char *path)
{
	union {
		unsigned char bytes[crypto_shorthash_BYTES];
		uint64_t number;
	} hash;
	size_t i;

	crypto_shorthash(hash.bytes, (const unsigned char *)path, strlen(path), t->key);
	i = (size_t)hash.number & (t->cap - 1);
	while (t->slot[i] && strcmp(t->slot[i]->path, path) != 0)
		i = (i + 1) & (t->cap - 1);
	return i;
}

struct node *table_find(const struct table *t, const char *path)
{
	return t->cap ? t->slot[place(t, path)] : NULL;
}

static int grow(struct table *t)
{
	struct table bigger = {.cap = t->cap ? t->cap * 2 : 64, .n = t->n};

	if (t->cap && t->n * 2 < t->cap)
		return 0;
	if (t->n >= LEDGER_ENTRIES_MAX)
		return -E2BIG;
	bigger.slot = calloc(bigger.cap, sizeof(*bigger.slot));
	if (!bigger.slot)
		return -ENOMEM;
	if (t->cap)
		memcpy(bigger.key, t->key, sizeof(t->key));
	else
		randombytes_buf(bigger.key, sizeof(bigger.key));
	for (size_t i = 0; i < t->cap; i++)
		if (t->slot[i])
			bigger.slot[place(&bigger, t->slot[i]->path)] = t->slot[i];
	free(t->slot);
	unsort(t);
	*t = bigger;
	return 0;
}

struct node *table_get(struct table *t, const char *path)
{
	struct node *n = table_find(t, path);

	if (n)
		return n;
	if (grow(t) < 0)
		return NULL;
	n = calloc(1, sizeof(*n));
	if (n)
		n->path = strdup(path);
	if (!n || !n->path) {
		node_free(n);
		return NULL;
	}
	n->e.path = n->path;
	t->slot[place(t, path)] = n;
	t->n++;
	unsort(t);
	return n;
}

void table_remove(struct table *t, const char *path)
{
	size_t i = t->cap ? place(t, path) : 0;

	if (!t->cap || !t->slot[i])
		return;
	node_free(t->slot[i]);
	t->slot[i] = NULL;
	t->n--;
	unsort(t);
	/* those behind it may only be there because it was in their way */
	for (i = (i + 1) & (t->cap - 1); t->slot[i]; i = (i + 1) & (t->cap - 1)) {
		struct node *n = t->slot[i];

		t->slot[i] = NULL;
		t->slot[place(t, n->path)] = n;
	}
}

static int by_path(const void *a, const void *b)
{
	const struct node *const *x = a, *const *y = b;

	return strcmp((*x)->path, (*y)->path);
}

int table_sort(struct table *t)
{
	size_t n = 0;

	if (t->sorted)
		return 0;
	t->sorted = calloc(t->n + 1, sizeof(struct node *));
	if (!t->sorted)
		return -ENOMEM;
	for (size_t i = 0; i < t->cap; i++)
		if (t->slot[i])
			t->sorted[n++] = t->slot[i];
	qsort(t->sorted, n, sizeof(struct node *), by_path);
	return 0;
}
