/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freeze - holds all processes of a sandbox still, and lets them go on.
 *
 * By the freezer of cgroup v2, of which the processes notice nothing; else by that of
 * cgroup v1 where a group can be made; else, for anybody, by SIGSTOP to each process,
 * parents before children, until none runs. Those that were stopped before stay stopped
 * afterwards.
 *
 * Theory of operation. Whoever freezes may be killed, and a frozen guest cannot notice
 * that its keeper is gone. So a guardian, a small process that does nothing but wait for
 * the end of the freezer, lets the sandbox go on if that ends without having done so.
 */
#ifndef COVE_OS_FREEZE_H
#define COVE_OS_FREEZE_H

#include "base/error.h"
#include "os/cgroup.h"

#include <stdbool.h>
#include <sys/types.h>

enum freeze_how { FREEZE_NOT, FREEZE_V2, FREEZE_V1, FREEZE_SIGNAL };

struct freeze {
	enum freeze_how how;
	char group[CGROUP_PATH_MAX]; /* V1, V2: the directory */
	pid_t *pids;                 /* SIGNAL: those that were stopped, parents first */
	size_t n_pids;
	pid_t guardian;
	int guard; /* closed with us: its signal */
};

#define FREEZE_INIT \
	{ \
		.guard = -1 \
	}

/* Freezes the process `first` and everything below it. group: the sandbox's cgroup, or
 * NULL; a v1 group that is made for the purpose is added to it, so that it is removed
 * with the others. */
int freeze_start(struct freeze *f, pid_t first, struct cgroup *group,
		 struct cove_error *err);
void freeze_end(struct freeze *f); /* lets them go on; nothing frozen is fine */

#endif
