/* SPDX-License-Identifier: Apache-2.0 */
/* apply_impl - what the files of an apply share. */
#ifndef COVE_WORK_APPLY_IMPL_H
#define COVE_WORK_APPLY_IMPL_H

#include "work/apply.h"
#include "work/conflict.h"

#define DIR_PREP "apply.prep"
#define DIR_GO "apply.go"
#define DIR_DONE "apply.done"
#define DIR_UNDO "undo"
#define DIR_UNDO_GO "undo.go"
#define DIR_UNDO_DONE "undo.done"
#define DIR_UNDO_OLD "undo.old"
#define JOURNAL_FILE "journal"
#define UNDO_LEVELS 20

/* One change on its way; same index as in the list of changes. */
struct item {
	bool take;
	bool whole;  /* all of it, not only some hunks */
	bool staged; /* stage/INDEX holds it */
	enum verdict verdict;
	struct ident now;    /* the host's path when it was compared */
	struct ident landed; /* what lies in the stage, or what a directory becomes */
};

struct apply {
	const struct work *w;
	const struct cove_apply_options *o;
	struct cove_apply_result *r;
	struct changes changes;
	struct item *items;
	struct journal j;
	struct landing landing;
	bool no_reflink;
	uint64_t max_file; /* larger ones are not staged: the gate refuses them by size */
};

/* stage.c */
void stage_dir_name(int record, char out[32]);
/* Makes the stage of a layer if it is not there. */
int stage_make(struct landing *l, size_t layer, struct cove_error *err);
/* Copies the upper file or symlink of change i into the stage. */
int stage_change(struct apply *a, size_t i, struct cove_error *err);
/* Replaces the staged content of change i. */
int stage_content(struct apply *a, size_t i, const void *data, size_t n,
		  struct cove_error *err);
int stage_open_staged(const struct apply *a, size_t i); /* O_RDONLY, -errno */
int stage_sync(struct apply *a, struct cove_error *err);
/* Removes the stages of a journal's layers. */
int stage_remove(const struct journal *j, struct cove_error *err);

/* choose.c: which changes, and which hunks of them. */
int choose_changes(struct apply *a, struct cove_error *err);
/* What must come along (parents) or cannot go without (children). */
void choose_close(struct apply *a);

/* steps.c */
int steps_build(struct apply *a, struct cove_error *err);

/* finish.c: after apply.go became apply.done. */
int finish_apply(const struct work *w, const struct journal *j, struct cove_error *err);
/* Moves stages into record/DIR/Lk, and back. */
int stage_store(int record, const char *dir, const struct journal *j,
		struct cove_error *err);
int stage_fetch(int record, const char *dir, const struct journal *j,
		struct cove_error *err);

/* The newest level of undo (0: none), and its directory. */
unsigned undo_last(int record);
void undo_path(char out[32], unsigned level);

int journal_load(int record, const char *dir, struct journal *ret,
		 struct cove_error *err);
/* One rename in the record, made to last. */
int phase(int record, const char *from, const char *to, struct cove_error *err);

/* undo.c */
/* ops: NULL unless it is completed after it was cut off. */
int undo_go(const struct work *w, const struct recover_ops *ops, struct cove_error *err);
int undo_finish(const struct work *w, struct cove_error *err);
/* After an apply was taken back: the host's files are what the sandbox worked on, though
 * the kernel dates them anew. What the host changed meanwhile is not, and changed (may be
 * NULL) is told. */
int undo_note_back(const struct work *w, const struct journal *j,
		   void (*changed)(void *arg, const struct step *s), void *arg,
		   struct cove_error *err);

/* rebase.c */
/* Lets go of one applied path of a stopped layer; what cannot go stays, and the ledger
 * remembers it as applied. */
int rebase_paths(const struct layer *l, struct ledger *g, const struct step *const *steps,
		 size_t n, struct cove_error *err);
bool upper_is_opaque(int dir);

#endif
