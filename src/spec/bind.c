/* SPDX-License-Identifier: Apache-2.0 */
/* bind - the walk over maps, and what all kinds share. */
#include "spec/bind.h"

#include "base/util.h"

#include <stdarg.h>

/* "network.rules[2]: ", or nothing at the top. */
static const char *path_text(const struct bind *b, char *out, size_t size)
{
	size_t len = 0;

	out[0] = '\0';
	for (size_t i = 0; i < b->depth && len < size; i++) {
		const struct step *s = &b->path[i];
		char show[SHOWN_MAX];

		if (s->key)
			len += (size_t)snprintf(out + len, size - len, "%s%s",
						i ? "." : "", shown(show, s->key));
		else
			len += (size_t)snprintf(out + len, size - len, "[%zu]", s->i);
	}
	if (len > 0 && len < size)
		snprintf(out + len, size - len, ": ");
	return out;
}

void complain(struct bind *b, const struct node *n, const char *fmt, ...)
{
	char text[440], path[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	problem_add(b->p, n->line, "%s%s", path_text(b, path, sizeof(path)), text);
}

static size_t step_push(struct bind *b, struct step s)
{
	size_t saved = b->depth;

	if (b->depth < BIND_DEPTH_MAX)
		b->path[b->depth++] = s;
	return saved;
}

size_t path_push(struct bind *b, const char *key)
{
	return step_push(b, (struct step){.key = key});
}

size_t path_push_index(struct bind *b, size_t i)
{
	return b->append ? b->depth : step_push(b, (struct step){.i = i});
}

void path_pop(struct bind *b, size_t saved)
{
	b->depth = saved;
}

static const struct field *field_find(const struct object *o, const char *key)
{
	for (size_t i = 0; i < o->n; i++)
		if (strcmp(o->fields[i].key, key) == 0)
			return &o->fields[i];
	return NULL;
}

/* The key may be a known one that belongs one level further down. */
static const struct field *nearest_below(const struct object *o, struct nearest *near)
{
	const struct field *found = NULL;

	for (size_t i = 0; i < o->n; i++) {
		const struct object *sub = o->fields[i].arg;
		const char *best = near->best;

		if (o->fields[i].kind != &kind_object && o->fields[i].kind != &kind_body)
			continue;
		for (size_t j = 0; j < sub->n; j++)
			nearest_try(near, sub->fields[j].key);
		if (near->best != best)
			found = &o->fields[i];
	}
	return found;
}

static void unknown_key(struct bind *b, const struct object *o, const struct node *n)
{
	struct nearest near = {.word = n->key};
	struct node at = {.line = n->key_line};
	const struct field *below;
	char show[SHOWN_MAX], all[300] = "";
	size_t len = 0;

	for (size_t i = 0; i < o->n; i++) {
		nearest_try(&near, o->fields[i].key);
		if (len < sizeof(all))
			len += (size_t)snprintf(all + len, sizeof(all) - len, "%s%s",
						i ? ", " : "", o->fields[i].key);
	}
	below = near.best ? NULL : nearest_below(o, &near);
	if (near.best)
		complain(b, &at, "unknown key '%s'; did you mean '%s%s%s'?",
			 shown(show, n->key), below ? below->key : "", below ? "." : "",
			 near.best);
	else
		complain(b, &at, "unknown key '%s'; %s%s", shown(show, n->key),
			 o->n ? "known are " : "there are none here", all);
}

/* Back to the default: what NULL means to spec_set(). */
static void reset_field(struct bind *b, const struct field *f, struct spec *s)
{
	const struct object *o = f->arg;
	struct spec defaults;

	if (f->kind == &kind_object) {
		for (size_t i = 0; i < o->n; i++)
			reset_field(b, &o->fields[i], s);
		return;
	}
	spec_init(&defaults);
	if (f->kind->clear)
		f->kind->clear(f, s);
	if (f->kind->copy(f, s, &defaults) < 0)
		b->p->nomem = true;
	s->resources.set &= ~f->limit;
	s->given |= f->given;
}

static void bind_field(struct bind *b, const struct field *f, void *base,
		       const struct node *n)
{
	size_t before = troubles(b);
	struct spec *s = base;

	if (n->type == NODE_BAD)
		return;
	if (n->type == NODE_LIST && n->n > field_max(f)) {
		complain(b, n, "more than %zu elements", field_max(f));
		return;
	}
	if (n->type == NODE_NULL && b->append && f->kind->copy) {
		reset_field(b, f, s);
		return;
	}
	f->kind->bind(b, f, base, n);
	if (!went_well(b, before))
		return;
	if (f->limit)
		s->resources.set |= f->limit;
	if (f->given)
		s->given |= f->given;
}

static void require_keys(struct bind *b, const struct object *o, const struct node *n)
{
	for (size_t i = 0; i < o->n; i++)
		if (o->fields[i].required && !node_get(n, o->fields[i].key))
			complain(b, n, "needs the key '%s'", o->fields[i].key);
}

void bind_object(struct bind *b, const struct object *o, void *base, const struct node *n)
{
	const struct field *only = o->short_key ? field_find(o, o->short_key) : NULL;

	if (n->type == NODE_SCALAR && only) {
		bind_field(b, only, base, n);
		return;
	}
	if (n->type == NODE_NULL || n->type == NODE_BAD)
		return;
	if (n->type != NODE_MAP) {
		complain(b, n, "expected keys and values, such as %s", o->example);
		return;
	}
	for (const struct node *c = n->first; c; c = c->next) {
		const struct field *f = field_find(o, c->key);
		size_t saved;

		if (!f) {
			unknown_key(b, o, c);
			continue;
		}
		saved = path_push(b, c->key);
		bind_field(b, f, base, c);
		path_pop(b, saved);
	}
	require_keys(b, o, n);
}

const char *bind_text(struct bind *b, const struct node *n, const char *allowed)
{
	if (n->type == NODE_SCALAR)
		return n->text;
	if (n->type == NODE_NULL)
		complain(b, n, "has no value; write %s", allowed);
	else if (n->type != NODE_BAD)
		complain(b, n, "is a %s; write %s", n->type == NODE_LIST ? "list" : "map",
			 allowed);
	return NULL;
}

int bind_enum(struct bind *b, const struct node *n, const char *const *names)
{
	char all[200] = "", show[SHOWN_MAX];
	struct nearest near = {0};
	size_t len = 0;
	const char *text;

	for (size_t i = 0; names[i]; i++)
		len += (size_t)snprintf(all + len, sizeof(all) - len, "%s%s",
					!i             ? ""
					: names[i + 1] ? ", "
						       : " or ",
					names[i]);
	text = bind_text(b, n, all);
	if (!text)
		return -1;
	near.word = text;
	for (int i = 0; names[i]; i++) {
		if (strcmp(names[i], text) == 0)
			return i;
		nearest_try(&near, names[i]);
	}
	if (near.best)
		complain(b, n, "'%s' is not known; did you mean '%s'? (%s)",
			 shown(show, text), near.best, all);
	else
		complain(b, n, "'%s' is not known; write %s", shown(show, text), all);
	return -1;
}

char *bind_string(struct bind *b, const struct node *n, const struct text_rule *rule)
{
	const char *text = bind_text(b, n, rule->allowed), *why;
	char show[SHOWN_MAX], *copy;

	if (!text)
		return NULL;
	why = rule->check ? rule->check(text) : NULL;
	if (why) {
		complain(b, n, "'%s' %s", shown(show, text), why);
		return NULL;
	}
	copy = strdup(text);
	if (!copy)
		b->p->nomem = true;
	for (char *c = copy; rule->fold && c && *c; c++)
		if (*c >= 'A' && *c <= 'Z') /* not tolower(): UTF-8 is no Latin-1 */
			*c |= 0x20;
	return copy;
}

void json_put(struct bind *b, json_t *object, const char *key, json_t *value)
{
	if (!value || json_object_set_new(object, key, value) < 0)
		b->p->nomem = true;
}
