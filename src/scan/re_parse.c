/* SPDX-License-Identifier: Apache-2.0 */
/* re_parse - the RE2 syntax of Go as a tree. Recursion is bounded by RE_MAX_DEPTH. */
#include "scan/re_parser.h"

#include "base/util.h"

#include <ctype.h>

int re_bad(struct re_parser *p, const char *why)
{
	return fail(p->err, COVE_EINVAL, 0, "regular expression, character %td: %s",
		    p->at - p->start + 1, why);
}

struct re_node *re_new(struct re_parser *p, enum re_type type)
{
	struct re_node *n = pool_alloc(p->pool, sizeof(*n));

	if (n)
		n->type = type;
	else
		re_bad(p, "too large");
	return n;
}

bool re_more(const struct re_parser *p, char c)
{
	return p->at < p->end && *p->at == c;
}

/* The next character of the expression; broken UTF-8 gives single bytes as U+FFFD. */
uint32_t re_rune(struct re_parser *p)
{
	const unsigned char *s = (const unsigned char *)p->at;
	size_t left = (size_t)(p->end - p->at);
	size_t n = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	uint32_t c = n == 1 ? s[0] : s[0] & (0x7fu >> n);

	for (size_t i = 1; i < n; i++) {
		if (i >= left || (s[i] & 0xc0) != 0x80) {
			p->at++;
			return 0xfffd;
		}
		c = c << 6 | (s[i] & 0x3f);
	}
	p->at += n;
	return c;
}

/* ---- atoms ------------------------------------------------------------------------ */

static int literal(struct re_parser *p, uint32_t c, struct re_node **ret)
{
	struct re_node *n = re_new(p, RE_SET);

	if (!n)
		return p->err->code;
	if (re_set_add(p->pool, &n->set, c, c) < 0)
		return re_bad(p, "too large");
	*ret = n;
	return re_finish_set(p, &n->set, false);
}

static int any_char(struct re_parser *p, struct re_node **ret)
{
	struct re_node *n = re_new(p, RE_SET);
	int r;

	if (!n)
		return p->err->code;
	p->at++;
	if (p->f.all) {
		r = re_set_add(p->pool, &n->set, 0, RUNE_MAX);
	} else {
		r = re_set_add(p->pool, &n->set, '\n', '\n');
		if (r == 0)
			r = re_set_invert(p->pool, &n->set);
	}
	*ret = n;
	return r < 0 ? re_bad(p, "too large") : 0;
}

/* \Q...\E: a row of literals. */
static int quoted(struct re_parser *p, struct re_node **ret)
{
	struct re_node *cat = re_new(p, RE_CAT), **tail;

	if (!cat)
		return p->err->code;
	tail = &cat->first;
	for (p->at += 2; p->at < p->end; tail = &(*tail)->next) {
		if (p->end - p->at > 1 && p->at[0] == '\\' && p->at[1] == 'E') {
			p->at += 2;
			break;
		}
		if (literal(p, re_rune(p), tail) < 0)
			return p->err->code;
	}
	*ret = cat;
	return 0;
}

static int parse_escape(struct re_parser *p, struct re_node **ret)
{
	static const struct {
		char letter;
		enum re_type type;
	} marks[] = {
		{'A', RE_TEXT_START},
		{'z', RE_TEXT_END  },
		{'b', RE_WORD      },
		{'B', RE_NOT_WORD  },
	};
	struct re_node *n;
	uint32_t c;
	int r;

	if (p->end - p->at < 2)
		return re_bad(p, "a backslash at the end");
	for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
		if (p->at[1] != marks[i].letter)
			continue;
		p->at += 2;
		*ret = re_new(p, marks[i].type);
		return *ret ? 0 : p->err->code;
	}
	if (p->at[1] == 'Q')
		return quoted(p, ret);
	r = re_char_escape(p, &c);
	if (r != 1)
		return r < 0 ? r : literal(p, c, ret);
	n = re_new(p, RE_SET);
	if (!n)
		return p->err->code;
	r = re_set_escape(p, &n->set);
	if (r == 1)
		return re_bad(p, "no such escape");
	*ret = n;
	return r < 0 ? r : re_finish_set(p, &n->set, false);
}

