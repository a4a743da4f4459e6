/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proctree - the processes below one, as /proc shows them. What runs while it is looked
 * at may be missed: whoever needs all of them stops what he sees and looks again.
 */
#ifndef COVE_OS_PROCTREE_H
#define COVE_OS_PROCTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct proctree {
	struct proctree_item {
		pid_t pid, parent;
	} * v;
	size_t n, cap;
};

#define PROCTREE_MAX (1u << 20)

/* first and everything below it, parents before children. -errno; -ESRCH: it is gone. */
int proctree_list(struct proctree *t, pid_t first);
void proctree_clear(struct proctree *t);

enum proctree_state {
	PROC_RUNS,
	PROC_STOPPED, /* all threads, by a signal or a tracer */
	PROC_BLOCKED, /* waits in vfork() for a child that is not going on */
	PROC_GONE
};
enum proctree_state proctree_state(pid_t pid);

/* Sends through a descriptor, and only if it is still a child of parent. -errno. */
int proctree_signal(const struct proctree_item *p, int signo);

#endif
