/* SPDX-License-Identifier: Apache-2.0 */
/*
 * toml - a TOML 1.0 document as a tree. Pure: no system call, no output.
 *
 * Rule files come from users and projects, so the text is bounded in size, depth and
 * number of values, and every refusal names the line. Dates are kept as text.
 */
#ifndef COVE_SCAN_TOML_H
#define COVE_SCAN_TOML_H

#include "base/error.h"
#include "scan/pool.h"

#include <stdbool.h>
#include <stdint.h>

#define TOML_MAX_TEXT (8u << 20)
#define TOML_MAX_DEPTH 16
#define TOML_MAX_VALUES 200000u
#define TOML_MAX_KEYS 1024u /* in one table: they are looked up one by one */

enum toml_type { TOML_TABLE, TOML_ARRAY, TOML_STRING, TOML_INT, TOML_FLOAT, TOML_BOOL };

struct toml {
	enum toml_type type;
	uint8_t made; /* how it came to be; for the parser only */
	uint32_t n;   /* children */
	uint32_t line;
	const char *key; /* NULL in arrays */
	struct toml *first, *last, *next;
	const char *text; /* TOML_STRING, without a NUL inside */
	size_t len;
	int64_t number;
	double real; /* also set for TOML_INT */
	bool yes;
};

/* *ret lives in pool. COVE_EINVAL "line N: why". */
int toml_parse(struct toml **ret, struct pool *pool, const char *text, size_t len,
	       struct cove_error *err);

const struct toml *toml_get(const struct toml *table, const char *key); /* or NULL */

#endif
