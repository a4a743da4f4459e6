/* SPDX-License-Identifier: Apache-2.0 */
/* state - state.json: how the last run of a sandbox ended. Pure. */
#ifndef COVE_SPEC_STATE_H
#define COVE_SPEC_STATE_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define STATE_TEXT_MAX 65536u

struct state {
	char reason[200];
	char hint[300]; /* what more there is to say about it; may be empty */
	int64_t started_at, ended_at; /* seconds since 1970 */
};

/* COVE_EDAMAGED with the line, for anything but one object with these members. */
int state_parse(struct state *ret, const char *text, size_t len, struct cove_error *err);
char *state_print(const struct state *s); /* malloc'd JSON, NULL without memory */

#endif
