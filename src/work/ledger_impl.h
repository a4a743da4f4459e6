/* SPDX-License-Identifier: Apache-2.0 */
/* ledger_impl - what the files of the ledger share. */
#ifndef COVE_WORK_LEDGER_IMPL_H
#define COVE_WORK_LEDGER_IMPL_H

#include "work/ledger.h"

#include <sodium/crypto_shorthash.h>

#define LEDGER_ENTRIES_MAX 4000000
#define LEDGER_FILE_MAX ((size_t)1 << 30)
#define LEDGER_PATH_MAX (160u * 1024)

struct node {
	struct ledger_entry e; /* e.path is `path` */
	char *path;
	uint64_t at; /* where in the pack its content lies, with has_blob */
	uint32_t len;
	/* while ledger_capture() runs: */
	bool alive;  /* its path is in the upper layer */
	bool covers; /* what is below it cannot be seen from above: keep that as it is */
};

/* By path; and in order of the paths, which is only made when somebody asks for it. */
struct table {
	struct node **slot; /* open addressing; a power of two of them */
	size_t cap, n;
	struct node **sorted; /* NULL: not made */
	unsigned char key[crypto_shorthash_KEYBYTES];
};

void table_clear(struct table *t);
struct node *table_find(const struct table *t, const char *path);
/* The node of path, made if there is none. NULL: out of memory, or too many. */
struct node *table_get(struct table *t, const char *path);
void table_remove(struct table *t, const char *path);
int table_sort(struct table *t);

/* Contents that are kept: one file, mN/blobs/GENERATION, which is only ever appended to.
 * It is made anew, as the next generation, when most of it is not needed any more. */
struct pack {
	uint64_t generation, size; /* of the file */
	struct buf fresh;          /* not written yet; lies behind it */
};

struct ledger {
	struct table *table;
	struct pack pack;
	int dir; /* mN; -1: in memory only */
	bool dirty;
	bool lasting; /* has changes that must survive the host, not only the process */
	bool sweep;   /* there may be other generations of the pack */
};

/* Keeps content for n if it is text and there is room; the digest is set in any case. */
int pack_keep(struct ledger *g, struct node *n, const void *content, size_t len);
int pack_open(struct ledger *g); /* learns the size of the file */
int pack_write(struct ledger *g, bool sync);
int pack_read(const struct ledger *g, const struct node *n, struct buf *out);
/* Rewrites it when half of it is garbage (or in any case), leaving the old one. */
int pack_compact(struct ledger *g, bool always);
void pack_sweep(struct ledger *g); /* removes other generations */

#endif
