/* SPDX-License-Identifier: Apache-2.0 */
/* lines - a text cut into lines, and equal lines of two texts given the same number. */
#ifndef COVE_TEXT_LINES_H
#define COVE_TEXT_LINES_H

#include "base/util.h"
#include "text/diff.h"

struct lines {
	const char *data;
	uint32_t *at; /* n + 1 offsets: line i is [at[i], at[i + 1]), its '\n' included */
	uint32_t n;
};

int lines_split(struct lines *ret, struct text t); /* 0, -ENOMEM, -EFBIG */
void lines_clear(struct lines *l);

static inline struct text lines_range(const struct lines *l, uint32_t at, uint32_t n)
{
	return (struct text){l->data + l->at[at], l->at[at + n] - l->at[at]};
}

static inline struct text lines_get(const struct lines *l, uint32_t i)
{
	return lines_range(l, i, 1);
}

static inline bool text_equal(struct text a, struct text b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static inline bool lines_equal(const struct lines *a, uint32_t i, const struct lines *b,
			       uint32_t j)
{
	return text_equal(lines_get(a, i), lines_get(b, j));
}

/* How many lines both texts have in common at their start, and then at their end. */
void lines_trim(const struct lines *a, const struct lines *b, uint32_t *ret_head,
		uint32_t *ret_tail);

#define LINE_ALONE UINT32_MAX /* the other text has no such line */

/* Numbers the lines between head and tail: ret_a[i] == ret_b[j] exactly when line head +
 * i of a equals line head + j of b; a line that only one text has gets LINE_ALONE. */
int lines_number(const struct lines *a, const struct lines *b, uint32_t head,
		 uint32_t tail, uint32_t *ret_a, uint32_t *ret_b);

static inline void lines_clearp(struct lines *l)
{
	lines_clear(l);
}
#define cleanup_lines __attribute__((cleanup(lines_clearp)))

#endif
