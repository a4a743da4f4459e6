/* SPDX-License-Identifier: Apache-2.0 */
#include "core/guestfile.h"

#include "os/program.h"

const char *guest_file(struct cove_error *err)
{
	static _Thread_local char cache[PATH_MAX];

	return program_find(cache, "cove-guest", "COVE_GUEST", err);
}

const char *keeper_file(struct cove_error *err)
{
	static _Thread_local char cache[PATH_MAX];

	return program_find(cache, "cove-keeper", "COVE_KEEPER", err);
}
