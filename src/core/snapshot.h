/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot - states of a sandbox, kept under tags.
 *
 *	record/snapshots/TAG/	meta.json, manifest, units as in the record, volumes/V;
 *				memory, memory.key (snapshot_memory.h)
 *	record/parent		the tag that the present state comes from
 *	record/restoring/	a restore that has been decided but is not complete
 *
 * Invariants
 *  1. A snapshot appears and disappears by one rename, and is on disk before it appears.
 *     Names in snapshots/ that start with '.' are half-made or half-removed; whoever
 *     holds work.lock may remove them.
 *  2. Files of a snapshot are never written: what did not change since its parent is the
 *     parent's file (a hard link). The record never shares a file with a snapshot.
 *  3. A restore is decided by the rename of the complete new state to restoring/. Before
 *     it nothing has changed; after it, restore_finish() only moves directories, and can
 *     be repeated at any point.
 */
#ifndef COVE_CORE_SNAPSHOT_H
#define COVE_CORE_SNAPSHOT_H

#include "core/cut.h"

#include <jansson.h>

#define SNAPSHOT_NOTE_MAX 1000 /* bytes of a description */

/* Could a snapshot of this tag be made? To ask before the sandbox is held still. */
int snapshot_check_new(struct store *st, const char *name, const char *tag,
		       struct cove_error *err);
/* c: a cut of the living sandbox, released by this. description may be NULL. */
int snapshot_take(struct cut *c, const char *tag, const char *description,
		  struct cove_error *err);
/* See cove_snapshots_json(); oldest first. */
int snapshot_list(struct store *st, const char *name, json_t **ret,
		  struct cove_error *err);
/* shred: the key of its memory first, so that no copy of it can be read either. */
int snapshot_remove(struct store *st, const char *name, const char *tag, bool shred,
		    struct cove_error *err);
/* c: a cut of the stopped sandbox. */
int snapshot_restore(struct cut *c, const char *tag, struct cove_error *err);

/* Completes a restore that was cut off; nothing to do is the usual, cheap case. The
 * caller holds work.lock, and the sandbox does not run. */
int snapshot_recover(struct store *st, const char *name, struct cove_error *err);

#endif
