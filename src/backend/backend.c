/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/backend.h"

static const struct backend *const backends[] = {&backend_vm, &backend_process, NULL};

const struct backend *const *backend_list(void)
{
	return backends;
}

int backend_pick(const struct backend **ret, const struct place_config *c,
		 struct cove_error *err)
{
	switch (c->spec->backend) {
	case BACKEND_AUTO:
		*ret = backend_vm_is_best(c) ? &backend_vm : &backend_process;
		return 0;
	case BACKEND_PROCESS:
		/* The start itself is the proof: any layer that is missing fails it. */
		*ret = &backend_process;
		return 0;
	case BACKEND_VM:
		*ret = &backend_vm;
		return 0;
	default:
		fail(err, COVE_EUNSUPPORTED, 0, "backend remote: not in this build");
		return hint(err, "'cove version' lists what is; use --backend process");
	}
}
