/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clone - a new sandbox with the spec and files of another, or of one of its snapshots.
 *
 * What a mount holds follows the mount: to the one with the same target in the new spec,
 * whatever lies below it there. Volumes are shared, not copied; snapshots and the audit
 * log stay with the original.
 */
#ifndef COVE_CORE_CLONE_H
#define COVE_CORE_CLONE_H

#include "core/cut.h"

/* From a cut, released by this. changes may be NULL. */
int clone_make(struct cut *c, const char *new_name, const struct spec *changes,
	       struct cove_error *err);

/* ---- shared with the import of archives ------------------------------------------ */

/* Which layer of the old spec each mount of the new one takes over: numbers, -1 for none.
 * `to` gets these numbers, and unused ones for the rest. pair: a single overlay that is
 * left over on each side belongs together too. */
void layers_match(const struct spec *from, struct spec *to, int *ret_layer, bool pair);
/* Refuses to leave out a layer that holds changes. files: where the units are. */
int layers_check_dropped(const struct spec *from, const struct spec *to, const int *layer,
			 int files, struct cove_error *err);
/* spec with changes merged in and everything resolved; checks that the name is free. */
int clone_spec(struct store *st, const struct spec *from, const char *new_name,
	       const struct spec *changes, struct spec *ret, struct cove_error *err);

#endif
