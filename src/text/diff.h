/* SPDX-License-Identifier: Apache-2.0 */
/*
 * diff - the line difference of two texts, and what is made of it: unified output, and
 * the old text with only some of the changes applied.
 *
 * Pure: no system call, no log, no state. The texts come from inside a sandbox, so time
 * and memory are bounded for any bytes: memory by the number of lines, time by a cost
 * limit after which a difference is still correct but may be longer than the shortest
 * one.
 *
 * A line ends after its '\n'; the last one may lack it, and then differs from the same
 * line with it. '\r' is a byte like any other. An empty text has no lines.
 */
#ifndef COVE_TEXT_DIFF_H
#define COVE_TEXT_DIFF_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEXT_MAX_BYTES ((size_t)1 << 31)
#define TEXT_MAX_LINES ((size_t)1 << 24)

struct text {
	const char *data; /* borrowed; may be NULL when len is 0 */
	size_t len;
};

/* One change: old lines [old_at, old_at + old_n) became new lines [new_at, new_at +
 * new_n). Lines count from 0; no context is included; at least one of old_n and new_n is
 * not 0. */
struct text_hunk {
	uint32_t old_at, old_n, new_at, new_n;
};

/* All changes, ascending, with at least one equal line between two of them. */
struct text_diff {
	struct text_hunk *v;
	size_t n;
	uint32_t added, removed; /* lines, over all changes */
};

/* A NUL byte in the first 8000 bytes, as git has it. */
bool text_is_binary(struct text t);

/* 0, -ENOMEM, or -EFBIG when a text is larger than TEXT_MAX_*. The result is the caller's
 * (text_diff_clear); it is untouched on failure. */
int text_diff(struct text_diff *ret, struct text old, struct text new);
void text_diff_clear(struct text_diff *d);

/*
 * Unified hunks: changes closer than two contexts share one group. text_groups() returns
 * how many groups there are and stores the index (into d->v) of the first change of each
 * of the first `max`; group i covers the changes from its first to that of group i + 1.
 */
size_t text_groups(const struct text_diff *d, uint32_t context, size_t *ret_first,
		   size_t max);

/* Appends the "@@ -a,b +c,d @@ heading" blocks, without a file header; 0, -ENOMEM,
 * -ENOBUFS (then out holds a part), -EFBIG, or -EINVAL for a diff that is not of these
 * two texts or a group that does not exist. */
int text_unified(struct buf *out, struct text old, struct text new,
		 const struct text_diff *d, uint32_t context);
int text_unified_group(struct buf *out, struct text old, struct text new,
		       const struct text_diff *d, uint32_t context, size_t group);

/* Appends old with only the changes d->v[i] applied for which take[i] is true; errors as
 * for text_unified(). */
int text_pick(struct buf *out, struct text old, struct text new,
	      const struct text_diff *d, const bool *take);

static inline void text_diff_clearp(struct text_diff *d)
{
	text_diff_clear(d);
}
#define cleanup_text_diff __attribute__((cleanup(text_diff_clearp)))

#endif
