/* SPDX-License-Identifier: Apache-2.0 */
/* engine_impl - the engine's state, shared by its files. */
#ifndef COVE_SCAN_ENGINE_IMPL_H
#define COVE_SCAN_ENGINE_IMPL_H

#include "scan/engine.h"
#include "scan/exact.h"
#include "scan/literals.h"

/* What is known of a rule for the text at hand; stale when `text` is an older number. */
struct rule_state {
	uint64_t text;
	size_t pos;    /* matches start here or later */
	size_t tried;  /* no match starts between pos and here */
	bool skip;     /* keyword missing, path not meant, given up */
	uint64_t file; /* for which file not_here is known */
	bool not_here;
};

struct engine {
	struct rules rules;
	struct rule_state *state; /* one for each rule */
	struct exact *exact;
	uint64_t file, text; /* running numbers */
	const char *path;
	size_t path_len;
	bool path_allowed; /* a global allowlist names it */

	/* PCRE2 alone: rules without a keyword, and a table of the keywords of others */
	size_t *always, n_always;
	struct literals *keywords;
	size_t *keyword_rule; /* by index of the word */

	void *fast[2];       /* Hyperscan databases: built-in, the user's */
	size_t *by_built_in; /* which rule a pattern of the built-in one is */
	void *scratch;

	/* the text at hand */
	const struct view *view;
	found_fn *fn;
	void *arg;
};

/* Looks where a match of rule i can start for a loose match that ends at `to`; to
 * SIZE_MAX: anywhere. */
void engine_confirm(struct engine *e, size_t i, size_t to);
void engine_report(struct engine *e, const struct rule *r, size_t start, size_t end);
/* Neither switched off nor kept from this file by its path. */
bool rule_wants_file(struct engine *e, size_t i);
/* What could not be searched is a finding. */
void engine_give_up(struct engine *e, const char *rule, size_t at);
double shannon(const char *text, size_t len);
bool path_allowed(const struct allowlists *a, const struct rule *r, const char *path,
		  size_t len);

int fast_open(struct engine *e, bool *taken, struct cove_error *err);
void fast_scan(struct engine *e, const char *text, size_t len);
void fast_close(struct engine *e);

extern const char built_in_rules[]; /* the file, as a string */

#endif
