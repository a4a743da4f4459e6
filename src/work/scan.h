/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan - the client of cove-scan: hands it files, collects what it finds.
 *
 * The role reads hostile bytes and is believed in nothing: its answers are bounded and
 * checked. If it dies, hangs past the budget or answers nonsense, that is a finding
 * ("scan-failed", "scan-timeout") about the first file that was not done, never a pass.
 *
 * A file that cannot be looked at is one, too: "unreadable" (not a regular file, larger
 * than max_file, damaged or encrypted archive), "archive-limit".
 */
#ifndef COVE_WORK_SCAN_H
#define COVE_WORK_SCAN_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct scan;

struct scan_options {
	const char *rules_toml; /* the user's own rules; NULL: built-in only */
	size_t rules_len;
	const char *const *secrets; /* exact values; fewer than 4 bytes: not looked for */
	const size_t *secret_lens;
	size_t n_secrets;
	uint64_t max_file; /* bytes; 0: 1 GiB */
	int64_t budget_ms; /* for the whole scan; 0: 10 minutes */
};

struct scan_finding {
	const char *rule;
	const char *what;
	size_t index;            /* of the added file */
	const char *inner;       /* path inside an archive, or "" */
	uint64_t line;           /* 0: the file as a whole, or its name */
	const char *excerpt;     /* redacted, safe to print */
	const char *fingerprint; /* 16 hex: of rule, path and the secret's text */
};

/* Everything is borrowed for the call. COVE_EINVAL: the rules are wrong, and where. */
int scan_start(struct scan **ret, const struct scan_options *o, struct cove_error *err);
/* fd is borrowed for the call; content is read from offset 0 without moving it. Only
 * COVE_ENOMEM and the like fail here: what befalls the role is told by scan_finish(). */
int scan_add(struct scan *s, const char *path, int fd, struct cove_error *err);
/* The same, but *fd is consumed: -1 on success, untouched on failure. */
int scan_give(struct scan *s, const char *path, int *fd, struct cove_error *err);
/* Waits for the end and calls fn for each finding, in the order of the files. Once. */
int scan_finish(struct scan *s, void (*fn)(void *arg, const struct scan_finding *f),
		void *arg, struct cove_error *err);
/* After scan_finish(): how much was looked at, unpacked archives included. */
void scan_totals(const struct scan *s, uint64_t *ret_files, uint64_t *ret_bytes);
void scan_free(struct scan *s); /* ends the role, whatever it does; NULL is a no-op */

#endif
