/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_version - the version, and with --json what is compiled in. */
#include "cli/json.h"

#include <stdio.h>

int cmd_version(const struct args *a)
{
	cleanup_string char *json = NULL;
	struct cove_error err = {0};

	if (!cli_has(a, F_JSON)) {
		printf("cove %s\n", cove_version());
		return cli_flush("version", 0);
	}
	if (cove_version_json(&json, &err) < 0)
		return cli_fail("version", &err);
	return cli_json_print("version", json, false, 0);
}
