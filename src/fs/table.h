/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table - a hash table of entries that live inside other structures. It grows with what
 * is in it; when memory for that is short it stays as it is and becomes slower.
 */
#ifndef COVE_FS_TABLE_H
#define COVE_FS_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct entry {
	struct entry *next; /* of the bucket */
	uint64_t hash;
};

struct table {
	struct entry **bucket;
	size_t n_buckets, n; /* a power of two; entries */
};

int table_init(struct table *t); /* 0 or -ENOMEM */
void table_clear(struct table *t);
void table_add(struct table *t, struct entry *e, uint64_t hash);
void table_remove(struct table *t, struct entry *e);

/* The first entry with that hash after e (NULL: of all); the caller compares keys. */
struct entry *table_next(const struct table *t, const struct entry *e, uint64_t hash);

/* A well-mixed 64-bit value: inode numbers and pointers are not. */
static inline uint64_t table_mix(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93u;
	return x ^ (x >> 32);
}

#endif
