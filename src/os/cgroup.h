/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup - limits and accounting for one sandbox: memory, swap, cpu, number of processes.
 *
 * A sandbox has one directory in every cgroup hierarchy that it needs: one where all
 * controllers are in the v2 tree, several on v1 hosts, a mixture on hybrid ones. Where
 *the directories go:
 *
 *	root		MOUNT/cove/cove-ID, and if that is refused like a user
 *	user, v1	MOUNT/cove/user-UID/cove-ID (root made it for the user), else
 *			OWN/cove-ID, with OWN the caller's own group
 *	user, v2	PARENT-OF-OWN/cove-ID, else OWN/cove-ID; the controllers have to
 *			be delegated to the user
 *
 * Invariants: 1. a missing controller or permission is never an error here: it is
 *reported as a bit, and the caller decides; 2. the last component of every path is
 *"cove-" and an id, and nothing else is ever removed.
 */
#ifndef COVE_OS_CGROUP_H
#define COVE_OS_CGROUP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct cove_error;

enum cgroup_bits {
	CG_MEMORY = 1 << 0,
	CG_CPU = 1 << 1,
	CG_PIDS = 1 << 2,
	CG_SWAP = 1 << 3,
	CG_ACCOUNT = 1 << 4 /* cpu time is counted for cgroup_stats() */
};

struct cgroup_limits { /* 0: no limit asked for */
	uint64_t memory_bytes;
	uint64_t swap_bytes; /* counts when memory_bytes is set: 0 means no swap at all */
	uint32_t cpus_milli; /* 1500: one and a half processors */
	uint32_t pids;
	uint32_t account; /* not 0: count cpu time too, which costs a directory on v1 */
};

struct cgroup_stats {
	uint32_t known; /* CG_MEMORY, CG_ACCOUNT, CG_PIDS: which of these are filled in */
	uint64_t mem_bytes, mem_peak_bytes, mem_limit; /* mem_limit 0: none */
	uint64_t oom_kills;
	uint64_t cpu_ns;
	uint64_t pids;
};

#define CGROUP_PATH_MAX 384
#define CGROUP_ID_MAX 64
#define CGROUP_DIRS_MAX 5

struct cgroup { /* plain data, may be copied; zeroed is an empty one */
	uint32_t n;
	uint32_t cloned; /* cgroup_clone_fd() was used: attach leaves the v2 directory out
			  */
	char id[CGROUP_ID_MAX + 1];
	struct cgroup_dir {
		uint32_t bits; /* what is controlled here */
		uint32_t v2;
		char path[CGROUP_PATH_MAX];
	} dir[CGROUP_DIRS_MAX];
};

/*
 * Makes the group and sets the limits. *ret_missing has the bits that were asked for and
 * could not be had; why then says the reason for the first of them, with a hint. Fails
 * (COVE_EINVAL) only for an id outside [A-Za-z0-9][A-Za-z0-9._-]*, 64 characters at most.
 */
int cgroup_create(struct cgroup *c, const char *id, const struct cgroup_limits *l,
		  uint32_t *ret_missing, struct cove_error *why);

/* Sets other limits on a living group; 0 lifts a limit. */
int cgroup_update(struct cgroup *c, const struct cgroup_limits *l, uint32_t *ret_missing,
		  struct cove_error *why);

/* Puts a process (all its threads) in. 0 or -errno. For another user's process it fails
 * without privilege, so this comes before the process changes its ids. */
int cgroup_attach(struct cgroup *c, pid_t pid);

/* A descriptor for clone3(CLONE_INTO_CGROUP), so that the child starts in the v2
 * directory and cgroup_attach() only does the v1 ones; -ENOENT if the group has no v2
 * directory. Attaching afterwards can cost milliseconds on v2, this costs nothing. If
 * that clone3() fails and is repeated without the flag, set c->cloned to 0. */
int cgroup_clone_fd(struct cgroup *c);

int cgroup_stats(const struct cgroup *c, struct cgroup_stats *ret); /* 0 or -errno */
int cgroup_cpu(const struct cgroup *c, uint64_t *ret_ns);           /* the same */

/* What the kernel says is in force. swap_bytes is UINT64_MAX when swap is not limited;
 * account is set when cpu time is counted. 0 or -errno. */
int cgroup_read_limits(const struct cgroup *c, struct cgroup_limits *ret);

/* Kills what is left inside and removes the directories; an empty group is fine.
 * 0 or -errno of the first directory that stayed. */
int cgroup_remove(struct cgroup *c);

/* For the clean-up after a crash: the directories as a list of lines. 0 or -ENOBUFS. */
int cgroup_save(const struct cgroup *c, char *out, size_t n);
/* Removes what cgroup_save() wrote, in whatever process. The text may be damaged or
 * forged: only cgroup directories named cove-ID are touched. Gone already is success. */
int cgroup_remove_saved(const char *text);

/* For `cove doctor`: makes a group and removes it. ret_usable: the limits that work for
 * this user; ret_text: a line that says so and, when something is missing, a second one
 * with the command that would change it. */
int cgroup_probe(char *ret_text, size_t n, uint32_t *ret_usable);

#endif
