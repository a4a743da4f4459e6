/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/backend.h"

static const struct backend *const backends[] = {&backend_process, NULL};

const struct backend *const *backend_list(void)
{
	return backends;
}

int backend_pick(const struct backend **ret, enum spec_backend want,
		 struct cove_error *err)
{
	switch (want) {
	case BACKEND_AUTO:
	case BACKEND_PROCESS:
		/* The start itself is the proof: any layer that is missing fails it. */
		*ret = &backend_process;
		return 0;
	case BACKEND_VM:
		fail(err, COVE_EUNSUPPORTED, 0, "backend vm: not in this build");
		return hint(err, "'cove version' lists what is; use --backend process");
	default:
		fail(err, COVE_EUNSUPPORTED, 0, "backend remote: not in this build");
		return hint(err, "'cove version' lists what is; use --backend process");
	}
}
