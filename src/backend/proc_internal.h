/* SPDX-License-Identifier: Apache-2.0 */
/* proc_internal - what the files of the process backend share. */
#ifndef COVE_BACKEND_PROC_INTERNAL_H
#define COVE_BACKEND_PROC_INTERNAL_H

#include "backend/backend.h"
#include "backend/proc_child.h"

#define PROC_NO_CAPTURE \
	"network: this kernel cannot redirect connections (nf_tables tproxy)"
#define PROC_NO_CAPTURE_FIX \
	"modprobe nf_tables nft_tproxy, or a kernel with CONFIG_NFT_TPROXY; without " \
	"it, " \
	"network mode none works"

void proc_cgroup_limits(const struct spec *s, struct cgroup_limits *ret);
bool proc_has_time_ns(void);
int proc_freeze(struct place *p, bool on, struct cove_error *err);
int proc_probe(json_t *checks, struct cove_error *err);
int proc_attest(struct place *p, const struct place_config *c, json_t *items,
		struct cove_error *err);

#endif
