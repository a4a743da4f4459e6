/* SPDX-License-Identifier: Apache-2.0 */
/* request - the attributes of one request, checked and copied into memory of our own. */
#ifndef COVE_GUEST_REQUEST_H
#define COVE_GUEST_REQUEST_H

#include "base/util.h"
#include "ipc/wire.h"

#include <stdbool.h>

#define TAG(t) (UINT64_C(1) << (t))

struct request {
	uint64_t seen;                    /* TAG() of each attribute that came */
	uint32_t num[WIRE_A_LAST + 1];    /* the u32 ones */
	uint64_t time_ns;                 /* TIME_NS */
	const char *str[WIRE_A_LAST + 1]; /* the single strings */
	char **list[WIRE_A_LAST + 1];     /* ARG, ENV, PATH: NULL-terminated */
	size_t count[WIRE_A_LAST + 1];    /* of the lists, and bytes of SEED */
	void *arena;                      /* what all of these point into */
};

/* allowed: the tags this request may carry; once: of the repeatable ones, those that may
 * come only once here. 0; -EPROTO: malformed; -EOPNOTSUPP: a tag it may not carry;
 * -ENOMEM. The request must be cleared after success only. */
int request_parse(struct request *r, const struct wire_frame *f, uint64_t allowed);
void request_clear(struct request *r);

static inline bool request_has(const struct request *r, unsigned tag)
{
	return (r->seen & TAG(tag)) != 0;
}

#define cleanup_request __attribute__((cleanup(request_clear)))

#endif
