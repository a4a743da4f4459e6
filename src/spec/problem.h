/* SPDX-License-Identifier: Apache-2.0 */
/*
 * problem - everything that is wrong with a file, collected first and reported together.
 */
#ifndef COVE_SPEC_PROBLEM_H
#define COVE_SPEC_PROBLEM_H

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

#define PROBLEMS_MAX 100 /* lines kept; more are only counted */
#define SHOWN_MAX 84     /* room for a quoted piece of the file */

struct problems {
	const char *file; /* NULL: not from a file, lines are left out */
	struct problem {
		unsigned line;
		char *text;
	} * v;
	size_t n, more;
	bool nomem;
};

void problem_add(struct problems *p, unsigned line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Appends all of them to out (may be NULL) by line. 0 if there was none; else err holds
 * the first and how many more there are, and the code is returned. */
int problems_report(struct problems *p, struct buf *out, struct cove_error *err);
void problems_clear(struct problems *p);
#define cleanup_problems __attribute__((cleanup(problems_clear)))

/* text for use inside quotes in a message: one line, no control character, cut when long.
 */
const char *shown(char out[SHOWN_MAX], const char *text);

/* The candidate nearest to word, or NULL if none is near enough to be what was meant.
 * Feed candidates one by one into a struct nearest that starts as {.word = word}. */
struct nearest {
	const char *word, *best;
	size_t distance;
};
void nearest_try(struct nearest *n, const char *candidate);

#endif
