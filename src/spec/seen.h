/* SPDX-License-Identifier: Apache-2.0 */
/* seen - have I seen this text before? A set of borrowed strings, for long lists. */
#ifndef COVE_SPEC_SEEN_H
#define COVE_SPEC_SEEN_H

#include <stddef.h>

struct seen { /* zero: empty */
	const char **slots;
	size_t n, size; /* size: a power of two */
};

/* 1: new, and remembered as long as text lives; 0: seen before; -ENOMEM. */
int seen_add(struct seen *s, const char *text);
void seen_clear(struct seen *s);
#define cleanup_seen __attribute__((cleanup(seen_clear)))

#endif
