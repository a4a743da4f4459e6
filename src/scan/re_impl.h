/* SPDX-License-Identifier: Apache-2.0 */
/* re_impl - the tree of an expression, shared by its parser and its printer. */
#ifndef COVE_SCAN_RE_IMPL_H
#define COVE_SCAN_RE_IMPL_H

#include "base/buf.h"
#include "scan/re.h"

#define RUNE_MAX 0x10ffffu

/* A set of code points: sorted, apart from each other once re_set_tidy() ran. */
struct re_range {
	uint32_t lo, hi;
};

struct re_set {
	struct re_range *r;
	size_t n, cap;
};

enum re_type {
	RE_EMPTY,
	RE_SET,
	RE_CAT,
	RE_ALT,
	RE_REPEAT,
	RE_GROUP, /* captures */
	RE_TEXT_START,
	RE_TEXT_END,
	RE_LINE_START,
	RE_LINE_END,
	RE_WORD,
	RE_NOT_WORD,
};

struct re_node {
	enum re_type type;
	bool lazy;
	struct re_set set;
	uint32_t min, max;            /* RE_REPEAT; max RE_UNBOUNDED */
	struct re_node *first, *next; /* children and siblings */
};

int re_set_add(struct pool *pool, struct re_set *s, uint32_t lo, uint32_t hi);
int re_set_fold(struct pool *pool, struct re_set *s); /* adds the other case */
void re_set_tidy(struct re_set *s);
int re_set_invert(struct pool *pool, struct re_set *s); /* of a tidy set */
bool re_set_has(const struct re_set *s, uint32_t c);
/* 'd', 's', 'w'; returns -EINVAL for another letter. */
int re_set_perl(struct pool *pool, struct re_set *s, char letter);
/* The name between [: and :], or behind \p. */
int re_set_posix(struct pool *pool, struct re_set *s, const char *name, size_t len);
int re_set_unicode(struct pool *pool, struct re_set *s, const char *name, size_t len);

/* The set as an expression on bytes. loose: the superset for Hyperscan. */
int re_set_print(struct buf *out, const struct re_set *s, bool loose);
bool re_set_wide(const struct re_set *s);     /* has code points beyond ASCII */
bool re_set_all_wide(const struct re_set *s); /* has all of them */

int re_parse(struct re_node **ret, uint32_t *ret_groups, struct pool *pool,
	     const char *text, size_t len, struct cove_error *err);
void re_width(const struct re_node *n, uint32_t *min, uint32_t *max); /* in bytes */

#endif
