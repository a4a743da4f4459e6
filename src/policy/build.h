/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build - an image under construction: sections that grow, then the tables over them.
 * Private to src/policy.
 */
#ifndef COVE_POLICY_BUILD_H
#define COVE_POLICY_BUILD_H

#include "policy/image.h"

struct vec {
	void *data;
	size_t n, cap;
};

/* A pattern of a rule, before the tables exist. */
struct name_entry {
	uint32_t hash, name, len, rule;
	uint32_t slot, nth; /* once there is a table: where, and its number there */
	uint8_t list;       /* LIST_* */
	bool secret;
};
struct range_entry {
	struct prefix prefix;
	uint32_t rule;
	bool secret;
};

struct builder {
	struct vec section[SECTIONS]; /* of the records' own types */
	struct vec names, ranges;     /* struct name_entry, struct range_entry */
	struct image head;
};

void builder_clear(struct builder *b);

/* Each appends to a section; 0 or -ENOMEM. */
int build_rule(struct builder *b, const struct rule *r);
int build_port(struct builder *b, uint16_t low, uint16_t high);
int build_prefix(struct builder *b, const struct prefix *p);
int build_text(struct builder *b, const char *s, uint32_t *ret);
int build_word(struct builder *b, const char *s);
/* Patterns of rule number `rule`, which come in ascending order. */
int build_name(struct builder *b, uint32_t rule, enum host_kind kind, const char *name,
	       bool secret);
int build_range(struct builder *b, uint32_t rule, const struct prefix *p, bool secret);
int build_any(struct builder *b, uint32_t rule);

/* How many records a section has: where a span begins or ends. */
static inline uint32_t build_at(const struct builder *b, enum section s)
{
	return (uint32_t)b->section[s].n;
}

/* Makes the tables and appends the whole. */
int build_image(struct builder *b, struct buf *out, struct cove_error *err);

#endif
