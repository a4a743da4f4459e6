/* SPDX-License-Identifier: Apache-2.0 */
/* path - where the configuration is. */
#ifndef COVE_CLI_PATH_H
#define COVE_CLI_PATH_H

#include <stdbool.h>

char *cli_config_path(void); /* the user's config.yaml; NULL: no home or no memory */
/* Is there any configuration for a command that works on dir? */
bool cli_config_exists(const char *dir);

#endif
