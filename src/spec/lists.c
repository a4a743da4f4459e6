/* SPDX-License-Identifier: Apache-2.0 */
/* lists - kinds that hold several strings: hosts, ports, environment, mounts. */
#include "spec/bind.h"
#include "spec/check.h"
#include "spec/seen.h"

#include "base/util.h"

#define AT(type, s, f) ((type *)(void *)((char *)(s) + (f)->offset))
#define AT_CONST(type, s, f) \
	((type const *)(const void *)((const char *)(s) + (f)->offset))

/* The elements of n: those of a list, or in append mode n itself. NULL ends them. */
static const struct node *elements(struct bind *b, const struct node *n,
				   const char *example)
{
	if (n->type == NODE_LIST)
		return n->first;
	if (b->append && n->type == NODE_SCALAR)
		return n;
	if (n->type != NODE_NULL && n->type != NODE_BAD)
		complain(b, n, "expected a list, such as %s", example);
	return NULL;
}

/* ---- strings -------------------------------------------------------------------- */

static void strings_free(struct spec_strings *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
	*l = (struct spec_strings){0};
}

/* Takes over text, also on failure. */
static int strings_add(struct spec_strings *l, char *text)
{
	char **v = text ? reallocarray(l->v, l->n + 1, sizeof(*v)) : NULL;

	if (!v) {
		free(text);
		return -ENOMEM;
	}
	v[l->n++] = text;
	l->v = v;
	return 0;
}

static bool strings_have(const struct spec_strings *l, const char *text)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i], text) == 0)
			return true;
	return false;
}

static void strings_clear(const struct field *f, struct spec *s)
{
	strings_free(AT(struct spec_strings, s, f));
}

static int strings_copy(const struct field *f, struct spec *dst, const struct spec *src)
{
	const struct spec_strings *from = AT_CONST(struct spec_strings, src, f);
	struct spec_strings out = {0};

	for (size_t i = 0; i < from->n; i++)
		if (strings_add(&out, strdup(from->v[i])) < 0) {
			strings_free(&out);
			return -ENOMEM;
		}
	*AT(struct spec_strings, dst, f) = out;
	return 0;
}

static bool strings_same(const struct field *f, const struct spec *a,
			 const struct spec *b)
{
	const struct spec_strings *x = AT_CONST(struct spec_strings, a, f);
	const struct spec_strings *y = AT_CONST(struct spec_strings, b, f);

	for (size_t i = 0; i < x->n && x->n == y->n; i++)
		if (strcmp(x->v[i], y->v[i]) != 0)
			return false;
	return x->n == y->n;
}

/* Takes text over; twice is the same as once. */
static void strings_take(struct bind *b, const struct field *f, struct spec_strings *l,
			 struct seen *seen, char *text, const struct node *n)
{
	int is_new = b->append ? !strings_have(l, text) : seen_add(seen, text);

	if (is_new < 0)
		b->p->nomem = true;
	else if (is_new && l->n >= field_max(f))
		complain(b, n, "more than %zu elements", field_max(f));
	else if (is_new) {
		if (strings_add(l, text) < 0)
			b->p->nomem = true;
		return;
	}
	free(text);
}

static void strings_bind(struct bind *b, const struct field *f, void *base,
			 const struct node *n)
{
	struct spec_strings *l = AT(struct spec_strings, base, f);
	const struct text_rule *rule = f->arg;
	cleanup_seen struct seen seen = {0};
	size_t i = 0;

	if (!b->append)
		strings_free(l);
	for (const struct node *e = elements(b, n, "[a, b]"); e; e = e->next, i++) {
		size_t saved = path_push_index(b, i);
		char *text = bind_string(b, e, rule);

		path_pop(b, saved);
		if (text)
			strings_take(b, f, l, &seen, text, e);
		if (n->type != NODE_LIST)
			break;
	}
}

/* A single port as a number, which is how people write it. */
static json_t *text_dump(const char *text)
{
	uint64_t port;

	return port_parse(text, &port) ? json_integer((json_int_t)port)
				       : json_string(text);
}

