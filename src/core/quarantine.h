/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quarantine - where things go that appeared on the host at a place where they would be
 * run: record/quarantine/N-NAME, with a line of JSON for each in quarantine/list.jsonl.
 * They may be the user's own work: when the sandbox is removed they are moved to
 * HOME/quarantine/NAME-TIME, and nothing ever deletes them there.
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
 * Of a removed sandbox: where its quarantine is. */
char *quarantine_news(struct store *st, const char *box);
bool quarantine_any(struct store *st, const char *box);
/* Before the record is removed: moves what is in its quarantine, if anything is. */
int quarantine_keep(struct store *st, const char *box, struct cove_error *err);

#endif
