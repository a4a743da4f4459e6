/* SPDX-License-Identifier: Apache-2.0 */
/* walk - the rules whose host is the one asked for, in their order. Private. */
#ifndef COVE_POLICY_WALK_H
#define COVE_POLICY_WALK_H

#include "policy/image.h"

struct walk {
	struct cursor {
		const uint32_t *at, *end; /* never empty */
	} cursor[LABELS_MAX + 130];       /* each suffix or prefix length, and "any" */
	unsigned n;
	bool secret; /* a secret's pattern matches */
};

/* name, or ip without one. HOST_INTERNAL is found by its own name only. */
void walk_start(struct walk *w, const struct policy *p, const char *name,
		const struct addr *ip);
uint32_t walk_next(struct walk *w); /* POLICY_NO_RULE: no more */

#endif
