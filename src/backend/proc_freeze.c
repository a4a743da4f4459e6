/* SPDX-License-Identifier: Apache-2.0 */
/* proc_freeze - the processes of a sandbox held still, for a consistent copy. */
#include "backend/proc_internal.h"

int proc_freeze(struct place *p, bool on, struct cove_error *err)
{
	if (!on) {
		freeze_end(&p->freeze);
		return 0;
	}
	return freeze_start(&p->freeze, p->pid, p->has_cgroup ? &p->cgroup : NULL, err);
}
