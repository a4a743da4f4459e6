/* SPDX-License-Identifier: Apache-2.0 */
/* state - the files of a sandbox, running or not, for the calls that copy them. */
#ifndef COVE_API_STATE_H
#define COVE_API_STATE_H

#include "core/cut.h"

/* Cleared with cut_clear(), after success only. */
int open_cut(struct cut *c, struct store *st, const char *name, struct cove_error *err);

#endif
