/* SPDX-License-Identifier: Apache-2.0 */
/*
 * diff - how changes are shown: as text in the form of git, as a table of lines added and
 * removed, as JSON. Names and contents come from the sandbox: in names whatever could
 * drive a terminal is quoted always, in contents when a terminal reads them.
 */
#ifndef COVE_CLI_DIFF_H
#define COVE_CLI_DIFF_H

#include "cli/cli.h"

#include <jansson.h>
#include <stdio.h>

struct diff_style {
	bool terminal; /* a person reads it: contents are escaped */
	bool colour;
};

/* prefix and path, put in double quotes with C escapes if the name needs it. Allocated.
 */
char *diff_quote(const char *prefix, const char *path);

/* "diff --git" and all that follows for one change, made with COVE_DIFF_TEXT. */
void diff_put_change(FILE *f, const struct cove_change *c,
		     const struct diff_style *style);
/* Only hunks of it. */
void diff_put_text(FILE *f, const char *text, size_t n, const struct diff_style *style);

struct diff_stat; /* rows, printed together since their widths depend on each other */
struct diff_stat *diff_stat_new(void);
void diff_stat_free(struct diff_stat *s);
int diff_stat_add(struct diff_stat *s, const struct cove_change *c); /* -1: no memory */
void diff_stat_print(FILE *f, const struct diff_stat *s, const struct diff_style *style);

json_t *diff_json(const struct cove_change *c); /* NULL: out of memory */

#endif
