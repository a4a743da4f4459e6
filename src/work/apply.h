/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apply - changes of a sandbox land on the host, are taken back, or are dropped.
 *
 * Order of an apply: list, stage (copy) what is chosen, compare with what the host did
 * meanwhile, let the gate judge the staged copies, write the journal, land (land.h), then
 * let go of what landed in the upper layer (finish.c).
 */
#ifndef COVE_WORK_APPLY_H
#define COVE_WORK_APPLY_H

#include "work/gate.h"
#include "work/land.h"

struct work {
	const struct layers *layers;
	struct ledger **ledgers;
};

int work_apply(const struct work *w, const struct gate_config *gate,
	       const struct cove_apply_options *o, struct cove_apply_result *r,
	       struct cove_error *err);
int work_undo(const struct work *w, const struct cove_apply_options *o,
	      struct cove_apply_result *r, struct cove_error *err);
/* The sandbox is stopped. Returns how many changes were dropped; fn is told each that is
 * gone, also if a later one fails. */
int64_t work_discard(const struct work *w, const char *const *paths,
		     void (*fn)(void *arg, const struct cove_change *c), void *arg,
		     struct cove_error *err);

/* What to do with what the host changed after something was cut off. path: on the host,
 * whole; why: for the user. */
struct recover_ops {
	void *arg;
	/* Its file from before the apply, dir/name, would be lost: keeps it. root: a
	 * directory above, of the same file system. 0 or -errno. */
	int (*keep)(void *arg, int root, int dir, const char *name, const char *path,
		    const char *why);
	void (*note)(void *arg, const char *path, const char *why);
};

struct recovery {
	const char *event;  /* "apply" or "undo"; NULL: there was nothing to do */
	const char *result; /* "completed" or "taken back" */
};

/* Completes or takes back what was cut off, by what lies in the record. What the host
 * changed since stays as it is. Needs no ledger lock beyond the caller's; `layers` may be
 * those of a stopped sandbox only if its running lock is held. */
int work_recover(const struct work *w, const struct recover_ops *ops,
		 struct recovery *ret, struct cove_error *err);
/* Is there anything to recover? Cheap. */
bool work_interrupted(int record);

/* Takes out of the upper layers what the ledgers know as applied; stopped only. */
int work_rebase(const struct work *w, struct cove_error *err);

#endif
