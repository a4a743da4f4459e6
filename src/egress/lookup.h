/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup - real addresses of allowed names: the host's resolver through c-ares, the
 * host's /etc/hosts first, and a bounded cache that honours TTLs (5 s to 5 min; failures
 * 5 s).
 */
#ifndef COVE_EGRESS_LOOKUP_H
#define COVE_EGRESS_LOOKUP_H

#include "egress/loop.h"
#include "policy/addr.h"

#include <stddef.h>

#define LOOKUP_ADDRS_MAX 32
#define LOOKUP_CACHE_MAX 16384
#define LOOKUP_PENDING_MAX 1024

struct lookup;
int lookup_new(struct lookup **ret, struct loop *l);
void lookup_free(struct lookup *l);
/* servers: addresses, "ADDR" or "ADDR#PORT", comma-separated; hosts: text of /etc/hosts.
 * Pending queries go on with what they have. */
int lookup_configure(struct lookup *l, const char *servers, const char *hosts);

enum lookup_status { LOOKUP_OK, LOOKUP_NXDOMAIN, LOOKUP_FAILED, LOOKUP_BUSY };

struct lookup_result {
	enum lookup_status status;
	const struct addr *addrs; /* v6 and v4 in the order of preference */
	size_t n;                 /* OK with 0: the name exists and has no address */
	uint32_t ttl;
	const char *why; /* static text of FAILED */
};
struct lookup_wait {
	void (*fn)(struct lookup_wait *w, const struct lookup_result *r);
	struct lookup_wait *next, **link; /* the lookup's; NULL: not waiting */
};
/* fn is called exactly once: before this returns if the answer is cached. Queries for the
 * same name share one. At most 5 s. */
void lookup_start(struct lookup *l, const char *name, struct lookup_wait *w,
		  void (*fn)(struct lookup_wait *, const struct lookup_result *));
void lookup_cancel(struct lookup_wait *w);

#endif
