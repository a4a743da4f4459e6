/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workspace - the overlay mounts of a sandbox, opened for diff, apply, undo and discard,
 * by one process at a time.
 *
 * Opening takes the lock record/work.lock (waiting for it: others hold it for moments),
 * completes or takes back what was cut off, and lets the ledgers notice what is new.
 * HOME/pending/NAME marks a sandbox on which something is under way, so that any later
 * command finds it at the price of one look.
 */
#ifndef COVE_CORE_WORKSPACE_H
#define COVE_CORE_WORKSPACE_H

#include "core/store.h"
#include "work/change.h"

struct workspace {
	struct store *store; /* borrowed */
	char name[SPEC_NAME_MAX + 1];
	struct spec spec;
	struct layers layers;
	struct ledger **ledgers; /* one a layer */
	int lock;                /* work.lock */
	int run_lock;            /* held while it must not be started; -1: not held */
	bool marked;
};

enum workspace_flags {
	WORKSPACE_WRITE = 1 << 0, /* apply, undo: a stopped one cannot start meanwhile */
	WORKSPACE_STOPPED = 1 << 1, /* discard: it must not run either */
};

int workspace_open(struct workspace *w, struct store *st, const char *name,
		   uint32_t flags, struct cove_error *err);
void workspace_close(struct workspace *w); /* saves the ledgers if they changed */

/* The lock alone: a descriptor, or a negative COVE_E*. */
int workspace_lock(int record, struct cove_error *err);
/* Marks the sandbox as one to look after, or takes the mark away. -errno. */
int workspace_mark(struct store *st, const char *name, bool on);

/* Lets the ledgers notice new changes; for the keeper, at the end of an exec and of the
 * sandbox. Quiet: what fails here is noticed again at the next opening. */
void workspace_capture(struct store *st, const char *name, const struct spec *spec);

/* Before a start, the running lock being held: completes or takes back what was cut off,
 * and takes out of the layers what the host has by now. */
int workspace_settle(struct store *st, const char *name, const struct spec *spec,
		     struct cove_error *err);

/* Looks after every marked sandbox that nobody works on. */
void workspace_sweep(struct store *st);

#endif
