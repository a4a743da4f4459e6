/* SPDX-License-Identifier: Apache-2.0 */
/*
 * re - regular expressions as rule files write them (the RE2 syntax of Go), turned into
 * the dialects of the two engines. Pure.
 *
 * Both engines work on bytes here: content is arbitrary, and what is no UTF-8 must be
 * scanned too. So the expression is parsed into a tree of code-point sets, and a set is
 * written out as the byte sequences that encode it (a byte that is no UTF-8 counts as
 * U+FFFD, as in Go). This is exact for PCRE2. For Hyperscan, which only has to say where
 * it is worth to look, the text is a superset that is cheap to match:
 *  1. what can be empty at either end is left out, a repeat at the end has its minimum,
 *     and what comes behind a costly repeat is left out with it;
 *  2. a set that has characters beyond ASCII is one to four bytes of any value there;
 *  3. so each match of the expression contains a match of that text, ending inside it.
 * Letters fold by case in ASCII, Latin-1, Greek and Cyrillic. \p{...} is exact for ASCII
 * and takes every character beyond it.
 */
#ifndef COVE_SCAN_RE_H
#define COVE_SCAN_RE_H

#include "base/error.h"
#include "scan/pool.h"

#include <stdbool.h>
#include <stdint.h>

#define RE_MAX_TEXT 65536u
#define RE_MAX_DEPTH 64
#define RE_MAX_REPEAT 1000 /* as in RE2 */
#define RE_UNBOUNDED UINT32_MAX

struct re {
	char *pcre; /* for PCRE2 without UTF mode */
	char *hs;   /* for Hyperscan; NULL: it could match nothing at all */
	uint32_t groups;
	uint32_t min, max; /* bytes of a match; RE_UNBOUNDED */
	uint32_t reach;    /* from the start of a match to the end of hs in it, at most */
};

int re_translate(struct re *ret, const char *text, size_t len, struct cove_error *err);
void re_clear(struct re *re);

#endif
