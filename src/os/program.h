/* SPDX-License-Identifier: Apache-2.0 */
/* program - where the programs that belong to libcove are. */
#ifndef COVE_OS_PROGRAM_H
#define COVE_OS_PROGRAM_H

#include "base/error.h"

#include <limits.h>
#include <sys/types.h>

/* Looked for in: the environment variable `env`, beside the running program (a build
 * tree), beside the library, the installation's libexec directory. cache is the caller's,
 * zeroed; what is found stays there and is returned. */
const char *program_find(char cache[PATH_MAX], const char *name, const char *env,
			 struct cove_error *err);

/* Starts a role: descriptors 0 to 3 are these (-1: /dev/null), an empty environment, no
 * signal blocked or ignored, a process group of its own, so that a terminal's ^C is not
 * for it. What else a host program left inheritable, a role closes itself. 0 or -errno.
 */
#define PROGRAM_FDS 4
int program_spawn(const char *file, const char *name, const int fds[PROGRAM_FDS],
		  pid_t *ret);
/* The same with arguments: argv[0] is the name. */
int program_spawn_args(const char *file, const char *const *argv,
		       const int fds[PROGRAM_FDS], pid_t *ret);

#endif
