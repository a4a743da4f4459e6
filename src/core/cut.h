/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cut - the files of a sandbox at one moment, for whoever copies them: a stopped sandbox
 * is kept from starting, a running one is held still by its keeper, a snapshot is kept
 * from being removed.
 *
 * What is copied are units: directories of the record that hold what the sandbox wrote.
 *
 *	mN	a mount: upper/, ledger, blobs/ (overlay) or copy, copied (copy)
 *	home, root, mask
 *
 * and, next to them, the volumes that the spec mounts.
 */
#ifndef COVE_CORE_CUT_H
#define COVE_CORE_CUT_H

#include "core/session.h"
#include "core/store.h"
#include "core/volume.h"
#include "os/copytree.h"

struct cut {
	struct store *store; /* borrowed */
	char name[SPEC_NAME_MAX + 1];
	struct spec spec;
	int record;    /* directory of the sandbox */
	int files;     /* where the units are: the record, or one of its snapshots */
	int work_lock; /* record/work.lock */
	int run_lock;  /* of a stopped sandbox */
	struct volume_locks volumes; /* of it, for whoever copies them */
	struct session *keeper;      /* of a running one: holds it still */
	bool memory;                 /* ... such that its memory can be saved */
	struct memory_keep *keep;    /* ... and only be read by us; or NULL */
	int64_t renew_at;
	struct cove_error broken; /* why the cut is worth nothing; code 0: it holds */
};

/* keeper: a connection to the keeper of a running sandbox (taken), or -1 for a stopped
 * one. COVE_ESTATE: it is not stopped after all. Undone by cut_clear() in every case. */
int cut_open(struct cut *c, struct store *st, const char *name, int *keeper,
	     struct cove_error *err);
/* The same of one that runs, quiet enough for its memory to be saved. */
int cut_open_memory(struct cut *c, struct store *st, const char *name, int *keeper,
		    struct cove_error *err);
/* A snapshot: neither state matters. */
int cut_open_snapshot(struct cut *c, struct store *st, const char *name, const char *tag,
		      struct cove_error *err);
/* To be called now and then, for copytree: keeps a running sandbox still. */
int cut_tick(void *arg);
/* Ends the hold. An error means that the sandbox ran meanwhile: the copy is worthless. */
int cut_release(struct cut *c, struct cove_error *err);
void cut_clear(struct cut *c);

bool cut_is_unit(const char *name);
/* The part of a unit of which only the directory is copied; NULL: none. */
const char *cut_hollow(const char *unit);

/* Copies the units and volumes/ of `from` (open directories) to `to`. */
int cut_copy_unit(struct copytree *t, int from, const char *unit, int to, const char *as,
		  struct cove_error *err);
int cut_copy_units(struct copytree *t, int from, int to, struct cove_error *err);
/* Calls fn for each unit in dir, sorted. */
int cut_each_unit(int dir, int (*fn)(void *arg, const char *unit, struct cove_error *err),
		  void *arg, struct cove_error *err);
/* Where volume V of this cut is: an open directory, or -errno (-ENOENT: it has none). */
int cut_open_volume(const struct cut *c, const char *volume);
/* Names of the volumes of a spec, each once; borrowed. Returns how many. */
size_t spec_volumes(const struct spec *s, const char *names[SPEC_LIST_MAX]);

/* Opens the record of a sandbox: a descriptor, or a negative code. */
int record_open(struct store *st, const char *name, struct cove_error *err);

#endif
