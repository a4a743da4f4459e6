/* SPDX-License-Identifier: Apache-2.0 */
/* value - see value.h: memory, and values from a library's objects. */
#include "policy/value_impl.h"

#include "base/util.h"

#define CHUNK_FIRST 256
#define CHUNK_MAX 16384

struct value_chunk {
	struct value_chunk *next;
	size_t used, room;
	struct value v[];
};

void values_clear(struct values *v)
{
	while (v->chunks) {
		struct value_chunk *c = v->chunks;

		v->chunks = c->next;
		free(c);
	}
	free(v->text);
	v->text = NULL;
}

struct value *value_new(struct values *v, enum value_type type)
{
	struct value_chunk *c = v->chunks;

	if (!c || c->used == c->room) {
		size_t room = c ? min_size(c->room * 4, CHUNK_MAX) : CHUNK_FIRST;

		c = malloc(sizeof(*c) + room * sizeof(c->v[0]));
		if (!c)
			return NULL;
		*c = (struct value_chunk){.next = v->chunks, .room = room};
		v->chunks = c;
	}
	c->v[c->used] = (struct value){.type = type};
	return &c->v[c->used++];
}

static struct value *make(struct values *v, json_t *json, unsigned depth);

static bool make_list(struct values *v, struct value *out, json_t *json, unsigned depth)
{
	const struct value **tail = &out->first;

	for (; out->n < json_array_size(json); out->n++) {
		struct value *c = make(v, json_array_get(json, out->n), depth);

		if (!c)
			return false;
		*tail = c;
		tail = &c->next;
	}
	return true;
}

static bool make_map(struct values *v, struct value *out, json_t *json, unsigned depth)
{
	const struct value **tail = &out->first;
	const char *key;
	json_t *from;

	json_object_foreach(json, key, from)
	{
		struct value *c = make(v, from, depth);

		if (!c)
			return false;
		c->key = key;
		*tail = c;
		tail = &c->next;
		out->n++;
	}
	return true;
}

static struct value *make(struct values *v, json_t *json, unsigned depth)
{
	static const enum value_type types[] = {
		[JSON_OBJECT] = VALUE_MAP,  [JSON_ARRAY] = VALUE_LIST,
		[JSON_STRING] = VALUE_TEXT, [JSON_INTEGER] = VALUE_NUMBER,
		[JSON_REAL] = VALUE_NULL,   [JSON_TRUE] = VALUE_BOOL,
		[JSON_FALSE] = VALUE_BOOL,  [JSON_NULL] = VALUE_NULL,
	};
	struct value *out;

	if (!json || depth > VALUE_DEPTH_MAX)
		return NULL;
	out = value_new(v, types[json_typeof(json)]);
	if (!out)
		return NULL;
	if (out->type == VALUE_TEXT)
		out->text = json_string_value(json);
	else if (out->type == VALUE_NUMBER)
		out->number = json_integer_value(json);
	else if (out->type == VALUE_BOOL)
		out->number = json_is_true(json);
	else if (out->type == VALUE_LIST && !make_list(v, out, json, depth + 1))
		return NULL;
	else if (out->type == VALUE_MAP && !make_map(v, out, json, depth + 1))
		return NULL;
	return out;
}

const struct value *value_of_json(struct values *v, json_t *json)
{
	return make(v, json, 0);
}

const struct value *value_get(const struct value *v, const char *key)
{
	if (!v || v->type != VALUE_MAP)
		return NULL;
	for (v = v->first; v; v = v->next)
		if (strcmp(v->key, key) == 0)
			return v;
	return NULL;
}

const char *value_text(const struct value *v)
{
	return v && v->type == VALUE_TEXT ? v->text : NULL;
}

const struct value *value_first(const struct value *v)
{
	return v && (v->type == VALUE_LIST || v->type == VALUE_MAP) ? v->first : NULL;
}
