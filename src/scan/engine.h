/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine - rules and values against text.
 *
 * Theory of operation. Hyperscan runs all rules at once over a text and says where a
 * match of a looser form of each ends. From there PCRE2 looks at the few places where the
 * real match can start, each only once for each rule (so the work is bounded by the
 * text), and its match is weighed as gitleaks does: keywords, path, entropy, allowlists.
 * A rule that Hyperscan cannot take, and every rule where there is no Hyperscan, is
 * matched by PCRE2 alone if one of its keywords is in the text.
 *
 * Invariants
 *  1. Nothing that gitleaks finds with the same rules is missed. Comments in the content
 *     ("gitleaks:allow") hide nothing: whoever wrote the content is who is checked.
 *  2. A search that was given up (time, memory) is reported as a finding.
 */
#ifndef COVE_SCAN_ENGINE_H
#define COVE_SCAN_ENGINE_H

#include "scan/rules.h"
#include "scan/view.h"

struct engine;

struct engine_options {
	const char *rules; /* the user's rule file; NULL: the built-in rules */
	size_t rules_len;
	const char *const *values; /* exact secrets */
	const size_t *value_lens;
	size_t n_values;
};

struct found {
	const char *rule, *what;
	uint64_t line;
	const char *secret; /* what was found; not NUL-terminated */
	size_t len;
	bool exact; /* it is a secret of the sandbox: nothing of it may be shown */
};

int engine_new(struct engine **ret, const struct engine_options *o,
	       struct cove_error *err);
void engine_free(struct engine *e);
size_t engine_rules(const struct engine *e);

/* Says which file the next texts belong to, and calls fn for what its path alone gives
 * away. The path is borrowed until the next call. */
typedef void found_fn(void *arg, const struct found *f);
void engine_file(struct engine *e, const char *path, found_fn *fn, void *arg);
/* One text of that file, with everything that is encoded in it. */
void engine_text(struct engine *e, const struct view *v, found_fn *fn, void *arg);

#endif
