/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upstream - one question about one name to the host's resolvers: c-ares on our loop.
 *
 * Nothing here touches a file: we are confined before the first question.
 */
#ifndef COVE_EGRESS_UPSTREAM_H
#define COVE_EGRESS_UPSTREAM_H

#include "egress/lookup.h"

#define UPSTREAM_MS 5000       /* all attempts for a question together */
#define UPSTREAM_SERVERS_MAX 4 /* those beyond are not asked */

struct upstream;
struct upstream_reply {
	enum lookup_status status; /* OK with n 0: no address of this family */
	struct addr addrs[LOOKUP_ADDRS_MAX];
	size_t n;
	uint32_t ttl;    /* the least of them */
	const char *why; /* static text of FAILED */
};
struct upstream_ask {
	struct upstream_query *query; /* upstream's; NULL: not asking */
	void (*fn)(struct upstream_ask *a, const struct upstream_reply *r);
};

int upstream_new(struct upstream **ret, struct loop *l);
void upstream_free(struct upstream *u); /* nobody is called */
/* As lookup_configure(). Questions under way stay with the servers they have. */
int upstream_servers(struct upstream *u, const char *servers);
/* fn is called exactly once, maybe before this returns, unless upstream_forget() came
 * first. */
void upstream_ask(struct upstream *u, const char *name, bool v6, struct upstream_ask *a,
		  void (*fn)(struct upstream_ask *, const struct upstream_reply *));
void upstream_forget(struct upstream_ask *a);

#endif
