/* SPDX-License-Identifier: Apache-2.0 */
/* path - where the configuration is. */
#ifndef COVE_CLI_PATH_H
#define COVE_CLI_PATH_H

#include <stdbool.h>

struct args;

char *cli_config_path(void); /* the user's config.yaml; NULL: no home or no memory */
/* Is there any configuration for a command that works on dir? */
bool cli_config_exists(const char *dir);

/* The words behind the first, as the library takes them: NULL-terminated, to be freed.
 * NULL: out of memory, or no current directory. */
char **cli_paths(const struct args *a);
void cli_paths_free(char **paths);

static inline void cli_pathsp(char ***paths)
{
	cli_paths_free(*paths);
}
#define cleanup_paths __attribute__((cleanup(cli_pathsp)))

#endif
