/* SPDX-License-Identifier: Apache-2.0 */
/* toml_scalar - white space, strings, numbers, booleans and dates of TOML. */
#include "scan/toml_impl.h"

#include "base/buf.h"
#include "base/util.h"

#include <ctype.h>

void toml_blank(struct toml_parser *p)
{
	while (p->at < p->end && (*p->at == ' ' || *p->at == '\t'))
		p->at++;
}

void toml_space(struct toml_parser *p)
{
	for (; p->at < p->end; p->at++) {
		char c = *p->at;

		if (c == '#') {
			const char *nl = memchr(p->at, '\n', (size_t)(p->end - p->at));

			p->at = nl ? nl : p->end;
			if (!nl)
				return;
			c = '\n';
		}
		if (c == '\n')
			p->line++;
		else if (c != ' ' && c != '\t' && c != '\r')
			return;
	}
}

/* ---- strings ---------------------------------------------------------------------- */

static int put_rune(struct buf *b, uint32_t c)
{
	unsigned char u[4];
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};

	for (size_t i = n; i-- > 1; c >>= 6)
		u[i] = (unsigned char)(0x80 | (c & 0x3f));
	u[0] = (unsigned char)(lead[n] | c);
	return buf_append(b, u, n);
}

static int escape_rune(struct toml_parser *p, struct buf *b, int digits)
{
	uint32_t c = 0;

	for (int i = 0; i < digits; i++, p->at++) {
		if (p->at >= p->end || !isxdigit((unsigned char)*p->at))
			return toml_bad(p, "a Unicode escape needs more hex digits");
		c = c << 4 |
		    (uint32_t)(isdigit((unsigned char)*p->at) ? *p->at - '0'
							      : (*p->at | 32) - 'a' + 10);
	}
	if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return toml_bad(p, "an escape that is no character");
	return put_rune(b, c) < 0 ? toml_bad(p, "too much text") : 0;
}

/* Behind a backslash. */
static int escape(struct toml_parser *p, struct buf *b, bool many)
{
	static const char from[] = "btnfre\"\\", to[] = "\b\t\n\f\r\033\"\\";
	char c = p->at < p->end ? *p->at++ : '\0';
	const char *f = c ? strchr(from, c) : NULL;

	if (f)
		return buf_append(b, &to[f - from], 1) < 0 ? toml_bad(p, "too much text")
							   : 0;
	if (c == 'u' || c == 'U')
		return escape_rune(p, b, c == 'u' ? 4 : 8);
	if (many && (c == '\n' || c == ' ' || c == '\t' || c == '\r')) {
		bool broken = false; /* "\ newline" joins; "\ x" is an error */

		for (p->at--; p->at < p->end && strchr(" \t\r\n", *p->at); p->at++)
			if (*p->at == '\n') {
				broken = true;
				p->line++;
			}
		if (broken)
			return 0;
	}
	return toml_bad(p, "an escape that does not exist");
}

static bool starts(const struct toml_parser *p, char q, ptrdiff_t n)
{
	if (p->end - p->at < n)
		return false;
	for (ptrdiff_t i = 0; i < n; i++)
		if (p->at[i] != q)
			return false;
	return true;
}

/* Up to two quotes may stand just before the closing three. */
static int close_many(struct toml_parser *p, struct buf *b, char q)
{
	while (starts(p, q, 4)) {
		if (buf_append(b, &q, 1) < 0)
			return toml_bad(p, "too much text");
		p->at++;
	}
	p->at += 3;
	return 0;
}

static int string_body(struct toml_parser *p, struct buf *b, char q, bool many)
{
	for (;;) {
		if (p->at >= p->end || (*p->at == '\n' && !many))
			return toml_bad(p, "a string without its end");
		if (many ? starts(p, q, 3) : *p->at == q)
			break;
		if (*p->at == '\n')
			p->line++;
		if (q == '"' && *p->at == '\\') {
			p->at++;
			if (escape(p, b, many) < 0)
				return p->err->code;
		} else if (buf_append(b, p->at++, 1) < 0) {
			return toml_bad(p, "too much text");
		}
	}
	if (many)
		return close_many(p, b, q);
	p->at++;
	return 0;
}

int toml_string(struct toml_parser *p, struct toml *ret, bool many)
{
	cleanup_buf struct buf b = BUF_INIT(TOML_MAX_TEXT);
	char q = *p->at;
	bool three = starts(p, q, 3);

	if (three && !many)
		return toml_bad(p, "a key cannot have several lines");
	p->at += three ? 3 : 1;
	if (three && p->at < p->end && *p->at == '\r')
		p->at++;
	if (three && p->at < p->end && *p->at == '\n') {
		p->at++;
		p->line++;
	}
	if (string_body(p, &b, q, three) < 0)
		return p->err->code;
	ret->len = b.len;
	ret->text = pool_copy(p->pool, b.data, b.len);
	return ret->text ? 0 : toml_bad(p, "too much text");
}

/* ---- the rest --------------------------------------------------------------------- */

static bool whole_number(const char *s, int64_t *ret)
{
	static const struct {
		char letter;
		int base;
	} bases[] = {
		{'x', 16},
                {'o', 8 },
                {'b', 2 }
        };
	int base = 10;
	char *end;

	for (size_t i = 0; s[0] == '0' && i < ARRAY_LEN(bases); i++)
		if (s[1] == bases[i].letter)
			base = bases[i].base;
	if (base != 10)
		s += 2;
	if (base != 10 && !isxdigit((unsigned char)*s))
		return false;
	errno = 0;
	*ret = strtoll(s, &end, base);
	return end != s && *end == '\0' && errno == 0;
}

static bool float_number(const char *s, double *ret)
{
	char *end;

	if (strpbrk(s, "xXpP")) /* strtod() reads more than TOML does */
		return false;
	*ret = strtod(s, &end);
	return end != s && *end == '\0';
}

static bool date(const char *s)
{
	return isdigit((unsigned char)s[0]) &&
	       strspn(s, "0123456789-:.TtZz+ ") == strlen(s) && strpbrk(s, "-:") != NULL;
}

static int word(struct toml_parser *p, struct toml *t)
{
	char s[64], plain[64];
	size_t n = 0, m = 0;

	while (p->at < p->end && n + 1 < sizeof(s) && !strchr(",]}#\r\n", *p->at))
		s[n++] = *p->at++;
	while (n && (s[n - 1] == ' ' || s[n - 1] == '\t'))
		n--;
	s[n] = '\0';
	for (size_t i = 0; i <= n; i++)
		if (s[i] != '_')
			plain[m++] = s[i];
	if (strcmp(s, "true") == 0 || strcmp(s, "false") == 0) {
		t->type = TOML_BOOL;
		t->yes = s[0] == 't';
	} else if (whole_number(plain, &t->number)) {
		t->type = TOML_INT;
		t->real = (double)t->number;
	} else if (float_number(plain, &t->real)) {
		t->type = TOML_FLOAT;
	} else if (date(s)) {
		t->text = pool_copy(p->pool, s, n);
		t->len = n;
		return t->text ? 0 : toml_bad(p, "too much text");
	} else {
		return toml_bad(p, "not a value");
	}
	return 0;
}

int toml_scalar(struct toml_parser *p, struct toml **ret)
{
	struct toml *t = toml_node(p, TOML_STRING);
	int r;

	if (!t)
		return p->err->code;
	r = *p->at == '"' || *p->at == '\'' ? toml_string(p, t, true) : word(p, t);
	if (r == 0)
		*ret = t;
	return r;
}
