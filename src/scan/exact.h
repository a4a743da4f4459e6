/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exact - the sandbox's own secrets, by value.
 *
 * Each value is looked for as it is, in base64 (at each of the three alignments, both
 * alphabets), in hex, URL-encoded and JSON-escaped. A second pass looks at letters and
 * digits only, in the values and in the text: that finds a value that is spread over
 * lines, comments or joined string literals.
 *
 * A value of fewer than EXACT_MIN bytes is not looked for (every text has it somewhere),
 * encoded forms need EXACT_ENCODED_MIN, the second pass EXACT_SPREAD_MIN characters.
 */
#ifndef COVE_SCAN_EXACT_H
#define COVE_SCAN_EXACT_H

#include <stdbool.h>
#include <stddef.h>

#define EXACT_MIN 4
#define EXACT_ENCODED_MIN 6
#define EXACT_SPREAD_MIN 12
#define EXACT_MAX_VALUES 256
#define EXACT_MAX_LEN 65536

struct exact;

struct exact_hit {
	size_t value;      /* which one */
	const char *form;  /* "as it is", "base64" ... */
	size_t start, end; /* in the text */
};

/* 0, -ENOMEM, -E2BIG (too many, or one is too long). *ret is NULL if there is nothing. */
int exact_new(struct exact **ret, const char *const *values, const size_t *lens,
	      size_t n);
int exact_find(struct exact *e, const char *text, size_t len,
	       void (*fn)(void *arg, const struct exact_hit *hit),
	       void *arg); /* or -ENOMEM */
void exact_free(struct exact *e);

#endif
