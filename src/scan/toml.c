/* SPDX-License-Identifier: Apache-2.0 */
/*
 * toml - tables, keys and values. Strings and numbers are in toml_scalar.c.
 *
 * A table remembers how it was made, because the format forbids to reopen some of them:
 * a header [a] may come once, an inline table or a plain array never grows again.
 */
#include "scan/toml.h"

#include "base/util.h"
#include "scan/toml_impl.h"

enum { MADE_IMPLICIT, MADE_HEADER, MADE_DOTTED, MADE_INLINE, MADE_TABLES };

int toml_bad(struct toml_parser *p, const char *why)
{
	return fail(p->err, COVE_EINVAL, 0, "line %u: %s", p->line, why);
}

struct toml *toml_node(struct toml_parser *p, enum toml_type type)
{
	struct toml *t = NULL;

	if (p->values < TOML_MAX_VALUES)
		t = pool_alloc(p->pool, sizeof(*t));
	if (!t) {
		toml_bad(p, "too many values");
		return NULL;
	}
	p->values++;
	t->type = type;
	t->line = p->line;
	return t;
}

static void append(struct toml *parent, struct toml *child)
{
	if (parent->last)
		parent->last->next = child;
	else
		parent->first = child;
	parent->last = child;
	parent->n++;
}

static struct toml *find(const struct toml *table, const char *key)
{
	for (struct toml *t = table->first; t; t = t->next)
		if (strcmp(t->key, key) == 0)
			return t;
	return NULL;
}

const struct toml *toml_get(const struct toml *table, const char *key)
{
	return table && table->type == TOML_TABLE ? find(table, key) : NULL;
}

static int add_key(struct toml_parser *p, struct toml *table, const char *key,
		   struct toml *value)
{
	if (find(table, key))
		return toml_bad(p, "the same key twice");
	if (table->n >= TOML_MAX_KEYS)
		return toml_bad(p, "too many keys in one table");
	value->key = key;
	append(table, value);
	return 0;
}

/* ---- keys ------------------------------------------------------------------------- */

static bool bare(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '_' || c == '-';
}

static int parse_simple_key(struct toml_parser *p, const char **ret)
{
	const char *start = p->at;

	if (p->at < p->end && (*p->at == '"' || *p->at == '\'')) {
		struct toml s = {0};

		if (toml_string(p, &s, false) < 0)
			return p->err->code;
		*ret = s.text;
		return 0;
	}
	while (p->at < p->end && bare(*p->at))
		p->at++;
	if (p->at == start)
		return toml_bad(p, "a key is missing");
	*ret = pool_copy(p->pool, start, (size_t)(p->at - start));
	return *ret ? 0 : toml_bad(p, "too much text");
}

/* a.b.c: parts[0..n) */
static int parse_key(struct toml_parser *p, const char **parts, int *ret_n)
{
	int n = 0;

	for (;;) {
		if (n == TOML_MAX_DEPTH)
			return toml_bad(p, "a key with too many parts");
		toml_blank(p);
		if (parse_simple_key(p, &parts[n]) < 0)
			return p->err->code;
		n++;
		toml_blank(p);
		if (p->at >= p->end || *p->at != '.')
			break;
		p->at++;
	}
	*ret_n = n;
	return 0;
}

/* The table below t that key names, made if it is not there. */
static struct toml *step(struct toml_parser *p, struct toml *t, const char *key, int made)
{
	struct toml *c = find(t, key);

	if (!c) {
		c = toml_node(p, TOML_TABLE);
		if (!c || add_key(p, t, key, c) < 0)
			return NULL;
		c->made = (uint8_t)made;
		return c;
	}
	if (c->type == TOML_ARRAY && c->made == MADE_TABLES && made == MADE_IMPLICIT)
		return c->last;
	if (c->type != TOML_TABLE || c->made == MADE_INLINE ||
	    (made == MADE_DOTTED && c->made == MADE_HEADER)) {
		toml_bad(p, "this key has a value already");
		return NULL;
	}
	return c;
}

static int parse_pair(struct toml_parser *p, struct toml *table, int depth)
{
	const char *parts[TOML_MAX_DEPTH];
	struct toml *value = NULL;
	int n;

	if (parse_key(p, parts, &n) < 0)
		return p->err->code;
	if (p->at >= p->end || *p->at != '=')
		return toml_bad(p, "expected = after the key");
	p->at++;
	for (int i = 0; i + 1 < n; i++) {
		table = step(p, table, parts[i], MADE_DOTTED);
		if (!table)
			return p->err->code;
	}
	toml_blank(p);
	if (toml_value(p, &value, depth + n) < 0)
		return p->err->code;
	return add_key(p, table, parts[n - 1], value);
}

/* ---- values ----------------------------------------------------------------------- */

