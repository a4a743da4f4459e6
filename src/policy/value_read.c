/* SPDX-License-Identifier: Apache-2.0 */
/* value_read - values from JSON text, in one pass. */
#include "policy/value_impl.h"

#include "base/util.h"
#include "policy/utf8.h"

struct reader {
	struct values *values;
	char *at, *end;  /* of the copy; *end is NUL */
	const char *why; /* what is wrong there; "": no memory */
};

static bool read_value(struct reader *r, struct value **ret, unsigned depth);

/* Always false, so that `return bad(...)` reads well. */
static bool bad(struct reader *r, const char *why)
{
	if (!r->why)
		r->why = why;
	return false;
}

static void skip_space(struct reader *r)
{
	while (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r')
		r->at++;
}

static bool take(struct reader *r, char c, const char *why)
{
	skip_space(r);
	if (*r->at != c)
		return bad(r, why);
	r->at++;
	return true;
}

/* ---- strings ---------------------------------------------------------------------- */

static int hex4(const char *s)
{
	int v = 0;

	for (int i = 0; i < 4; i++) {
		char c = s[i] | 0x20;

		if (s[i] >= '0' && s[i] <= '9')
			v = v * 16 + (s[i] - '0');
		else if (c >= 'a' && c <= 'f')
			v = v * 16 + (c - 'a' + 10);
		else
			return -1;
	}
	return v;
}

/* \uXXXX, or two of them; r->at is behind the 'u'. 0: not a character that may be. */
static uint32_t unicode_escape(struct reader *r)
{
	int high = hex4(r->at), low;

	if (high < 0)
		return 0;
	r->at += 4;
	if (high < 0xd800 || high > 0xdfff)
		return high >= 0x20 && high != 0x7f ? (uint32_t)high : 0;
	if (high > 0xdbff || r->at[0] != '\\' || r->at[1] != 'u')
		return 0;
	low = hex4(r->at + 2);
	if (low < 0xdc00 || low > 0xdfff)
		return 0;
	r->at += 6;
	return 0x10000u + (((uint32_t)high - 0xd800u) << 10) + ((uint32_t)low - 0xdc00u);
}

/* One escape, r->at behind the backslash; what it stands for is never longer. */
static bool escape(struct reader *r, char **out)
{
	char c = *r->at++;
	uint32_t u;

	if (c == '"' || c == '\\' || c == '/') {
		*(*out)++ = c;
		return true;
	}
	u = c == 'u' ? unicode_escape(r) : 0;
	if (u == 0)
		return bad(r, "an escape that is not allowed here");
	*out += utf8_put(u, *out);
	return true;
}

/* A string, r->at on its first quote; it is made and terminated where it is. */
static bool read_text(struct reader *r, const char **ret)
{
	char *start = ++r->at, *out = start;

	while (*r->at != '"') {
		unsigned char c = (unsigned char)*r->at;
		uint32_t u;
		int n = 1;

		if (c < 0x20 || c == 0x7f)
			return bad(r, r->at == r->end ? "a string does not end"
						      : "a control character");
		if (c == '\\') {
			r->at++;
			if (!escape(r, &out))
				return false;
			continue;
		}
		if (c >= 0x80)
			n = utf8_get(r->at, (size_t)(r->end - r->at), &u);
		if (n < 0)
			return bad(r, "invalid UTF-8");
		for (; n > 0; n--)
			*out++ = *r->at++;
	}
	r->at++;
	*out = '\0';
	*ret = start;
	return true;
}

/* ---- the rest --------------------------------------------------------------------- */

static bool read_number(struct reader *r, struct value *v)
{
	bool minus = *r->at == '-';
	char *digits = r->at += minus;

	for (; *r->at >= '0' && *r->at <= '9'; r->at++) {
		if (r->at - digits >= 15)
			return bad(r, "a number that is too large");
		v->number = v->number * 10 + (*r->at - '0');
	}
	if (r->at == digits || (*digits == '0' && r->at - digits > 1) || *r->at == '.' ||
	    *r->at == 'e' || *r->at == 'E')
		return bad(r, "not a whole number");
	if (minus)
		v->number = -v->number;
	v->type = VALUE_NUMBER;
	return true;
}

static bool read_word(struct reader *r, struct value *v)
{
	static const struct {
		const char *word;
		enum value_type type;
		int number;
	} words[] = {
		{"true",  VALUE_BOOL, 1},
		{"false", VALUE_BOOL, 0},
		{"null",  VALUE_NULL, 0},
	};

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		size_t n = strlen(words[i].word);

		if (strncmp(r->at, words[i].word, n) != 0)
			continue;
		r->at += n;
		v->type = words[i].type;
		v->number = words[i].number;
		return true;
	}
	return bad(r, "expected a value");
}

