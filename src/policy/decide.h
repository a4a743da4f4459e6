/* SPDX-License-Identifier: Apache-2.0 */
/* decide - one rule against one question; shared with explain. Private. */
#ifndef COVE_POLICY_DECIDE_H
#define COVE_POLICY_DECIDE_H

#include "policy/walk.h"

struct question {
	const struct policy_subject *who; /* never NULL */
	const char *name;
	const struct addr *ip;
	uint16_t port;
	bool request; /* method and path count */
	const char *method, *path;
};

/* The first condition of a rule (other than its host) that does not hold. */
enum miss {
	MISS_NOTHING,
	MISS_PORT,
	MISS_AGENT,
	MISS_TOOL,
	MISS_EXEC,
	MISS_METHOD,
	MISS_PATH,
};
enum miss rule_misses(const struct policy *p, const struct rule *r,
		      const struct question *q);

#endif
