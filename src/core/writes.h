/* SPDX-License-Identifier: Apache-2.0 */
/*
 * writes - which files of the workspace a command wrote, from the upper layers.
 *
 * What lies in an upper layer and has a change time of the command's beginning or later
 * was written meanwhile: by it, or by something else that ran inside then. A whiteout is
 * a deletion; what exists on the host below was changed; the rest was created, unless it
 * is older than the command. A file that was made and removed again leaves no trace, and
 * the kernel's clock for files has steps of a few milliseconds: what was written that
 * much earlier is counted as well rather than missed.
 *
 * Everything in an upper layer is the sandbox's: names are bytes, nothing is followed,
 * depth, number and time are bounded.
 */
#ifndef COVE_CORE_WRITES_H
#define COVE_CORE_WRITES_H

#include "backend/backend.h"

#define WRITES_ENTRIES_MAX 50000
#define WRITES_MS_MAX 200
#define WRITES_PATHS 50         /* names of each kind */
#define WRITES_PATHS_BYTES 6000 /* of each kind, together */

struct writes_budget {
	uint64_t entries;
	int64_t ms;
};

/* The clock that change times are taken from, in ns. */
int64_t writes_clock(void);

/* {"created":N,"changed":N,"deleted":N,"paths":{"created":[..],..}}, with "truncated"
 * when a bound was reached. NULL: out of memory. *ret_truncated may be NULL. */
json_t *writes_scan(const struct place_mount *m, size_t n, int64_t since_ns,
		    const struct writes_budget *budget, bool *ret_truncated);

#endif
