/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names - one synthetic address for each name that was asked for.
 *
 * Theory of operation. A name has a number; its addresses are that number in two fixed
 * prefixes. Numbers are twice as many as names: new ones are given out first, then those
 * given back, oldest first, so that a program that remembers an address for too long
 * meets nobody rather than somebody else for as long as possible.
 *
 * Invariants
 * 1. by_number[e->number] == e for every entry; every other slot is NULL.
 * 2. The list goes from the most recently used to the least; one that connections use
 *    may stand anywhere in it, and is put to the front when it is met at the end.
 * 3. An entry whose refs are not 0, or that was used within LIVE_MS, is never taken away.
 */
#include "egress/names.h"

#include "base/util.h"

#include <sodium/crypto_shorthash.h>
#include <sys/random.h>

#define SPACE (1u << 17) /* addresses in 198.18.0.0/15 */
#define EDGE 256u        /* not used at either end of it */
#define NUMBERS (SPACE - 2 * EDGE)
#define BUCKETS (1u << 16)
#define LIVE_MS ((NAMES_TTL + 3600) * (int64_t)1000)

static const uint8_t prefix6[12] = {0xfd, 0x63, 0x6f, 0x76, 0x00, 0x65};
static const uint8_t prefix4[12] = {[10] = 0xff, [11] = 0xff};

struct names {
	uint32_t max, count;
	uint32_t fresh;                 /* numbers given out for the first time */
	uint32_t given_back, back_head; /* a ring of numbers */
	uint32_t *back;
	struct name **by_number, **bucket;
	struct name lru; /* ends of the list */
	int64_t now_ms;  /* the latest seen: name_unref() is not told */
	uint8_t key[crypto_shorthash_KEYBYTES]; /* so that nobody can fill one bucket */
};

int names_new(struct names **ret, uint32_t max)
{
	struct names *n = calloc(1, sizeof(*n));

	if (!n)
		return -ENOMEM;
	n->max = max < NUMBERS ? max : NUMBERS;
	n->back = calloc(NUMBERS,
			 sizeof(*n->back)); /* pages that nobody touches are free */
	n->by_number = calloc(SPACE, sizeof(struct name *));
	n->bucket = calloc(BUCKETS, sizeof(struct name *));
	n->lru.lru_next = n->lru.lru_prev = &n->lru;
	if (!n->back || !n->by_number || !n->bucket) {
		names_free(n);
		return -ENOMEM;
	}
	if (getrandom(n->key, sizeof(n->key), 0) != (ssize_t)sizeof(n->key)) {
		names_free(n);
		return -EIO;
	}
	*ret = n;
	return 0;
}

void names_free(struct names *n)
{
	if (!n)
		return;
	for (struct name *e = n->lru.lru_next, *next; e != &n->lru; e = next) {
		next = e->lru_next;
		free(e);
	}
	free(n->back);
	free(n->by_number);
	free(n->bucket);
	free(n);
}

/* ---- the list -------------------------------------------------------------------- */

static void list_out(struct name *e)
{
	e->lru_prev->lru_next = e->lru_next;
	e->lru_next->lru_prev = e->lru_prev;
}

static void list_front(struct names *n, struct name *e)
{
	e->lru_prev = &n->lru;
	e->lru_next = n->lru.lru_next;
	e->lru_next->lru_prev = e;
	n->lru.lru_next = e;
}

static void use(struct names *n, struct name *e, int64_t now_ms)
{
	n->now_ms = now_ms > n->now_ms ? now_ms : n->now_ms;
	e->used_ms = n->now_ms;
	list_out(e);
	list_front(n, e);
}

/* ---- entries --------------------------------------------------------------------- */

static struct name **bucket_of(struct names *n, const char *text)
{
	uint64_t hash;

	crypto_shorthash((uint8_t *)&hash, (const uint8_t *)text, strlen(text), n->key);
	return &n->bucket[hash % BUCKETS];
}

static void forget(struct names *n, struct name *e)
{
	struct name **p = bucket_of(n, e->text);

	while (*p != e)
		p = &(*p)->hash_next;
	*p = e->hash_next;
	list_out(e);
	n->by_number[e->number] = NULL;
	n->back[(n->back_head + n->given_back++) % NUMBERS] = e->number;
	n->count--;
	free(e);
}

/* Takes away the one unused for longest, if it may go. */
static bool make_room(struct names *n)
{
	for (uint32_t i = 0; i < n->count; i++) {
		struct name *e = n->lru.lru_prev;

		if (e->refs == 0) {
			if (n->now_ms - e->used_ms < LIVE_MS)
				return false; /* and so are all before it */
			forget(n, e);
			return true;
		}
		use(n, e, n->now_ms);
	}
	return false;
}

static uint32_t take_number(struct names *n)
{
	uint32_t number;

	if (n->fresh < NUMBERS)
		return EDGE + n->fresh++;
	number = n->back[n->back_head];
	n->back_head = (n->back_head + 1) % NUMBERS;
	n->given_back--;
	return number;
}

const struct name *names_get(struct names *n, const char *text, int64_t now_ms)
{
	struct name **bucket = bucket_of(n, text), *e = *bucket;
	size_t len = strlen(text);

	n->now_ms = now_ms > n->now_ms ? now_ms : n->now_ms;
	while (e && strcmp(e->text, text) != 0)
		e = e->hash_next;
	if (e) {
		use(n, e, now_ms);
		return e;
	}
	if (len > HOST_MAX || (n->count >= n->max && !make_room(n)))
		return NULL;
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	memcpy(e->text, text, len + 1);
	e->number = take_number(n);
	e->used_ms = n->now_ms;
	e->hash_next = *bucket;
	*bucket = e;
	n->by_number[e->number] = e;
	list_front(n, e);
	n->count++;
	return e;
}

/* ---- addresses ------------------------------------------------------------------- */

bool names_is_synthetic(const struct addr *a)
{
	if (addr_is_v4(a))
		return a->b[12] == 198 && (a->b[13] & 0xfe) == 18;
	return memcmp(a->b, prefix6, 8) == 0;
}

void names_addr(const struct name *e, bool v6, struct addr *ret)
{
	uint32_t low = v6 ? e->number : (198u << 24 | 18u << 16) + e->number;

	memcpy(ret->b, v6 ? prefix6 : prefix4, 12);
	for (int i = 0; i < 4; i++)
		ret->b[12 + i] = (uint8_t)(low >> (24 - 8 * i));
}

const struct name *names_by_addr(struct names *n, const struct addr *a, int64_t now_ms)
{
	bool v4 = addr_is_v4(a);
	uint32_t low = (uint32_t)a->b[12] << 24 | (uint32_t)a->b[13] << 16 |
		       (uint32_t)a->b[14] << 8 | a->b[15];

	if (!names_is_synthetic(a) || (!v4 && memcmp(a->b, prefix6, 12) != 0))
		return NULL;
	if (v4)
		low &= SPACE - 1;
	if (low >= SPACE || !n->by_number[low])
		return NULL;
	use(n, n->by_number[low], now_ms);
	return n->by_number[low];
}

/* ---- references ------------------------------------------------------------------ */

/* Callers read a name and never change it; the count is ours. */
static struct name *own(const struct name *e)
{
	struct name *p;

	memcpy(&p, &e, sizeof(p));
	return p;
}

const struct name *name_ref(const struct name *e)
{
	if (e)
		own(e)->refs++;
	return e;
}

void name_unref(struct names *n, const struct name *e)
{
	if (!e)
		return;
	own(e)->refs--;
	use(n, own(e), n->now_ms);
}
