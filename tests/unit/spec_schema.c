/* SPDX-License-Identifier: Apache-2.0 */
/*
 * docs/spec.schema.json and the tables of src/spec say the same: every key and every word
 * of an enum is in both.
 */
#include "tap.h"

#include "base/util.h"
#include "spec/bind.h"

static json_t *schema;

/* Follows "$ref": "#/$defs/NAME". */
static json_t *deref(json_t *node)
{
	const char *ref = json_string_value(json_object_get(node, "$ref"));

	if (ref && strncmp(ref, "#/$defs/", 8) == 0)
		return json_object_get(json_object_get(schema, "$defs"), ref + 8);
	return node;
}

/* The part of node that has this member: itself, what it refers to, or one of its
 * choices. */
static json_t *member(json_t *node, const char *key)
{
	json_t *choices, *v;
	size_t i;

	node = deref(node);
	v = json_object_get(node, key);
	choices = json_object_get(node, "anyOf");
	for (i = 0; !v && i < json_array_size(choices); i++)
		v = member(json_array_get(choices, i), key);
	return v;
}

static void same_words(const char *path, const char *const *names, json_t *node)
{
	json_t *words = member(node, "enum");
	size_t n = 0;

	for (; names[n]; n++) {
		const char *word = json_string_value(json_array_get(words, n));

		OK(word && strcmp(word, names[n]) == 0, "%s: word '%s'", path, names[n]);
	}
	OK(json_array_size(words) == n, "%s: no other words", path);
}

static void same_keys(const char *path, const struct object *o, json_t *node);

static void same_field(const char *path, const struct field *f, json_t *node)
{
	if (f->kind == &kind_enum || f->kind == &item_enum)
		same_words(path, f->arg, node);
	else if (f->kind == &kind_object || f->kind == &kind_backend ||
		 f->kind == &kind_gate || f->kind == &item_map || f->kind == &kind_body)
		same_keys(path, f->arg, node);
	else if (f->kind == &kind_list || f->kind == &kind_mounts ||
		 f->arg == &route_object || f->arg == &agent_object)
		same_keys(path, f->arg, member(node, "items"));
	else if (f->arg == &provider_object)
		same_keys(path, f->arg,
			  json_object_get(deref(node), "additionalProperties"));
	if (f->kind == &kind_backend)
		same_words(path, backend_names, node);
}

static const struct field *find(const struct object *o, const char *key)
{
	for (size_t i = 0; i < o->n; i++)
		if (strcmp(o->fields[i].key, key) == 0)
			return &o->fields[i];
	return NULL;
}

static bool listed(const json_t *list, const char *word)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		if (strcmp(json_string_value(json_array_get(list, i)), word) == 0)
			return true;
	return false;
}

static void same_keys(const char *path, const struct object *o, json_t *node)
{
	json_t *properties = member(node, "properties"),
	       *required = member(node, "required");
	const char *key;
	json_t *v;

	OK(json_is_false(member(node, "additionalProperties")), "%s: no other keys",
	   path);
	for (size_t i = 0; i < o->n; i++) {
		char below[200];

		snprintf(below, sizeof(below), "%s.%s", path, o->fields[i].key);
		v = json_object_get(properties, o->fields[i].key);
		OK(v, "%s is in the schema", below);
		OK(o->fields[i].required == listed(required, o->fields[i].key),
		   "%s: required in both or neither", below);
		if (v)
			same_field(below, &o->fields[i], v);
	}
	json_object_foreach(properties, key, v)
	{
		OK(find(o, key), "%s.%s is in the tables", path, key);
	}
}

/* The defaults that the schema names are those of spec_init(). */
static void same_defaults(const char *path, json_t *node, json_t *value)
{
	json_t *def = json_object_get(node, "default"), *properties, *v;
	const char *key;

	if (def && !json_is_object(value))
		OK(json_equal(def, value), "%s: default", path);
	if (!json_is_object(value))
		return;
	properties = member(node, "properties");
	json_object_foreach(value, key, v)
	{
		char below[200];

		snprintf(below, sizeof(below), "%s.%s", path, key);
		same_defaults(below, json_object_get(properties, key), v);
	}
}

int main(void)
{
	json_error_t why;
	struct spec s;
	json_t *defaults;

	schema = json_load_file("docs/spec.schema.json", JSON_REJECT_DUPLICATES, &why);
	OK(schema, "docs/spec.schema.json is JSON%s%s", schema ? "" : ": ",
	   schema ? "" : why.text);
	if (!schema)
		return tap_done();
	same_keys("spec", &spec_object, schema);
	same_keys("config", &config_object,
		  json_object_get(json_object_get(schema, "$defs"), "config"));
	spec_init(&s);
	defaults = spec_json(&s, false);
	same_defaults("spec", schema, defaults);
	json_decref(defaults);
	json_decref(schema);
	spec_clear(&s);
	return tap_done();
}
