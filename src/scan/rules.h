/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules - what to look for: a rule file in gitleaks' TOML format, as data.
 *
 * Known keys: [extend] useDefault, disabledRules; [[rules]] id, description, regex, path,
 * keywords, entropy, secretGroup, skipReport, [rules.allowlist] and [[rules.allowlists]];
 * [allowlist] and [[allowlists]] for all rules, with targetRules. An allowlist has
 * description, condition, paths, regexes, regexTarget, stopwords. What only makes sense
 * in a repository's history (commits), or only narrows what is found
 * ([[rules.required]]), is left aside, so that never less is found than the file asks
 * for. An [extend] that names another file or address is refused: nothing is opened here.
 */
#ifndef COVE_SCAN_RULES_H
#define COVE_SCAN_RULES_H

#include "scan/pattern.h"

#define RULES_MAX 5000u

struct words {
	const char **v;
	size_t n;
};

struct patterns {
	struct pattern *v;
	size_t n;
};

enum target { TARGET_SECRET, TARGET_MATCH, TARGET_LINE };

struct allowlist {
	bool all; /* every kind of check given must agree, not just one */
	enum target target;
	struct patterns regexes, paths;
	struct words stopwords; /* lower case */
	struct words rules;     /* global lists: only for these; none: for all */
};

struct allowlists {
	struct allowlist *v;
	size_t n;
};

struct rule {
	const char *id, *what;
	struct pattern regex, path; /* at least one of them */
	double entropy;             /* the secret must have more; 0: any */
	uint32_t group;             /* the secret; 0: the first group, or the match */
	struct words keywords;      /* lower case; one must be in the text */
	struct allowlists allow;
	int32_t built_in; /* place in the built-in file, if the regex is unchanged; or -1
			   */
	bool off;
};

struct rules {
	struct pool pool;
	struct rule *rule;
	size_t n;
	struct allowlists allow;
};

/* text NULL: the built-in rules alone. On COVE_EINVAL the message names the rule. */
int rules_load(struct rules *ret, const char *text, size_t len, const char *built_in,
	       size_t built_in_len, struct cove_error *err);
void rules_clear(struct rules *r);

#endif
