/* SPDX-License-Identifier: Apache-2.0 */
/* re_class - escapes and bracket classes of an expression. */
#include "scan/re_parser.h"

#include "base/util.h"

#include <ctype.h>

/* ---- escapes ---------------------------------------------------------------------- */

static int hex_escape(struct re_parser *p, uint32_t *ret)
{
	bool braces = re_more(p, '{');
	int n = 0, max = braces ? 6 : 2;
	uint32_t c = 0;

	p->at += braces;
	for (; n < max && p->at < p->end && isxdigit((unsigned char)*p->at); n++) {
		char d = *p->at++;

		c = c << 4 | (uint32_t)(d <= '9' ? d - '0' : (d | 32) - 'a' + 10);
	}
	if (braces ? n == 0 || !re_more(p, '}') : n != 2)
		return re_bad(p, "an incomplete \\x");
	p->at += braces;
	if (c > RUNE_MAX)
		return re_bad(p, "no such character");
	*ret = c;
	return 0;
}

/* A backslash and what names one character. 1: it is something else, at is unmoved. */
int re_char_escape(struct re_parser *p, uint32_t *ret)
{
	static const char from[] = "afnrtv", to[] = "\a\f\n\r\t\v";
	const char *f;
	char c;

	if (p->end - p->at < 2)
		return re_bad(p, "a backslash at the end");
	c = p->at[1];
	f = c ? strchr(from, c) : NULL;
	if (f) {
		*ret = (unsigned char)to[f - from];
	} else if (c == 'x') {
		p->at += 2;
		return hex_escape(p, ret);
	} else if (c >= '0' && c <= '7') {
		uint32_t v = 0;

		p->at++;
		for (int i = 0; i < 3 && p->at < p->end && *p->at >= '0' && *p->at <= '7';
		     i++)
			v = v << 3 | (uint32_t)(*p->at++ - '0');
		*ret = v;
		return 0;
	} else if ((unsigned char)c < 0x80 && !isalnum((unsigned char)c)) {
		*ret = (unsigned char)c;
	} else {
		return 1;
	}
	p->at += 2;
	return 0;
}

/* \d \S \pL \p{Greek}: 1 if it is none of them. */
int re_set_escape(struct re_parser *p, struct re_set *s)
{
	struct re_set one = {0};
	char c = p->at[1];
	bool inverse = isupper((unsigned char)c);
	int r;

	if (c && strchr("dDsSwW", c)) {
		r = re_set_perl(p->pool, &one, (char)(c | 32));
		p->at += 2;
	} else if (c == 'p' || c == 'P') {
		const char *name = p->at + 2;
		size_t len = 1;

		p->at += 2;
		if (re_more(p, '{')) {
			const char *close = memchr(name, '}', (size_t)(p->end - name));

			if (!close)
				return re_bad(p, "\\p{ without }");
			name++;
			len = (size_t)(close - name);
			p->at = close;
		}
		if (p->at >= p->end)
			return re_bad(p, "\\p at the end");
		p->at++;
		if (len > 1 && name[0] == '^') {
			inverse = !inverse;
			name++;
			len--;
		}
		r = re_set_unicode(p->pool, &one, name, len);
	} else {
		return 1;
	}
	if (r == -EINVAL)
		return re_bad(p, "no such class");
	re_set_tidy(&one);
	if (r == 0 && inverse)
		r = re_set_invert(p->pool, &one);
	if (r == 0 && inverse && (c == 'P' || c == 'p')) /* a superset, either way */
		r = re_set_add(p->pool, &one, 0x80, RUNE_MAX);
	for (size_t i = 0; r == 0 && i < one.n; i++)
		r = re_set_add(p->pool, s, one.r[i].lo, one.r[i].hi);
	return r < 0 ? re_bad(p, "too large") : 0;
}

/* ---- [...] ------------------------------------------------------------------------ */

static int posix_class(struct re_parser *p, struct re_set *s)
{
	const char *close;
	struct re_set one = {0};
	bool inverse;
	int r;

	for (close = p->at + 2; close + 1 < p->end; close++)
		if (close[0] == ':' && close[1] == ']')
			break;
	if (close + 1 >= p->end)
		return 1;
	inverse = p->at[2] == '^';
	r = re_set_posix(p->pool, &one, p->at + 2 + inverse,
			 (size_t)(close - p->at - 2 - inverse));
	if (r == -EINVAL)
		return re_bad(p, "no such class");
	re_set_tidy(&one);
	if (r == 0 && inverse)
		r = re_set_invert(p->pool, &one);
	for (size_t i = 0; r == 0 && i < one.n; i++)
		r = re_set_add(p->pool, s, one.r[i].lo, one.r[i].hi);
	p->at = close + 2;
	return r < 0 ? re_bad(p, "too large") : 0;
}

static int class_char(struct re_parser *p, uint32_t *ret)
{
	int r;

	if (p->at >= p->end)
		return re_bad(p, "[ without ]");
	if (*p->at != '\\') {
		*ret = re_rune(p);
		return 0;
	}
	r = re_char_escape(p, ret);
	return r == 1 ? re_bad(p, "no such escape") : r;
}

static int class_item(struct re_parser *p, struct re_set *s)
{
	uint32_t lo, hi;
	int r = 1;

	if (p->end - p->at > 2 && p->at[0] == '[' && p->at[1] == ':')
		r = posix_class(p, s);
	else if (p->end - p->at > 1 && *p->at == '\\')
		r = re_set_escape(p, s);
	if (r != 1)
		return r;
	if (class_char(p, &lo) < 0)
		return p->err->code;
	hi = lo;
	if (p->end - p->at > 1 && p->at[0] == '-' && p->at[1] != ']') {
		p->at++;
		if (class_char(p, &hi) < 0)
			return p->err->code;
		if (hi < lo)
			return re_bad(p, "a range the wrong way round");
	}
	return re_set_add(p->pool, s, lo, hi) < 0 ? re_bad(p, "too large") : 0;
}

int re_finish_set(struct re_parser *p, struct re_set *s, bool inverse)
{
	if (p->f.fold && re_set_fold(p->pool, s) < 0)
		return re_bad(p, "too large");
	re_set_tidy(s);
	return inverse && re_set_invert(p->pool, s) < 0 ? re_bad(p, "too large") : 0;
}

int re_class(struct re_parser *p, struct re_node **ret)
{
	struct re_node *n = re_new(p, RE_SET);
	bool inverse, first = true;

	if (!n)
		return p->err->code;
	p->at++;
	inverse = re_more(p, '^');
	p->at += inverse;
	while (first || !re_more(p, ']')) {
		if (p->at >= p->end)
			return re_bad(p, "[ without ]");
		if (class_item(p, &n->set) < 0)
			return p->err->code;
		first = false;
	}
	p->at++;
	if (re_finish_set(p, &n->set, inverse) < 0)
		return p->err->code;
	*ret = n;
	return 0;
}
