/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copymount - mounts of mode copy: a file or directory of the host, copied at the first
 * start into record/mN/copy, and the sandbox's own from then on.
 */
#ifndef COVE_CORE_COPYMOUNT_H
#define COVE_CORE_COPYMOUNT_H

#include "base/error.h"

/* Makes record/NAME/copy unless it is there. What is cut off is made anew. */
int copymount_make(int record, const char *name, const char *source,
		   struct cove_error *err);

/* How many paths of it changed since it was made, up to max; 0 if there is none. */
uint64_t copymount_changes(int record, const char *name, uint64_t max);

#endif
