/* SPDX-License-Identifier: Apache-2.0 */
/* toml_impl - what the two halves of the TOML parser share. */
#ifndef COVE_SCAN_TOML_IMPL_H
#define COVE_SCAN_TOML_IMPL_H

#include "scan/toml.h"

struct toml_parser {
	const char *at, *end;
	uint32_t line, values;
	struct pool *pool;
	struct cove_error *err;
};

int toml_bad(struct toml_parser *p, const char *why); /* COVE_EINVAL, with the line */
struct toml *toml_node(struct toml_parser *p, enum toml_type type);
int toml_value(struct toml_parser *p, struct toml **ret, int depth);

void toml_blank(struct toml_parser *p); /* skips spaces and tabs */
void toml_space(struct toml_parser *p); /* and line ends and comments */
/* At a quote. many: the forms of several lines are allowed (not in keys). */
int toml_string(struct toml_parser *p, struct toml *ret, bool many);
int toml_scalar(struct toml_parser *p, struct toml **ret);

#endif
