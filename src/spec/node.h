/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node - a YAML or JSON text as a small tree, every node with its line.
 *
 * The text is hostile: depth, nodes, strings and lists are bounded; anchors, aliases,
 * tags, second documents and duplicate keys are refused; no string holds a control
 * character other than tab and newline. What is wrong goes to the problem list, with its
 * line.
 */
#ifndef COVE_SPEC_NODE_H
#define COVE_SPEC_NODE_H

#include "spec/problem.h"

#include <stdbool.h>
#include <stddef.h>

#define NODE_DEPTH_MAX 32
#define NODE_COUNT_MAX 1000000
#define NODE_KEY_MAX 255   /* bytes of a key */
#define NODE_KEYS_MAX 1024 /* keys of a map */

enum node_type {
	NODE_NULL,   /* no value, ~ or null */
	NODE_SCALAR, /* text */
	NODE_LIST,
	NODE_MAP,
	NODE_BAD /* already complained about: skip */
};

struct node {
	enum node_type type;
	unsigned line;     /* of the value */
	unsigned key_line; /* of the key; that of the value where there is none */
	const char *key;   /* in a map, else NULL */
	const char *text;  /* of a scalar; valid UTF-8 without NUL */
	struct node *first, *next;
	size_t n; /* children */
};

struct tree {
	struct chunk *chunks; /* owns nodes and text */
	struct node *root;    /* NULL: the text has no value at all */
};

/* Reads text into t. False if the text could not be read to its end (the problem list
 * says why); a tree that was read may still have problems. t must be released either way.
 */
bool tree_read(struct tree *t, const char *text, size_t len, struct problems *p);
void tree_clear(struct tree *t);
#define cleanup_tree __attribute__((cleanup(tree_clear)))

const struct node *node_get(const struct node *map, const char *key); /* or NULL */

/* Why this text may not be in a file or value: a static string, or NULL if it is fine.
 * *ret_at is the offset of the offending byte. */
const char *text_problem(const char *text, size_t len, size_t *ret_at);

#endif
