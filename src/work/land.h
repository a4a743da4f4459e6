/* SPDX-License-Identifier: Apache-2.0 */
/*
 * land - carries out a journal on the host, in either direction.
 *
 * Theory of operation
 *
 * What is to land lies complete in a stage: a directory SOURCE/.cove-stage-X on the file
 * system of the project. Every step is one rename, mkdir, rmdir or chmod, and moves a
 *path from its state before to its state after; the old files end up in the stage. The
 *same steps backwards take it all back. A step looks first in which state its path is, so
 * running a journal again, after a crash, does what is left and nothing twice.
 *
 * The directory that holds the journal says what is going on, and changes its name by one
 * rename each time:
 *
 *	record/apply.prep	being staged: nothing on the host was touched; dropped
 *	record/apply.go		forward; if the host is in the way, back
 *	record/apply.done	the host is done; the upper layer and ledger follow
 *	record/undo/NNNN	finished; its stage is kept in it for undo
 *	record/undo.go		backward; if the host is in the way, forward again
 *	record/undo.done	the host is done; the sandbox gets its changes back
 *
 * Invariants
 *  1. Nothing on the host is touched before the journal and the stage are on disk.
 *  2. A path is only moved if it is what the journal says; what somebody else put there
 *is never overwritten or removed.
 *  3. The sandbox's version of a change leaves its upper layer only after the host's is
 *on disk.
 */
#ifndef COVE_WORK_LAND_H
#define COVE_WORK_LAND_H

#include "work/journal.h"

struct land_site {
	int lower, stage; /* stage -1: there is none */
};

struct landing {
	const struct journal *j;
	struct land_site *sites; /* one for each of the journal's layers */
	bool fresh;              /* also check that what is replaced is what was judged */
	bool copied; /* that may be a copy by now, with another inode number */
	/* Not NULL: what somebody changed stays as it is and is told here, instead of
	 * ending the run. 0, or a negative COVE_E* that ends it all the same. */
	int (*left)(void *arg, const struct step *s, struct cove_error *err);
	void *left_arg;
	/* the last parent used: neighbours share it */
	int parent;
	size_t parent_layer;
	char *parent_path;
};

/* Opens the sources, and their stages if they exist. */
int landing_open(struct landing *l, const struct journal *j, struct cove_error *err);
void landing_close(struct landing *l);

/* All steps forward or backward. COVE_ECONFLICT: a path is in neither of its two states;
 * the steps until there are done. */
int landing_run(struct landing *l, bool forward, struct cove_error *err);

/* Calls fn for each step that is not in the state after (what undo may not touch). */
int landing_check_done(struct landing *l,
		       void (*fn)(void *arg, const struct step *s, const char *why),
		       void *arg, size_t *ret_bad, struct cove_error *err);

/* The same for each directory that was made and holds what no step put there; adds to
 * *ret_bad. */
int landing_check_foreign(const struct landing *l,
			  void (*fn)(void *arg, const struct step *s, const char *why),
			  void *arg, size_t *ret_bad, struct cove_error *err);

/* Makes what the steps did last: syncs the directories, or the whole file system. */
int landing_sync(struct landing *l, struct cove_error *err);

/* "17": the name of a step's file in the stage. */
void stage_name(char out[16], uint32_t n);

#endif