static int parse_alternatives(struct re_parser *p, struct re_node **ret);

/* "ims-U:" or "ims)"; true in *group when a group follows. */
static int parse_flags(struct re_parser *p, bool *group)
{
	bool on = true;

	for (; p->at < p->end; p->at++) {
		switch (*p->at) {
		case 'i':
			p->f.fold = on;
			break;
		case 'm':
			p->f.lines = on;
			break;
		case 's':
			p->f.all = on;
			break;
		case 'U':
			p->f.lazy = on;
			break;
		case '-':
			on = false;
			break;
		case ':':
		case ')':
			*group = *p->at++ == ':';
			return 0;
		default:
			return re_bad(p, "no such flag");
		}
	}
	return re_bad(p, "( without )");
}

/* Behind "(?": the kind of group. *capture, or a group, or only flags (then *group = 0).
 */
static int group_kind(struct re_parser *p, bool *capture, bool *group)
{
	const char *close;

	*group = true;
	*capture = false;
	if (!re_more(p, 'P') && !re_more(p, '<'))
		return parse_flags(p, group);
	p->at += re_more(p, 'P');
	if (!re_more(p, '<') || p->end - p->at < 3 || p->at[1] == '=' || p->at[1] == '!')
		return re_bad(p, "a kind of group that RE2 does not have");
	close = memchr(p->at, '>', (size_t)(p->end - p->at));
	if (!close)
		return re_bad(p, "a name without >");
	p->at = close + 1;
	*capture = true;
	return 0;
}

/* A row or a group without capture of one thing is that thing. */
static struct re_node *unwrap(struct re_node *n)
{
	while (n->type == RE_CAT && n->first && !n->first->next)
		n = n->first;
	return n;
}

static int parse_group(struct re_parser *p, struct re_node **ret)
{
	struct re_flags saved = p->f;
	bool capture = true, group = true;
	struct re_node *n;

	p->at++;
	if (re_more(p, '?')) {
		p->at++;
		if (group_kind(p, &capture, &group) < 0)
			return p->err->code;
	}
	if (!group) { /* (?i): holds to the end of the group that it is in */
		*ret = re_new(p, RE_EMPTY);
		return *ret ? 0 : p->err->code;
	}
	n = re_new(p, capture ? RE_GROUP : RE_CAT);
	if (!n)
		return p->err->code;
	p->groups += capture;
	if (parse_alternatives(p, &n->first) < 0)
		return p->err->code;
	if (!re_more(p, ')'))
		return re_bad(p, "( without )");
	p->at++;
	p->f = saved;
	*ret = unwrap(n);
	return 0;
}

static int parse_atom(struct re_parser *p, struct re_node **ret)
{
	char c = *p->at;

	switch (c) {
	case '[':
		return re_class(p, ret);
	case '(':
		return parse_group(p, ret);
	case '.':
		return any_char(p, ret);
	case '\\':
		return parse_escape(p, ret);
	case '^':
	case '$':
		p->at++;
		if (c == '^')
			*ret = re_new(p, p->f.lines ? RE_LINE_START : RE_TEXT_START);
		else
			*ret = re_new(p, p->f.lines ? RE_LINE_END : RE_TEXT_END);
		return *ret ? 0 : p->err->code;
	case '*':
	case '+':
	case '?':
		return re_bad(p, "nothing to repeat");
	default:
		return literal(p, re_rune(p), ret);
	}
}

/* ---- repeats, rows, alternatives -------------------------------------------------- */

static bool number(const char **at, const char *end, uint32_t *ret)
{
	const char *s = *at;
	uint32_t v = 0;

	for (; s < end && *s >= '0' && *s <= '9'; s++)
		if (v < 100000)
			v = v * 10 + (uint32_t)(*s - '0');
	if (s == *at)
		return false;
	*ret = v;
	*at = s;
	return true;
}

