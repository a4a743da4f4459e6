/* SPDX-License-Identifier: Apache-2.0 */
/* freeze_impl - what the files of freeze share. */
#ifndef COVE_OS_FREEZE_IMPL_H
#define COVE_OS_FREEZE_IMPL_H

#include "os/freeze.h"
#include "os/proctree.h"

#include <stdint.h>

#define FREEZE_WAIT_MS 10000
/* For a group: a v1 freezer that holds a process whose first thread has ended says
 * "freezing" for ever. Then signals do it. */
#define FREEZE_GROUP_WAIT_MS 1000

int64_t freeze_now_ms(void);
void freeze_nap(unsigned us);

/* Puts a process into f->group unless it is in `moved`; *found if it was not. */
int freeze_move(const struct freeze *f, const struct proctree_item *p, pid_t **moved,
		size_t *n, size_t *cap, bool *found);

/* SIGSTOP to everything, until nothing runs. -errno. */
int freeze_stop_all(struct freeze *f, pid_t first);
void freeze_continue(struct freeze *f); /* what that stopped */

#endif
