/* SPDX-License-Identifier: Apache-2.0 */
/* request - the EXEC request: environment, working directory and arguments in one
 * payload. */
#ifndef COVE_CORE_REQUEST_H
#define COVE_CORE_REQUEST_H

#include "base/error.h"
#include "ipc/wire.h"
#include "spec/spec.h"

/* Fills o with the request. The environment inside is made anew: a fixed base, then the
 * spec's, then o's; nothing of this process's own environment is looked at. */
int request_exec(struct wire_out *out, const struct spec *spec, const char *name,
		 const struct cove_exec_options *o, uint32_t flags,
		 struct cove_error *err);

#endif
