/* SPDX-License-Identifier: Apache-2.0 */
/* items - kinds that are kept as validated JSON: elements of lists, the gate, commands.
 */
#include "spec/bind.h"
#include "spec/check.h"
#include "spec/seen.h"

#include "base/util.h"

#define AT(s, f) ((json_t **)(void *)((char *)(s) + (f)->offset))
#define AT_CONST(s, f) (*(json_t *const *)(const void *)((const char *)(s) + (f)->offset))

/* ---- keys of an element --------------------------------------------------------- */

static void item_enum_bind(struct bind *b, const struct field *f, void *base,
			   const struct node *n)
{
	const char *const *names = f->arg;
	int v = bind_enum(b, n, names);

	if (v >= 0)
		json_put(b, base, f->key, json_string(names[v]));
}

static void item_text_bind(struct bind *b, const struct field *f, void *base,
			   const struct node *n)
{
	cleanup_free char *text = bind_string(b, n, f->arg);

	if (text)
		json_put(b, base, f->key, json_string(text));
}

static bool array_has(const json_t *list, const json_t *value)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		if (json_equal(json_array_get(list, i), value))
			return true;
	return false;
}

/* Appends value (taken over, also on failure). */
static void array_put(struct bind *b, json_t *list, json_t *value)
{
	if (!value || json_array_append_new(list, value) < 0)
		b->p->nomem = true;
}

/* The list to fill: what is there already in append mode, unless that is "everything",
 * which would make the addition pointless. */
static json_t *texts_start(struct bind *b, const struct field *f, json_t *object)
{
	json_t *old = json_object_get(object, f->key), *list;
	const char *only = json_string_value(json_array_get(old, 0));
	bool all = json_array_size(old) == 1 && only && strcmp(only, "**") == 0;

	if (b->append && old && !all)
		return old;
	list = json_array();
	json_put(b, object, f->key, list);
	return list;
}

static void item_texts_bind(struct bind *b, const struct field *f, void *base,
			    const struct node *n)
{
	json_t *list = texts_start(b, f, base);
	size_t i = 0;

	if (n->type != NODE_LIST && !(b->append && n->type == NODE_SCALAR)) {
		if (n->type != NODE_NULL)
			complain(b, n, "expected a list, such as [a, b]");
		else if (list)
			json_array_clear(list);
		return;
	}
	for (const struct node *e = n->type == NODE_LIST ? n->first : n; e; e = e->next) {
		size_t saved = path_push_index(b, i++);
		cleanup_free char *text = bind_string(b, e, f->arg);
		json_t *v = text ? json_string(text) : NULL;

		if (text && array_has(list, v))
			json_decref(v);
		else if (text && json_array_size(list) >= field_max(f)) {
			complain(b, e, "more than %zu elements", field_max(f));
			json_decref(v);
		} else if (text)
			array_put(b, list, v);
		path_pop(b, saved);
	}
}

static json_t *port_json(const char *text)
{
	uint64_t port = 0;

	return strcmp(text, "0") == 0 || port_parse(text, &port)
		       ? json_integer((json_int_t)port)
		       : json_string(text);
}

/* One value, or a list of at least one. what: "a port or a range", for complaints. */
static void some_bind(struct bind *b, const struct field *f, json_t *object,
		      const struct node *n, const struct text_rule *rule,
		      json_t *(*make)(const char *text))
{
	json_t *list = n->type == NODE_LIST ? json_array() : object;
	size_t i = 0;

	if (n->type == NODE_LIST && n->n == 0)
		complain(b, n, "is an empty list; write %s", rule->allowed);
	b->p->nomem |= !list;
	for (const struct node *e = n->type == NODE_LIST ? n->first : n; e && list;
	     e = n->type == NODE_LIST ? e->next : NULL) {
		size_t saved = n->type == NODE_LIST ? path_push_index(b, i++) : 0;
		cleanup_free char *text = bind_string(b, e, rule);

		if (text && n->type == NODE_LIST)
			array_put(b, list, make(text));
		else if (text)
			json_put(b, object, f->key, make(text));
		if (n->type == NODE_LIST)
			path_pop(b, saved);
	}
	if (n->type == NODE_LIST && list)
		json_put(b, object, f->key, list);
}

