/* SPDX-License-Identifier: Apache-2.0 */
/* re_parser - what the two halves of the parser of expressions share. */
#ifndef COVE_SCAN_RE_PARSER_H
#define COVE_SCAN_RE_PARSER_H

#include "scan/re_impl.h"

struct re_flags {
	bool fold, lines, all, lazy; /* i m s U */
};

struct re_parser {
	const char *start, *at, *end;
	struct pool *pool;
	struct cove_error *err;
	struct re_flags f;
	uint32_t groups;
	int depth;
};

int re_bad(struct re_parser *p, const char *why); /* COVE_EINVAL, with the place */
struct re_node *re_new(struct re_parser *p, enum re_type type);
bool re_more(const struct re_parser *p, char c); /* c is next */
/* The next character; broken UTF-8 gives single bytes as U+FFFD. */
uint32_t re_rune(struct re_parser *p);

/* A backslash and what names one character. 1: it is something else, at is unmoved. */
int re_char_escape(struct re_parser *p, uint32_t *ret);
/* \d \S \pL \p{Greek}: 1 if it is none of them. */
int re_set_escape(struct re_parser *p, struct re_set *s);
int re_finish_set(struct re_parser *p, struct re_set *s, bool inverse);
int re_class(struct re_parser *p, struct re_node **ret); /* at a [ */

#endif
