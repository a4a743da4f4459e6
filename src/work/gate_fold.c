/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate_fold - a key under which two names are equal if some file system takes them for
 * one: README and readme, an e with an accent in one character or in two.
 *
 * File systems differ in how far they go, so the key goes as far as any of them: full
 * case folding, canonical decomposition in canonical order, ignorable characters left
 * out. Bytes that are not UTF-8 stand for themselves.
 */
#include "work/gate_fold_class.h"
#include "work/gate_fold_many.h"
#include "work/gate_fold_one.h"
#include "work/gate_impl.h"

#include "base/util.h"

#define FOLD_RUN 4        /* numbers in a row of fold_runs */
#define FOLD_CLASS 3      /* of fold_classes */
#define RAW_BYTE 0x110000 /* above every character */

#define HANGUL_FIRST 0xac00
#define HANGUL_LAST 0xd7a3
#define HANGUL_L 0x1100
#define HANGUL_V 0x1161
#define HANGUL_T 0x11a7
#define HANGUL_N_V 21
#define HANGUL_N_T 28

/* The row of a table of rows {first, last, ...} that holds c, or NULL. */
#define FIND_ROW(type, table, width, c) \
	__extension__({ \
		size_t lo_ = 0, hi_ = ARRAY_LEN(table) / (width); \
		const type *row_ = NULL; \
		while (lo_ < hi_ && !row_) { \
			size_t mid_ = lo_ + (hi_ - lo_) / 2; \
			const type *at_ = table + mid_ * (width); \
			if ((type)(c) < at_[0]) \
				hi_ = mid_; \
			else if ((type)(c) > at_[1]) \
				lo_ = mid_ + 1; \
			else \
				row_ = at_; \
		} \
		row_; \
	})

static unsigned combining_class(uint32_t c)
{
	const uint32_t *row = c < fold_classes[0]
				      ? NULL
				      : FIND_ROW(uint32_t, fold_classes, FOLD_CLASS, c);

	return row ? row[2] : 0;
}

bool utf8_hidden(uint32_t c)
{
	return FIND_ROW(uint32_t, fold_hidden, 2, c) != NULL;
}

/* ---- the folded characters of a name -------------------------------------------- */

struct text {
	uint32_t *v;
	size_t n, max; /* enough for the longest expansion */
};

static void put(struct text *t, uint32_t c)
{
	size_t at = t->n;
	unsigned class = combining_class(c);

	if (t->n == t->max) /* cannot be: see FOLD_GROWTH */
		return;
	/* Canonical order: a mark goes before marks of a higher class. */
	while (class && at > 0 && combining_class(t->v[at - 1]) > class)
		at--;
	memmove(t->v + at + 1, t->v + at, (t->n - at) * sizeof(*t->v));
	t->v[at] = c;
	t->n++;
}

static void put_hangul(struct text *t, uint32_t c)
{
	uint32_t i = c - HANGUL_FIRST;

	put(t, HANGUL_L + i / (HANGUL_N_V * HANGUL_N_T));
	put(t, HANGUL_V + i % (HANGUL_N_V * HANGUL_N_T) / HANGUL_N_T);
	if (i % HANGUL_N_T)
		put(t, HANGUL_T + i % HANGUL_N_T);
}

static bool put_several(struct text *t, uint32_t c)
{
	size_t lo = 0, hi = ARRAY_LEN(fold_from);

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (fold_from[mid] < c)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == ARRAY_LEN(fold_from) || fold_from[lo] != c)
		return false;
	for (size_t i = fold_at[lo]; i < fold_at[lo + 1]; i++)
		put(t, fold_pool[i]);
	return true;
}

static void put_folded(struct text *t, uint32_t c)
{
	const int32_t *run;

	if (c >= HANGUL_FIRST && c <= HANGUL_LAST) {
		put_hangul(t, c);
		return;
	}
	if (FIND_ROW(uint32_t, fold_ignored, 2, c) || put_several(t, c))
		return;
	run = FIND_ROW(int32_t, fold_runs, FOLD_RUN, c);
	if (run && ((int32_t)c - run[0]) % run[2] == 0)
		c = (uint32_t)((int32_t)c + run[3]);
	put(t, c);
}

/* ---- as bytes ------------------------------------------------------------------- */

static size_t encode(char out[5], uint32_t c)
{
	if (c >= RAW_BYTE) { /* 0xff is in no UTF-8 */
		out[0] = (char)0xff;
		out[1] = (char)(c - RAW_BYTE);
		return 2;
	}
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

static bool fold_ascii(char *out, const char *name, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if ((unsigned char)name[i] >= 0x80)
			return false;
		out[i] =
			name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] + 32) : name[i];
	}
	return true;
}

#define FOLD_GROWTH 4 /* characters from one byte, at the very most */

int gate_fold(struct buf *out, const char *name, size_t n)
{
	const unsigned char *p = (const unsigned char *)name, *end = p + n;
	cleanup_free uint32_t *v = NULL;
	struct text t = {0};
	char c4[5];
	int r = buf_reserve(out, n + 1);

	if (r < 0)
		return r;
	if (fold_ascii(out->data + out->len, name, n)) {
		out->len += n;
		out->data[out->len] = '\0';
		return 0;
	}
	out->data[out->len] = '\0'; /* even if nothing is left of the name */
	v = calloc(n + 1, FOLD_GROWTH * sizeof(*v));
	if (!v)
		return -ENOMEM;
	t = (struct text){v, 0, (n + 1) * FOLD_GROWTH};
	while (p < end) {
		int32_t c = utf8_next(&p, end);

		if (c < 0)
			put(&t, RAW_BYTE + p[-1]);
		else
			put_folded(&t, (uint32_t)c);
	}
	for (size_t i = 0; r == 0 && i < t.n; i++)
		r = buf_append(out, c4, encode(c4, t.v[i]));
	return r;
}