static json_t *text_json(const char *text)
{
	return json_string(text);
}

static void item_some_bind(struct bind *b, const struct field *f, void *base,
			   const struct node *n)
{
	some_bind(b, f, base, n, f->arg, text_json);
}

static void item_ports_bind(struct bind *b, const struct field *f, void *base,
			    const struct node *n)
{
	static const struct text_rule rule = {check_ports, "a port or a range", false};

	some_bind(b, f, base, n, &rule, port_json);
}

/* One end of a published port: a port, or a path for a socket. */
static void item_end_bind(struct bind *b, const struct field *f, void *base,
			  const struct node *n)
{
	const struct text_rule *rule = f->arg;
	const char *text = bind_text(b, n, rule->allowed);
	char show[SHOWN_MAX];
	uint64_t port;

	if (!text)
		return;
	/* 0: any free port of the host */
	if (!port_parse(text, &port) &&
	    !(rule->check == check_host_end && strcmp(text, "0") == 0) &&
	    (text[strspn(text, "0123456789")] == '\0' || rule->check(text)))
		complain(b, n, "'%s' is not allowed; write %s", shown(show, text),
			 rule->allowed);
	else
		json_put(b, base, f->key, port_json(text));
}

/* NULL after a complaint or without memory. */
static json_t *command_json(struct bind *b, const struct node *n)
{
	static const struct text_rule line_rule = {check_words, "a command", false};
	static const struct text_rule word_rule = {NULL, "a word of the command", false};
	json_t *v;

	if (n->type != NODE_LIST) {
		cleanup_free char *line = bind_string(b, n, &line_rule);

		v = line ? json_string(line) : NULL;
		b->p->nomem |= line && !v;
		return v;
	}
	if (n->n == 0)
		complain(b, n, "is an empty command");
	if (n->n > SPEC_LIST_MAX) {
		complain(b, n, "more than %d words", SPEC_LIST_MAX);
		return NULL;
	}
	v = json_array();
	b->p->nomem |= !v;
	for (const struct node *e = n->first; e && v; e = e->next) {
		cleanup_free char *word =
			bind_string(b, e, e == n->first ? &line_rule : &word_rule);

		if (word)
			array_put(b, v, json_string(word));
	}
	return v;
}

static void item_command_bind(struct bind *b, const struct field *f, void *base,
			      const struct node *n)
{
	json_t *v = command_json(b, n);

	if (v)
		json_put(b, base, f->key, v);
}

static void item_map_bind(struct bind *b, const struct field *f, void *base,
			  const struct node *n)
{
	const struct object *o = f->arg;
	json_t *object;

	if (n->type == NODE_NULL)
		return;
	object = json_object();
	json_put(b, base, f->key, object);
	if (!object)
		return;
	bind_object(b, o, object, n);
	if (o->finish && n->type == NODE_MAP)
		o->finish(b, object, n);
}

/* A bare text is one of the map's values: see struct object. */
static void item_scope_bind(struct bind *b, const struct field *f, void *base,
			    const struct node *n)
{
	static const struct text_rule rule = {check_subject, "a tool", false};

	if (n->type == NODE_SCALAR)
		some_bind(b, f, base, n, &rule, text_json);
	else if (n->type == NODE_MAP && n->n == 0)
		complain(b, n, "is empty; write a tool, or one of agent, tool and exec");
	else
		item_map_bind(b, f, base, n);
}

