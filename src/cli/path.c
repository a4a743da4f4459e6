/* SPDX-License-Identifier: Apache-2.0 */
/* path - where the configuration is: $XDG_CONFIG_HOME or ~/.config, and the project. */
#include "cli/path.h"
#include "cli/cli.h"

#include <stdio.h>

char *cli_config_path(void)
{
	const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	char *path = NULL;
	int n = -1;

	if (base && *base == '/')
		n = asprintf(&path, "%s/cove/config.yaml", base);
	else if (home && *home == '/')
		n = asprintf(&path, "%s/.config/cove/config.yaml", home);
	return n < 0 ? NULL : path;
}

bool cli_config_exists(const char *dir)
{
	cleanup_free char *user = cli_config_path();
	cleanup_free char *project = NULL;

	if (user && access(user, F_OK) == 0)
		return true;
	if (asprintf(&project, "%s/cove.yaml", dir) < 0)
		project = NULL;
	return project && access(project, F_OK) == 0;
}
