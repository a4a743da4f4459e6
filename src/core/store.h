/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store - sandboxes on disk, and who is running.
 *
 *	HOME/sandboxes/NAME/	spec.json, log, home/, root/, mask/, quarantine/,
 *				mN/{upper,work,copy}
 *	HOME/cache/		shared, can be made again
 *	HOME/audit/NAME-TIME/	of removed sandboxes: their logs,
 *	HOME/quarantine/NAME-TIME/	and what was in their quarantines
 *	RUN/NAME/		lock, s (the control socket), cgroup, spec.json
 *(one-shots)
 *
 * Invariants
 *  1. A sandbox runs if and only if somebody holds the flock of RUN/NAME/lock. The kernel
 *     drops it with the holder, whatever kills that, so `ls` cannot lie after a crash.
 *  2. A directory below sandboxes/ appears and disappears by one rename: names that start
 *     with '.' are half-made or half-removed and are swept by the next command.
 *  3. spec.json is replaced by write-temp, fsync, rename, under the lock.
 *  4. A one-shot has no spec.json below sandboxes/ until it is kept; its RUN copy is
 *moved there by whoever finds changes in its upper layers and its lock free.
 */
#ifndef COVE_CORE_STORE_H
#define COVE_CORE_STORE_H

#include "base/error.h"
#include "spec/spec.h"

#include <stdbool.h>

struct store {
	char *home, *run; /* absolute paths */
	char *cache;
	char *kernels;     /* of machines; made when one is installed */
	int boxes, run_fd; /* directories */
};

int store_open(struct store *s, struct cove_error *err);
void store_close(struct store *s);

/* Sweeps what crashed holders left: cgroups, RUN directories, half-made directories. */
void store_sweep(struct store *s);

/* Takes the running lock of NAME. COVE_ESTATE if it is held. */
int store_lock(struct store *s, const char *name, int *ret_lock, struct cove_error *err);
/* Is fd the lock file that has the name now? One that was unlinked locks nothing. */
bool store_lock_counts(struct store *s, const char *name, int fd);
/* Is it held? (1, 0) */
bool store_is_running(struct store *s, const char *name);
/* A pidfd of the process that holds the lock, or -ESRCH. */
int store_holder(struct store *s, const char *name);
/* Removes RUN/NAME; the caller holds the lock. */
void store_clear_run(struct store *s, const char *name);

int store_create(struct store *s, const char *name, const struct spec *spec,
		 struct cove_error *err);
bool store_exists(struct store *s, const char *name);
/* COVE_ENOENT with the nearest name as hint, COVE_EDAMAGED with the file's problem. */
int store_load(struct store *s, const char *name, struct spec *ret,
	       struct cove_error *err);
int store_save(struct store *s, const char *name, const struct spec *spec,
	       struct cove_error *err);
/* Removes the record with all data, except what is in its quarantine (quarantine.h); the
 * caller holds the lock or knows it is unused. */
int store_remove(struct store *s, const char *name, struct cove_error *err);
/* Empties upper layers, home and log. */
int store_reset(struct store *s, const char *name, struct cove_error *err);

/* Calls fn for each sandbox, sorted by name. */
int store_each(struct store *s, int (*fn)(void *arg, const char *name), void *arg,
	       struct cove_error *err);

/* Absolute path of a file in the record (which: "log", "home" ...) or in RUN. */
int store_path(const struct store *s, const char *name, const char *which, char *out,
	       size_t size);
int store_run_path(const struct store *s, const char *name, const char *which, char *out,
		   size_t size);

/* How many paths the upper layers of a record hold (0 when it has none). Stops at max. */
uint64_t store_count_changes(struct store *s, const char *name, uint64_t max);
/* The same for the layer mN alone. */
uint64_t store_count_layer(struct store *s, const char *name, int layer, uint64_t max);

/* A one-shot's record directory: the spare that an earlier one left, or a new one. -1 and
 * errno on failure. */
int store_claim(struct store *s, const char *name);

/* A one-shot's record: keep it under its name if it holds changes; else make it the
 * spare, or remove it all. */
int store_settle(struct store *s, const char *name, uint64_t *ret_changes,
		 struct cove_error *err);

#endif
