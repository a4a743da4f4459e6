/* SPDX-License-Identifier: Apache-2.0 */
/* program - where the programs that belong to libcove are. */
#ifndef COVE_OS_PROGRAM_H
#define COVE_OS_PROGRAM_H

#include "base/error.h"

#include <limits.h>

/* Looked for in: the environment variable `env`, beside the running program (a build
 * tree), beside the library, the installation's libexec directory. cache is the caller's,
 * zeroed; what is found stays there and is returned. */
const char *program_find(char cache[PATH_MAX], const char *name, const char *env,
			 struct cove_error *err);

#endif
