/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quarantine - where things go that appeared on the host at a place where they would be
 * run: record/quarantine/N-NAME, with a line of JSON for each in quarantine/list.jsonl.
 */
#ifndef COVE_CORE_QUARANTINE_H
#define COVE_CORE_QUARANTINE_H

#include "core/store.h"

/* Takes `name` out of the directory dir; root is a directory of the same file system
 * above it. path: the whole path on the host, for the reader. */
int quarantine_take(struct store *st, const char *box, int root, int dir,
		    const char *name, const char *path, const char *why);
/* Only says it: nothing is moved. */
void quarantine_note(struct store *st, const char *box, const char *path,
		     const char *why);

/* Every line of the list, as an array; NULL if there is none. */
json_t *quarantine_list(struct store *st, const char *box);
/* What was not told yet, a line each, and from now on it counts as told. NULL: nothing.
 */
char *quarantine_news(struct store *st, const char *box);
bool quarantine_any(struct store *st, const char *box);

#endif
