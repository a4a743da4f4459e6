/* SPDX-License-Identifier: Apache-2.0 */
/* change_impl - what the files of the change list share. */
#ifndef COVE_WORK_CHANGE_IMPL_H
#define COVE_WORK_CHANGE_IMPL_H

#include "work/change.h"
#include "work/walk.h"

void change_clear(struct change *c);
int changes_by_path(const void *a, const void *b); /* struct change; layer, then path */

/* Compares what the walk found. 1: *ret is a change, without layer and path; 0: it is
 * none; -errno. */
int change_look(struct change *ret, const struct walk_entry *e, const struct ledger *g);

/* Turns deletions and additions that belong together into renames; the list is sorted
 * before and after. */
int changes_find_renames(struct changes *c, const struct layers *l);

/* Which paths are asked for. */
struct selection {
	const struct layers *layers;
	const char *const *paths; /* NULL: all */
	bool *hit;                /* one a pattern: it named a change */
};
int selection_init(struct selection *s, const struct layers *l, const char *const *paths);
void selection_clear(struct selection *s);
bool selection_has(struct selection *s, size_t layer, const char *path);
/* Fails if there is a pattern that names nothing. */
int selection_check(const struct selection *s, struct cove_error *err);

#endif
