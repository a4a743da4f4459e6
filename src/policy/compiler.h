/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compiler - rules from JSON values, one after the other, into a builder. Private to
 * src/policy.
 */
#ifndef COVE_POLICY_COMPILER_H
#define COVE_POLICY_COMPILER_H

#include "policy/build.h"
#include "policy/value.h"

struct compiler {
	struct builder build;
	struct values values; /* what is read from JSON lives here until the end */
	struct cove_error *err;
	size_t hosts;     /* patterns so far */
	struct rule rule; /* the one being made */
	bool secret;      /* its hosts are a secret's, which is swapped there */
	/* What stands at the top, for allowedHosts and secrets. */
	struct span ports;
	const struct value *addresses[2]; /* of the spec and of the file; or NULL */
};

/* A rule is begun, gets its keys, and ends; all return 0 or a negative COVE_E*. */
int rule_begin(struct compiler *c);
int rule_key(struct compiler *c, const struct value *v);
int rule_host(struct compiler *c, const char *pattern);
int rule_hosts(struct compiler *c, const struct value *v);
int rule_port(struct compiler *c, uint16_t port);
int rule_addresses(struct compiler *c, const struct value *v);
/* Its id, if it has none: "WHAT:WORD", or "WHAT[i]" without a word. */
int rule_end(struct compiler *c, const char *what, const char *word, size_t i);

/* Helpers of both. */
int wrong(struct compiler *c, const char *what, const char *text, const char *why);
int one_of(struct compiler *c, const char *what, const struct value *v,
	   const char *const *names, uint8_t *ret);
int take_port(struct compiler *c, const struct value *v); /* or a range, or a list */
uint16_t port_number(const char *s, size_t n);            /* 0: not a port */

#endif
