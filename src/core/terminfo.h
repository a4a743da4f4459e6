/* SPDX-License-Identifier: Apache-2.0 */
/* terminfo - the entry of the caller's terminal, supplied when the sandbox lacks it. */
#ifndef COVE_CORE_TERMINFO_H
#define COVE_CORE_TERMINFO_H

#include "core/session.h"
#include "spec/spec.h"

/* Best effort in one direction only: a terminal the host does not know either is no
 * error. */
int terminfo_supply(struct session *s, const struct spec *spec, const char *term,
		    struct cove_error *err);

#endif