const struct kind item_enum = {.bind = item_enum_bind};
const struct kind item_text = {.bind = item_text_bind};
const struct kind item_texts = {.bind = item_texts_bind};
const struct kind item_some = {.bind = item_some_bind};
const struct kind item_scope = {.bind = item_scope_bind};
const struct kind item_ports = {.bind = item_ports_bind};
const struct kind item_end = {.bind = item_end_bind};
const struct kind item_command = {.bind = item_command_bind};
const struct kind item_map = {.bind = item_map_bind};

/* ---- lists of elements ---------------------------------------------------------- */

json_t *bind_element(struct bind *b, const struct object *o, const struct node *n)
{
	size_t before = troubles(b);
	json_t *object;

	if (n->type == NODE_BAD)
		return NULL;
	if (n->type == NODE_NULL) {
		complain(b, n, "has no value; write %s", o->example);
		return NULL;
	}
	object = json_object();
	if (!object)
		b->p->nomem = true;
	else if (n->type == NODE_SCALAR && o->shorthand)
		o->shorthand(b, object, n);
	else {
		/* An element is new even in append mode, and so are the lists in it. */
		bool append = b->append;

		b->append = false;
		bind_object(b, o, object, n);
		b->append = append;
	}
	if (object && o->finish && went_well(b, before))
		o->finish(b, object, n);
	return object;
}

/* Complains, or in append mode makes room, if an element has the same id. */
static void list_unique(struct bind *b, const struct object *o, json_t *list, json_t *id,
			struct seen *seen, const struct node *n)
{
	char show[SHOWN_MAX];

	if (json_is_integer(id) && json_integer_value(id) == 0)
		return; /* any free port: as many as are wanted */
	if (!b->append && json_is_string(id)) {
		int r = seen_add(seen, json_string_value(id));

		b->p->nomem |= r < 0;
		if (r == 0)
			complain(b, n, "%s '%s' is given twice", o->unique,
				 shown(show, json_string_value(id)));
		return;
	}
	for (size_t i = 0; i < json_array_size(list); i++) {
		if (!json_equal(json_object_get(json_array_get(list, i), o->unique), id))
			continue;
		if (b->append) /* one more flag for the same thing: the later wins */
			json_array_remove(list, i--);
		else
			complain(b, n, "%s %lld is given twice", o->unique,
				 (long long)json_integer_value(id));
	}
}

static void list_take(struct bind *b, const struct field *f, json_t *list, json_t *object,
		      struct seen *seen, const struct node *n)
{
	const struct object *o = f->arg;
	json_t *id = o->unique ? json_object_get(object, o->unique) : NULL;

	if (id)
		list_unique(b, o, list, id, seen, n);
	if (json_array_size(list) >= field_max(f))
		complain(b, n, "more than %zu elements", field_max(f));
	else if (json_array_append(list, object) < 0)
		b->p->nomem = true;
}

static json_t *list_start(struct bind *b, const struct field *f, struct spec *s)
{
	json_t **at = AT(s, f);

	if (!b->append) {
		json_decref(*at);
		*at = NULL;
	}
	if (!*at)
		*at = json_array();
	if (!*at)
		b->p->nomem = true;
	return *at;
}

static bool list_ok(struct bind *b, const struct node *n, const char *example)
{
	if (n->type == NODE_LIST || (b->append && n->type == NODE_SCALAR))
		return true;
	if (n->type != NODE_NULL)
		complain(b, n, "expected a list, such as [%s]", example);
	return false;
}

static void list_bind(struct bind *b, const struct field *f, void *base,
		      const struct node *n)
{
	const struct object *o = f->arg;
	json_t *list = list_start(b, f, base);
	cleanup_seen struct seen seen = {0};
	size_t i = 0;

	if (!list || !list_ok(b, n, o->example))
		return;
	for (const struct node *e = n->type == NODE_LIST ? n->first : n; e; e = e->next) {
		size_t saved = path_push_index(b, i++);
		size_t before = troubles(b);
		json_t *object = bind_element(b, o, e);

		if (object && went_well(b, before))
			list_take(b, f, list, object, &seen, e);
		json_decref(object);
		path_pop(b, saved);
	}
}

