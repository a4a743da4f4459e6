/* SPDX-License-Identifier: Apache-2.0 */
/* state - the files of a sandbox, running or not, for the calls that copy them. */
#ifndef COVE_API_STATE_H
#define COVE_API_STATE_H

#include "core/cut.h"

/* Cleared with cut_clear(), after success only. */
int open_cut(struct cut *c, struct store *st, const char *name, struct cove_error *err);

/* Starts a stopped sandbox from the memory of a snapshot of `from`. */
int start_from_memory(struct store *st, const char *name, const char *from,
		      const char *tag, struct cove_error *err);

#endif
