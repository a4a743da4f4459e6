/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate - what may reach the host. It fails closed: what cannot be checked is a finding.
 *
 * It judges staged copies, which nobody but this process can change, and lands exactly
 * those: what was checked is what arrives. Rules are data: gate_rules.c holds the paths
 * that make the host run code, rules/secrets.toml the credentials.
 */
#ifndef COVE_WORK_GATE_H
#define COVE_WORK_GATE_H

#include "work/change.h"

#include <jansson.h>

struct gate_item {
	const struct change *change;
	/* Staged content of a regular file: `name` in the directory `dir` (-1: none). Not
	 * an open descriptor, since there may be more files than descriptors: open it for
	 * the moment with gate_item_open(). Only this process writes there. */
	int dir;
	char name[16];
	uint32_t mode;      /* st_mode that would land; 0: a deletion */
	uint64_t size;      /* of the content */
	const char *target; /* of a symlink */
};

/* O_RDONLY | O_NOFOLLOW; -errno; -ENODATA: nothing is staged. */
int gate_item_open(const struct gate_item *i);

struct gate_config {
	const json_t *spec; /* the spec's gate object, or NULL for the defaults */
	const char *const
		*accept; /* ids of findings that may pass; NULL-terminated or NULL */
	/* values of the sandbox's own secrets */
	const char *const *secrets;
	const size_t *secret_lens;
	size_t n_secrets;
	const char *rules_toml; /* the user's own gitleaks.toml, or NULL */
	size_t rules_len;
	int64_t budget_ms; /* for the scan; 0: a default that follows the size */
};

struct finding {
	char id[17]; /* hex of (rule, path, place): stable between runs */
	char rule[64];
	char *path, *inner, *why, *excerpt; /* excerpt is redacted and printable */
	uint64_t line;
	uint32_t flags; /* COVE_FINDING_* */
	size_t item;
};

struct findings {
	struct finding *v;
	size_t n;
	size_t open; /* of them, not accepted: not 0 means nothing may land */
};

int gate_run(const struct layers *l, const struct gate_config *c,
	     const struct gate_item *items, size_t n, struct findings *ret,
	     struct cove_error *err);
void findings_clear(struct findings *f);

/* Paths below a mount that make the host run code ("hook", "ci" ...): the rule's id, or
 * NULL. Shared with `rw` mounts, which protect them too. Pure. */
const char *gate_executing_path(const char *path, const char **ret_why);

/* The part of that table that is a fixed path (no glob), for mounts: NULL-terminated. */
const char *const *gate_fixed_paths(void);

#endif
