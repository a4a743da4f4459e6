/* SPDX-License-Identifier: Apache-2.0 */
/* review - what apply and undo report, as lines or as one JSON document. */
#ifndef COVE_CLI_REVIEW_H
#define COVE_CLI_REVIEW_H

#include "cli/cli.h"

#include <jansson.h>

struct review {
	const char *verb;
	bool json, quiet, silent; /* silent: nothing is printed, only counted */
	json_t *changes, *findings, *conflicts; /* with json */
	uint64_t n_changes;
	struct cove_apply_options options; /* its callbacks fill this review */
};

void review_init(struct review *r, const struct args *a);
void review_clear(struct review *r);
/* Ends a run: prints the JSON document or the error; the exit code. */
int review_end(struct review *r, int e, const struct cove_apply_result *res,
	       const struct cove_error *err);

int review_code(int e); /* the exit code for a result of apply or undo */

/* `-i`: a choose callback that asks on the terminal. */
int review_choose(void *arg, const struct cove_change *c, int32_t hunk, const char *text,
		  size_t n);

/* 'A', 'M', 'D', 'R', 'T', 'm' */
char change_letter(uint32_t kind);

#endif