static bool read_key(struct reader *r, const struct value *map, const char **ret)
{
	skip_space(r);
	if (*r->at != '"')
		return bad(r, "expected a key in quotes");
	if (map->n >= VALUE_KEYS_MAX)
		return bad(r, "too many keys");
	if (!read_text(r, ret))
		return false;
	if (value_get(map, *ret))
		return bad(r, "a key is given twice");
	return take(r, ':', "expected ':'");
}

/* The elements of a list or map, r->at behind its bracket. */
static bool read_children(struct reader *r, struct value *v, char close, unsigned depth)
{
	const struct value **tail = &v->first;

	skip_space(r);
	if (*r->at == close) {
		r->at++;
		return true;
	}
	for (;;) {
		const char *key = NULL;
		struct value *c;

		if ((close == '}' && !read_key(r, v, &key)) || !read_value(r, &c, depth))
			return false;
		c->key = key;
		*tail = c;
		tail = &c->next;
		v->n++;
		skip_space(r);
		if (*r->at == close) {
			r->at++;
			return true;
		}
		if (!take(r, ',', "expected ',' or the closing bracket"))
			return false;
	}
}

static bool read_value(struct reader *r, struct value **ret, unsigned depth)
{
	struct value *v = value_new(r->values, VALUE_NULL);

	if (!v)
		return bad(r, "");
	if (depth > VALUE_DEPTH_MAX)
		return bad(r, "nested too deep");
	*ret = v;
	skip_space(r);
	switch (*r->at) {
	case '"':
		v->type = VALUE_TEXT;
		return read_text(r, &v->text);
	case '{':
	case '[':
		v->type = *r->at == '{' ? VALUE_MAP : VALUE_LIST;
		r->at++;
		return read_children(r, v, v->type == VALUE_MAP ? '}' : ']', depth + 1);
	case '-':
	case '0' ... '9':
		return read_number(r, v);
	default:
		return read_word(r, v);
	}
}

static unsigned line_at(const char *text, size_t n)
{
	unsigned line = 1;

	for (size_t i = 0; i < n; i++)
		line += text[i] == '\n';
	return line;
}

int value_read(struct values *v, const char *text, size_t n, const char *name,
	       const struct value **ret, struct cove_error *err)
{
	struct reader r = {.values = v};
	struct value *root;

	if (n > VALUE_TEXT_MAX)
		return fail(err, COVE_EINVAL, 0, "%s: larger than %u MiB", name,
			    VALUE_TEXT_MAX >> 20);
	free(v->text);
	v->text = malloc(n + 1);
	if (!v->text)
		return fail_nomem(err);
	memcpy(v->text, text, n);
	v->text[n] = '\0';
	r.at = v->text;
	r.end = v->text + n;
	if (read_value(&r, &root, 0)) {
		skip_space(&r);
		if (r.at != r.end)
			bad(&r, "something after the end");
	}
	if (r.why && !*r.why)
		return fail_nomem(err);
	if (r.why)
		return fail(err, COVE_EINVAL, 0, "%s:%u: not valid JSON: %s", name,
			    line_at(text, min_size((size_t)(r.at - v->text), n)), r.why);
	*ret = root;
	return 0;
}
