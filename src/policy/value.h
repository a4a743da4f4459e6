/* SPDX-License-Identifier: Apache-2.0 */
/*
 * value - JSON as the compiler of policies reads it: from a library's objects, or
 * straight from text. Private to src/policy.
 *
 * A policy file of ten thousand rules must be in force within milliseconds of being
 * saved, and building library objects for it would take several times that. So text is
 * read in one pass over a copy of it, in which strings stay where they are.
 *
 * The text is strict JSON, with less: integers only, no key twice, no control characters,
 * bounded depth and width.
 */
#ifndef COVE_POLICY_VALUE_H
#define COVE_POLICY_VALUE_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum value_type {
	VALUE_NULL,
	VALUE_BOOL,
	VALUE_NUMBER,
	VALUE_TEXT,
	VALUE_LIST,
	VALUE_MAP
};

struct value {
	enum value_type type;
	uint32_t n;      /* children */
	const char *key; /* in a map */
	union {
		const char *text;          /* of a text: UTF-8, no NUL inside */
		int64_t number;            /* of a number or bool */
		const struct value *first; /* of a list or map; NULL: empty */
	};
	const struct value *next;
};

struct values { /* owns them; zero: empty */
	struct value_chunk *chunks;
	char *text; /* the copy that was read */
};
void values_clear(struct values *v);
#define cleanup_values __attribute__((cleanup(values_clear)))

/* Strings are borrowed from json. NULL: no memory, no json, or too deep. */
const struct value *value_of_json(struct values *v, json_t *json);
/* name: of the file, for errors "NAME:LINE: what". */
int value_read(struct values *v, const char *text, size_t n, const char *name,
	       const struct value **ret, struct cove_error *err);

/* The value of a key; NULL if there is none, or v is no map. */
const struct value *value_get(const struct value *v, const char *key);
const char *value_text(const struct value *v); /* or NULL */
/* The first child of a list or map; NULL: none, or something else. */
const struct value *value_first(const struct value *v);

#endif