static int parse_array(struct toml_parser *p, struct toml **ret, int depth)
{
	struct toml *a = toml_node(p, TOML_ARRAY), *v;

	if (!a)
		return p->err->code;
	p->at++;
	for (;;) {
		toml_space(p);
		if (p->at < p->end && *p->at == ']')
			break;
		if (toml_value(p, &v, depth + 1) < 0)
			return p->err->code;
		append(a, v);
		toml_space(p);
		if (p->at < p->end && *p->at == ',')
			p->at++;
		else if (p->at >= p->end || *p->at != ']')
			return toml_bad(p, "expected , or ] in an array");
	}
	p->at++;
	*ret = a;
	return 0;
}

static int parse_inline(struct toml_parser *p, struct toml **ret, int depth)
{
	struct toml *t = toml_node(p, TOML_TABLE);

	if (!t)
		return p->err->code;
	p->at++;
	toml_blank(p);
	while (p->at < p->end && *p->at != '}') {
		if (parse_pair(p, t, depth + 1) < 0)
			return p->err->code;
		toml_blank(p);
		if (p->at < p->end && *p->at == ',') {
			p->at++;
			toml_blank(p);
			if (p->at < p->end && *p->at == '}')
				return toml_bad(p, "a comma before }");
		} else if (p->at >= p->end || *p->at != '}') {
			return toml_bad(p, "expected , or } in an inline table");
		}
	}
	if (p->at >= p->end)
		return toml_bad(p, "an inline table without its end");
	p->at++;
	t->made = MADE_INLINE;
	*ret = t;
	return 0;
}

int toml_value(struct toml_parser *p, struct toml **ret, int depth)
{
	if (depth > TOML_MAX_DEPTH)
		return toml_bad(p, "nested too deep");
	if (p->at >= p->end)
		return toml_bad(p, "a value is missing");
	if (*p->at == '[')
		return parse_array(p, ret, depth);
	if (*p->at == '{')
		return parse_inline(p, ret, depth);
	return toml_scalar(p, ret);
}

/* ---- headers ---------------------------------------------------------------------- */

static struct toml *open_table(struct toml_parser *p, struct toml *parent,
			       const char *key)
{
	struct toml *t = find(parent, key);

	if (!t) {
		t = toml_node(p, TOML_TABLE);
		if (!t || add_key(p, parent, key, t) < 0)
			return NULL;
	} else if (t->type != TOML_TABLE || t->made != MADE_IMPLICIT) {
		toml_bad(p, "the same table twice");
		return NULL;
	}
	t->made = MADE_HEADER;
	return t;
}

static struct toml *open_tables(struct toml_parser *p, struct toml *parent,
				const char *key)
{
	struct toml *a = find(parent, key), *t;

	if (!a) {
		a = toml_node(p, TOML_ARRAY);
		if (!a || add_key(p, parent, key, a) < 0)
			return NULL;
		a->made = MADE_TABLES;
	} else if (a->type != TOML_ARRAY || a->made != MADE_TABLES) {
		toml_bad(p, "this key has a value already");
		return NULL;
	}
	t = toml_node(p, TOML_TABLE);
	if (!t)
		return NULL;
	t->made = MADE_HEADER;
	append(a, t);
	return t;
}

static int parse_header(struct toml_parser *p, struct toml *root, struct toml **current)
{
	const char *parts[TOML_MAX_DEPTH];
	bool many = p->end - p->at > 1 && p->at[1] == '[';
	struct toml *t = root;
	int n;

	p->at += many ? 2 : 1;
	if (parse_key(p, parts, &n) < 0)
		return p->err->code;
	for (int i = 0; i + 1 < n; i++) {
		t = step(p, t, parts[i], MADE_IMPLICIT);
		if (!t)
			return p->err->code;
	}
	for (int i = 0; i < (many ? 2 : 1); i++, p->at++)
		if (p->at >= p->end || *p->at != ']')
			return toml_bad(p, "a table header without its end");
	t = many ? open_tables(p, t, parts[n - 1]) : open_table(p, t, parts[n - 1]);
	if (!t)
		return p->err->code;
	*current = t;
	return 0;
}

/* ---- document --------------------------------------------------------------------- */

static int parse_line(struct toml_parser *p, struct toml *root, struct toml **current)
{
	int r;

	if (*p->at == '[')
		r = parse_header(p, root, current);
	else
		r = parse_pair(p, *current, 0);
	if (r < 0)
		return r;
	toml_blank(p);
	if (p->at < p->end && *p->at != '\n' && *p->at != '#' && *p->at != '\r')
		return toml_bad(p, "text behind the value");
	return 0;
}

int toml_parse(struct toml **ret, struct pool *pool, const char *text, size_t len,
	       struct cove_error *err)
{
	struct toml_parser p = {text, text + len, 1, 0, pool, err};
	struct toml *root, *current;

	if (len > TOML_MAX_TEXT)
		return fail(err, COVE_EINVAL, 0, "the text is too large");
	if (memchr(text, '\0', len))
		return fail(err, COVE_EINVAL, 0, "there is a NUL in the text");
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		p.at += 3;
	root = current = toml_node(&p, TOML_TABLE);
	if (!root)
		return err->code;
	for (;;) {
		toml_space(&p);
		if (p.at >= p.end)
			break;
		if (parse_line(&p, root, &current) < 0)
			return err->code;
	}
	*ret = root;
	return 0;
}
