/* SPDX-License-Identifier: Apache-2.0 */
/* proc_internal - what the files of the process backend share. */
#ifndef COVE_BACKEND_PROC_INTERNAL_H
#define COVE_BACKEND_PROC_INTERNAL_H

#include "backend/backend.h"
#include "backend/proc_child.h"

#define PROC_FDS_MAX 24

/* A program that runs in a root of its own, confined: cove-guest, or a role that works
 * for a machine. */
struct proc_program {
	const char *path; /* on the host */
	const char *const *argv;
	const struct sock_fprog *filter;
	int fds[PROC_FDS_MAX]; /* become 3, 4 ...; borrowed */
	size_t n_fds;
	/* Its root, see plan.h. */
	int (*plan)(struct plan *p, const struct place_config *c, const void *arg,
		    struct cove_error *err);
	const void *plan_arg;
	const struct cgroup_limits *limits; /* NULL: the spec's */
	uint32_t held;  /* CG_* that do not depend on a cgroup: one may be missing */
	bool machine;   /* a monitor: the limits of the spec are not for it */
	uint64_t fsize; /* of one: how large a file it may make, where it has any; or 0 */
};

/* Makes the cgroup, unless the place has one already, and starts it there. On failure
 * the caller releases the place. */
int proc_launch(struct place *p, const struct place_config *c,
		const struct proc_program *program, struct cove_error *err);
/* The sandbox's own root. */
int proc_plan(struct plan *p, const struct place_config *c, const void *arg,
	      struct cove_error *err);
void proc_kill(struct place *p);
void proc_release(struct place *p);

#define PROC_NO_CAPTURE \
	"network: this kernel cannot redirect connections (nf_tables tproxy)"
#define PROC_NO_CAPTURE_FIX \
	"modprobe nf_tables nft_tproxy, or a kernel with CONFIG_NFT_TPROXY; without " \
	"it, " \
	"network mode none works"

void proc_cgroup_limits(const struct spec *s, struct cgroup_limits *ret);
bool proc_has_time_ns(void);
int proc_freeze(struct place *p, bool on, struct cove_error *err);
int proc_probe(const struct place_config *c, json_t *checks, struct cove_error *err);
int proc_attest(struct place *p, const struct place_config *c, json_t *items,
		struct cove_error *err);

#endif
