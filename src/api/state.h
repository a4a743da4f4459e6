/* SPDX-License-Identifier: Apache-2.0 */
/* state - the files of a sandbox, running or not, for the calls that copy them. */
#ifndef COVE_API_STATE_H
#define COVE_API_STATE_H

#include "core/cut.h"

/* Cleared with cut_clear(), after success only. */
int open_cut(struct cut *c, struct store *st, const char *name, struct cove_error *err);

/* Starts a stopped sandbox that goes on from there. */
struct keeper_from;
int start_from(struct store *st, const char *name, const struct keeper_from *from,
	       struct cove_error *err);

/* Of one that runs, with its memory, for the caller alone. */
struct memory_keep;
int snapshot_for_forks(struct store *st, const char *name, const char *tag,
		       struct memory_keep *keep, struct cove_error *err);

#endif