static void commands_bind(struct bind *b, const struct field *f, void *base,
			  const struct node *n)
{
	json_t *list = list_start(b, f, base);
	size_t i = 0;

	if (!list || !list_ok(b, n, "apt-get install -y jq"))
		return;
	for (const struct node *e = n->type == NODE_LIST ? n->first : n; e; e = e->next) {
		size_t saved = path_push_index(b, i++);
		json_t *v = command_json(b, e);

		if (json_array_size(list) >= SPEC_LIST_MAX) {
			complain(b, e, "more than %d commands", SPEC_LIST_MAX);
			json_decref(v);
		} else if (v)
			array_put(b, list, v);
		path_pop(b, saved);
	}
}

static void json_clear(const struct field *f, struct spec *s)
{
	json_decref(*AT(s, f));
	*AT(s, f) = NULL;
}

/* Deep: reference counts are not for two threads, and copies may be on two. */
static int json_dup(const struct field *f, struct spec *dst, const struct spec *src)
{
	json_t *from = AT_CONST(src, f);

	*AT(dst, f) = json_deep_copy(from);
	return from && !*AT(dst, f) ? -ENOMEM : 0;
}

static bool list_same(const struct field *f, const struct spec *a, const struct spec *b)
{
	const json_t *x = AT_CONST(a, f), *y = AT_CONST(b, f);

	return json_array_size(x) == 0 ? json_array_size(y) == 0 : json_equal(x, y);
}

static json_t *list_dump(const struct field *f, const struct spec *s, bool explicit_only)
{
	json_t *list = AT_CONST(s, f);

	(void)explicit_only;
	return list ? json_deep_copy(list) : json_array();
}

const struct kind kind_list = {
	list_bind, json_clear, json_dup, list_same, list_dump, NULL,
};
const struct kind kind_commands = {
	commands_bind, json_clear, json_dup, list_same, list_dump, NULL,
};

/* ---- the gate ------------------------------------------------------------------- */

static json_t *gate_default(void)
{
	return json_pack("{s:[s], s:[], s:i, s:i}", "allow", "**", "deny", "maxFileMiB",
			 10, "maxTotalMiB", 100);
}

static void gate_bind(struct bind *b, const struct field *f, void *base,
		      const struct node *n)
{
	json_t **at = AT(base, f);

	if (!*at)
		*at = gate_default();
	if (*at)
		bind_object(b, f->arg, *at, n);
	else
		b->p->nomem = true;
}

static json_t *gate_dump(const struct field *f, const struct spec *s, bool explicit_only)
{
	json_t *gate = AT_CONST(s, f);

	(void)explicit_only;
	return gate ? json_deep_copy(gate) : gate_default();
}

static bool gate_same(const struct field *f, const struct spec *a, const struct spec *b)
{
	json_t *x = gate_dump(f, a, false), *y = gate_dump(f, b, false);
	bool same = x && y && json_equal(x, y);

	json_decref(x);
	json_decref(y);
	return same;
}

/* Key by key: what differs from the default was meant. */
static int gate_merge(const struct field *f, struct spec *dst, const struct spec *src)
{
	json_t *from = AT_CONST(src, f), **to = AT(dst, f), *usual, *v;
	const char *key;
	int r = 0;

	if (!from)
		return 0;
	if (!*to)
		return json_dup(f, dst, src);
	usual = gate_default();
	json_object_foreach(from, key, v)
	{
		if (usual && !json_equal(v, json_object_get(usual, key)))
			r |= json_object_set_new(*to, key, json_deep_copy(v));
	}
	r = usual && r == 0 ? 0 : -ENOMEM;
	json_decref(usual);
	return r;
}

const struct kind kind_gate = {
	gate_bind, json_clear, json_dup, gate_same, gate_dump, gate_merge,
};
