/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names - one synthetic address (v4 and v6) for each name that was asked for.
 *
 * 198.18.0.0/15 without its first and last 256, and fd63:6f76:65::/64 with the same
 * number in the last 32 bits. Bounded (NAMES_MAX); a name that nobody asked for within
 * its answer's TTL plus an hour, and that no connection uses, may lose its address when
 * room is needed: the one unused for longest goes first, and its number is not given out
 * again before all others have been. A live name is never re-pointed; when all are live,
 * new names get SERVFAIL.
 */
#ifndef COVE_EGRESS_NAMES_H
#define COVE_EGRESS_NAMES_H

#include "policy/addr.h"
#include "policy/host.h"

#define NAMES_MAX 65536
#define NAMES_TTL 60 /* seconds, in our answers: less if upstream says less */

struct names;
struct name {
	char text[HOST_MAX + 1];
	uint32_t number; /* the low bits of its addresses */
	uint32_t refs;   /* connections */
	int64_t used_ms; /* last asked for or connected to */
	struct name *hash_next, *lru_next, *lru_prev;
};

int names_new(struct names **ret, uint32_t max);
void names_free(struct names *n);
/* The entry for a normalised name, made if need be; NULL: full of live ones, or ENOMEM.
 */
const struct name *names_get(struct names *n, const char *text, int64_t now_ms);
/* Who has this synthetic address? NULL: nobody. */
const struct name *names_by_addr(struct names *n, const struct addr *a, int64_t now_ms);
bool names_is_synthetic(const struct addr *a);
void names_addr(const struct name *e, bool v6, struct addr *ret);
const struct name *name_ref(const struct name *e);
void name_unref(struct names *n, const struct name *e);

#endif