/* {n}, {n,}, {n,m}; anything else is a literal brace. */
static bool braces(struct re_parser *p, uint32_t *min, uint32_t *max)
{
	const char *s = p->at + 1;

	if (!number(&s, p->end, min))
		return false;
	*max = *min;
	if (s < p->end && *s == ',') {
		s++;
		if (!number(&s, p->end, max))
			*max = RE_UNBOUNDED;
	}
	if (s >= p->end || *s != '}')
		return false;
	p->at = s + 1;
	return true;
}

static bool repeat(struct re_parser *p, uint32_t *min, uint32_t *max)
{
	char c = p->at < p->end ? *p->at : '\0';

	if (c == '{')
		return braces(p, min, max);
	if (c != '*' && c != '+' && c != '?')
		return false;
	p->at++;
	*min = c == '+';
	*max = c == '?' ? 1 : RE_UNBOUNDED;
	return true;
}

static int parse_repeats(struct re_parser *p, struct re_node **ret)
{
	uint32_t min, max;
	int n = 0;

	while (repeat(p, &min, &max)) {
		struct re_node *r = re_new(p, RE_REPEAT);

		if (!r)
			return p->err->code;
		if (++n > 1)
			return re_bad(p, "a repeat of a repeat");
		if (min > RE_MAX_REPEAT || (max != RE_UNBOUNDED && max > RE_MAX_REPEAT) ||
		    max < min)
			return re_bad(p, "a repeat out of range");
		r->lazy = p->f.lazy;
		if (re_more(p, '?')) {
			r->lazy = !r->lazy;
			p->at++;
		}
		r->min = min;
		r->max = max;
		r->first = *ret;
		*ret = r;
	}
	return 0;
}

static int parse_row(struct re_parser *p, struct re_node **ret)
{
	struct re_node *cat = re_new(p, RE_CAT), **tail;

	if (!cat)
		return p->err->code;
	tail = &cat->first;
	while (p->at < p->end && *p->at != '|' && *p->at != ')') {
		if (parse_atom(p, tail) < 0 || parse_repeats(p, tail) < 0)
			return p->err->code;
		tail = &(*tail)->next;
	}
	*ret = cat;
	return 0;
}

/* (?:a|[b-f]|\s) is one set. */
static int join_sets(struct re_parser *p, struct re_node **alt)
{
	struct re_node *set, *c;

	for (c = (*alt)->first; c; c = c->next)
		if (unwrap(c)->type != RE_SET)
			return 0;
	set = re_new(p, RE_SET);
	for (c = (*alt)->first; set && c; c = c->next) {
		const struct re_set *s = &unwrap(c)->set;

		for (size_t i = 0; i < s->n; i++)
			if (re_set_add(p->pool, &set->set, s->r[i].lo, s->r[i].hi) < 0)
				return re_bad(p, "too large");
	}
	if (!set)
		return p->err->code;
	re_set_tidy(&set->set);
	*alt = set;
	return 0;
}

static int parse_alternatives(struct re_parser *p, struct re_node **ret)
{
	struct re_node *alt = re_new(p, RE_ALT), **tail;

	if (!alt)
		return p->err->code;
	if (++p->depth > RE_MAX_DEPTH)
		return re_bad(p, "nested too deep");
	tail = &alt->first;
	for (;;) {
		if (parse_row(p, tail) < 0)
			return p->err->code;
		tail = &(*tail)->next;
		if (!re_more(p, '|'))
			break;
		p->at++;
	}
	p->depth--;
	if (!alt->first->next)
		alt = alt->first;
	else if (join_sets(p, &alt) < 0)
		return p->err->code;
	*ret = alt;
	return 0;
}

int re_parse(struct re_node **ret, uint32_t *ret_groups, struct pool *pool,
	     const char *text, size_t len, struct cove_error *err)
{
	struct re_parser p = {
		.start = text, .at = text, .end = text + len, .pool = pool, .err = err};

	if (len > RE_MAX_TEXT)
		return fail(err, COVE_EINVAL, 0, "regular expression: too long");
	if (parse_alternatives(&p, ret) < 0)
		return err->code;
	if (p.at < p.end)
		return re_bad(&p, ") without (");
	*ret_groups = p.groups;
	return 0;
}
