/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pattern - one regular expression of a rule file, matched with PCRE2.
 *
 * Translated and compiled when it is first needed: most patterns of most scans never see
 * text that is worth a second look. A pattern that would take too long on some text gives
 * PATTERN_LIMIT, which its caller must treat as a finding, never as "no match".
 */
#ifndef COVE_SCAN_PATTERN_H
#define COVE_SCAN_PATTERN_H

#include "scan/re.h"

#define PATTERN_GROUPS 32
#define PATTERN_LIMIT (-2)

struct pattern {
	const char *source; /* NULL: there is none */
	size_t len;
	struct re re;
	void *code;     /* pcre2_code */
	bool fast;      /* wants machine code; set before the first use */
	int8_t checked; /* 0 not yet, 1 good, -1 refused */
};

struct match {
	size_t start[PATTERN_GROUPS], end[PATTERN_GROUPS]; /* [0] is the whole match */
	uint32_t n;                                        /* groups with [0] */
};

int pattern_check(struct pattern *p, struct cove_error *err); /* translates */
int pattern_compile(struct pattern *p, struct cove_error *err);
/* Looks for a match that starts in from..last (SIZE_MAX: the end). 1 and *ret, 0, or
 * PATTERN_LIMIT. A group that took no part has start = end = SIZE_MAX. */
int pattern_find(struct pattern *p, const char *text, size_t len, size_t from,
		 size_t last, struct match *ret);
/* For allowlists, where a doubt must not hide anything. */
bool pattern_is_in(struct pattern *p, const char *text, size_t len);
void pattern_clear(struct pattern *p);

#endif
