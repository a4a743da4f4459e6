/* SPDX-License-Identifier: Apache-2.0 */
/* lines - see lines.h. */
#include "text/lines.h"

#include <sys/auxv.h>

static size_t count_lines(struct text t)
{
	const char *p = t.data, *end = p + t.len;
	size_t n = 0;

	while (p < end && (p = memchr(p, '\n', (size_t)(end - p)))) {
		n++;
		p++;
	}
	return n + (t.len > 0 && t.data[t.len - 1] != '\n');
}

int lines_split(struct lines *ret, struct text t)
{
	struct lines l = {.data = t.data ? t.data : ""};
	size_t n, from = 0;

	if (t.len > TEXT_MAX_BYTES)
		return -EFBIG;
	n = t.len ? count_lines(t) : 0;
	if (n > TEXT_MAX_LINES)
		return -EFBIG;
	l.at = calloc(n + 1, sizeof(*l.at));
	if (!l.at)
		return -ENOMEM;
	for (l.n = 0; l.n < n; l.n++) {
		const char *nl = memchr(t.data + from, '\n', t.len - from);

		l.at[l.n] = (uint32_t)from;
		from = nl ? (size_t)(nl - t.data) + 1 : t.len;
	}
	l.at[n] = (uint32_t)t.len;
	*ret = l;
	return 0;
}

void lines_clear(struct lines *l)
{
	free(l->at);
	*l = (struct lines){0};
}

void lines_trim(const struct lines *a, const struct lines *b, uint32_t *ret_head,
		uint32_t *ret_tail)
{
	uint32_t most = a->n < b->n ? a->n : b->n, head = 0, tail = 0;

	while (head < most && lines_equal(a, head, b, head))
		head++;
	while (tail < most - head && lines_equal(a, a->n - 1 - tail, b, b->n - 1 - tail))
		tail++;
	*ret_head = head;
	*ret_tail = tail;
}

/*
 * The lines are hostile: with a hash anyone can compute, a file could be made in which
 * all lines meet in one slot. So the hash is keyed by the bytes the kernel gives every
 * process. The numbers handed out do not depend on it.
 */
struct key {
	uint64_t a, b;
};

static struct key key_make(void)
{
	const void *random = (const void *)(uintptr_t)getauxval(AT_RANDOM);
	struct key k = {0x9e3779b97f4a7c15, 0xd1b54a32d192ed03};
	uint64_t r[2] = {0, 0};

	if (random)
		memcpy(r, random, sizeof(r));
	k.a ^= r[1];
	k.b = (k.b ^ r[0]) | 1;
	return k;
}

static uint64_t fold(uint64_t x, uint64_t y)
{
	unsigned __int128 p = (unsigned __int128)x * y;

	return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static uint64_t hash_line(struct key k, struct text t)
{
	uint64_t h = k.a ^ t.len, w;

	for (; t.len >= sizeof(w); t.data += sizeof(w), t.len -= sizeof(w)) {
		memcpy(&w, t.data, sizeof(w));
		h = fold(h ^ w, k.b) + w;
	}
	w = 0;
	if (t.len > 0)
		memcpy(&w, t.data, t.len);
	return fold(fold(h ^ w, k.b) + w, k.a | 1);
}

/* Open addressing over the distinct lines of the first text. */
struct table {
	struct key key;
	const struct lines *lines;
	uint32_t *slots; /* entry + 1, 0 is free */
	size_t mask;
	struct entry {
		uint64_t hash;
		uint32_t line; /* the first that looks so */
		bool shared;   /* the second text has it too */
	} * entries;
	uint32_t n;
};

static void table_clear(struct table *t)
{
	free(t->slots);
	free(t->entries);
}

static int table_init(struct table *t, const struct lines *lines, uint32_t n)
{
	size_t size = 16;

	while (size < (size_t)n * 2)
		size *= 2;
	*t = (struct table){.key = key_make(), .lines = lines, .mask = size - 1};
	t->slots = calloc(size, sizeof(*t->slots));
	t->entries = calloc((size_t)n + 1, sizeof(*t->entries));
	if (t->slots && t->entries)
		return 0;
	table_clear(t);
	return -ENOMEM;
}

/* The slot that holds the line, or the free one where it belongs. */
static uint32_t *table_find(const struct table *t, struct text line, uint64_t hash)
{
	for (size_t i = hash & t->mask;; i = (i + 1) & t->mask) {
		uint32_t *slot = &t->slots[i];
		const struct entry *e;

		if (*slot == 0)
			return slot;
		e = &t->entries[*slot - 1];
		if (e->hash == hash && text_equal(lines_get(t->lines, e->line), line))
			return slot;
	}
}

static uint32_t table_add(struct table *t, uint32_t i)
{
	struct text line = lines_get(t->lines, i);
	uint64_t hash = hash_line(t->key, line);
	uint32_t *slot = table_find(t, line, hash);

	if (*slot == 0) {
		t->entries[t->n] = (struct entry){.hash = hash, .line = i};
		*slot = ++t->n;
	}
	return *slot - 1;
}

static uint32_t table_match(struct table *t, struct text line)
{
	uint32_t *slot = table_find(t, line, hash_line(t->key, line));

	if (*slot == 0)
		return LINE_ALONE;
	t->entries[*slot - 1].shared = true;
	return *slot - 1;
}

int lines_number(const struct lines *a, const struct lines *b, uint32_t head,
		 uint32_t tail, uint32_t *ret_a, uint32_t *ret_b)
{
	uint32_t na = a->n - head - tail, nb = b->n - head - tail;
	struct table t;

	if (table_init(&t, a, na) < 0)
		return -ENOMEM;
	for (uint32_t i = 0; i < na; i++)
		ret_a[i] = table_add(&t, head + i);
	for (uint32_t j = 0; j < nb; j++)
		ret_b[j] = table_match(&t, lines_get(b, head + j));
	for (uint32_t i = 0; i < na; i++)
		if (!t.entries[ret_a[i]].shared)
			ret_a[i] = LINE_ALONE;
	table_clear(&t);
	return 0;
}