static json_t *strings_dump(const struct field *f, const struct spec *s,
			    bool explicit_only)
{
	const struct spec_strings *l = AT_CONST(struct spec_strings, s, f);
	json_t *out = json_array();

	(void)explicit_only;
	for (size_t i = 0; i < l->n && out; i++)
		if (json_array_append_new(out, text_dump(l->v[i])) < 0) {
			json_decref(out);
			out = NULL;
		}
	return out;
}

const struct kind kind_strings = {
	strings_bind, strings_clear, strings_copy, strings_same, strings_dump, NULL,
};

/* ---- environment ---------------------------------------------------------------- */

static int env_put(struct spec_strings *l, const char *name, const char *value)
{
	size_t n = strlen(name), size = n + strlen(value) + 2;
	char *text = malloc(size);

	if (!text)
		return -ENOMEM;
	snprintf(text, size, "%s=%s", name, value);
	for (size_t i = 0; i < l->n; i++)
		if (strncmp(l->v[i], text, n + 1) == 0) {
			free(l->v[i]);
			l->v[i] = text;
			return 0;
		}
	return strings_add(l, text);
}

static void env_entry(struct bind *b, struct spec_strings *l, const struct node *n,
		      const char *name, const char *value)
{
	const char *why = check_env_name(name);
	char show[SHOWN_MAX];

	if (why)
		complain(b, n, "'%s' %s", shown(show, name), why);
	else if (strlen(value) + strlen(name) >= SPEC_STR_MAX)
		complain(b, n, "'%s' is too long; at most %d bytes", name, SPEC_STR_MAX);
	else if (l->n >= NODE_KEYS_MAX)
		complain(b, n, "more than %d variables", NODE_KEYS_MAX);
	else if (env_put(l, name, value) < 0)
		b->p->nomem = true;
}

/* "NAME=VALUE", from spec_set(). */
static void env_word(struct bind *b, struct spec_strings *l, const struct node *n)
{
	const char *eq = strchr(n->text, '=');
	cleanup_free char *name = eq ? strndup(n->text, (size_t)(eq - n->text)) : NULL;
	char show[SHOWN_MAX];

	if (!eq)
		complain(b, n, "'%s' has no value; write NAME=VALUE",
			 shown(show, n->text));
	else if (!name)
		b->p->nomem = true;
	else
		env_entry(b, l, n, name, eq + 1);
}

static void env_bind(struct bind *b, const struct field *f, void *base,
		     const struct node *n)
{
	struct spec_strings *l = AT(struct spec_strings, base, f);

	if (n->type == NODE_SCALAR && b->append) {
		env_word(b, l, n);
		return;
	}
	if (n->type == NODE_NULL)
		strings_free(l);
	else if (n->type != NODE_MAP && n->type != NODE_BAD)
		complain(b, n, "expected names and values, such as {CI: \"1\"}");
	for (const struct node *e = n->type == NODE_MAP ? n->first : NULL; e;
	     e = e->next) {
		size_t saved = path_push(b, e->key);
		const char *value = bind_text(b, e, "text, or '' for an empty value");

		path_pop(b, saved);
		if (value)
			env_entry(b, l, e, e->key, value);
	}
}

static int env_merge(const struct field *f, struct spec *dst, const struct spec *src)
{
	const struct spec_strings *from = AT_CONST(struct spec_strings, src, f);
	int r = 0;

	for (size_t i = 0; i < from->n && r == 0; i++) {
		const char *eq = strchr(from->v[i], '=');
		cleanup_free char *name = strndup(from->v[i], (size_t)(eq - from->v[i]));

		r = name ? env_put(AT(struct spec_strings, dst, f), name, eq + 1)
			 : -ENOMEM;
	}
	return r;
}

static json_t *env_dump(const struct field *f, const struct spec *s, bool explicit_only)
{
	const struct spec_strings *l = AT_CONST(struct spec_strings, s, f);
	json_t *out = json_object();

	(void)explicit_only;
	for (size_t i = 0; i < l->n && out; i++) {
		const char *eq = strchr(l->v[i], '=');
		cleanup_free char *name = strndup(l->v[i], (size_t)(eq - l->v[i]));

		if (!name || json_object_set_new(out, name, json_string(eq + 1)) < 0) {
			json_decref(out);
			out = NULL;
		}
	}
	return out;
}

const struct kind kind_env = {
	env_bind, strings_clear, strings_copy, strings_same, env_dump, env_merge,
};
