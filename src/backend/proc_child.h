/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proc_child - what runs between the clone and the exec of cove-guest.
 *
 * The child shares the parent's memory (CLONE_VM), so that a caller of a gigabyte starts
 * a sandbox as fast as a small one. It therefore only reads the job, makes raw system
 * calls, and writes the three result fields; every string, table and filter was made
 * before.
 */
#ifndef COVE_BACKEND_PROC_CHILD_H
#define COVE_BACKEND_PROC_CHILD_H

#include "backend/plan.h"
#include "os/landlock.h"
#include "os/netcapture.h"

#include <linux/filter.h>

/* Stages in order; the text is what a failed start says. */
#define CHILD_STAGES(X) \
	X(STAGE_NET_BEGIN, "start the network namespace's helper") \
	X(STAGE_PRIVATE, "make mounts private") \
	X(STAGE_HOSTNAME, "set host name") \
	X(STAGE_TIME_NS, "enter time namespace") \
	X(STAGE_RLIMIT, "set resource limits") \
	/* so far in parallel with the parent, who makes the cgroup */ \
	X(STAGE_WAIT, "wait for the parent") \
	X(STAGE_CGROUP, "enter the cgroup") \
	X(STAGE_IDS, "map user and group") \
	X(STAGE_CGROUP_NS, "enter cgroup namespace") \
	X(STAGE_MOUNT, "mount") \
	X(STAGE_NET, "network namespace with loopback up") \
	X(STAGE_PIVOT, "pivot_root") \
	X(STAGE_SYSCTL, "limit namespaces") \
	X(STAGE_CAPS, "drop capabilities") \
	X(STAGE_LANDLOCK, "apply Landlock") \
	X(STAGE_SECCOMP, "apply seccomp") \
	X(STAGE_FDS, "arrange descriptors") \
	X(STAGE_EXEC, "start the program") \
	X(STAGE_DONE, "done")

enum child_stage {
#define X(id, text) id,
	CHILD_STAGES(X)
#undef X
};

struct child_rlimit {
	int resource;
	uint64_t soft, hard;
};

struct child_job {
	/* given */
	const struct plan *plan;
	const char *uid_map, *gid_map; /* to write ourselves; NULL: the parent does */
	int go, go_write;              /* a byte comes when maps and cgroup are ready */
	/* "tasks" files of v1 groups to enter, NULL-terminated. Done by the child itself:
	 * a task that moves only itself does not wait for a grace period of the kernel,
	 * which takes milliseconds. */
	const char *const *cgroup_tasks;
	uint32_t uid, gid; /* inside */
	bool drop_groups;
	bool time_ns; /* make one: only where exec enters it, or a guest could not vfork
		       */
	const char *hostname;
	const struct child_rlimit *rlimits;
	size_t n_rlimits;
	int ruleset; /* Landlock */
	struct landlock_attr handled;
	const struct sock_fprog *filter;
	int guest;
	const int *fds; /* become 3, 4 ...; none of them lies there */
	size_t n_fds;
	char *const *argv, *const *envp;
	const struct netcapture *capture; /* NULL: the network namespace stays as it is */
	int capture_to;  /* the socket over which struct place's sockets are sent out */
	char *net_stack; /* end of the stack of the helper that makes the network
			    namespace */
	volatile int net_fd;          /* its result: a descriptor, or a negative errno */
	volatile bool net_no_capture; /* the error is that connections cannot be caught */
	int net_pid;
	/* results, valid once the child has exec'd or ended */
	volatile int stage;  /* reached; STAGE_EXEC with error 0 means running */
	volatile int error;  /* errno of what failed, or 0 */
	volatile int detail; /* index of the operation or rule */
};

/* Runs on its own stack and does not return. */
int proc_child(void *job);

const char *child_stage_text(enum child_stage s);

#endif
