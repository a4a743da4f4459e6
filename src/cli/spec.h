/* SPDX-License-Identifier: Apache-2.0 */
/* spec - from the flags of run, create and set to a spec. */
#ifndef COVE_CLI_SPEC_H
#define COVE_CLI_SPEC_H

#include "cli/cli.h"

/* Flags that say what a sandbox is, as opposed to how one command runs in it. */
#define SPEC_FLAGS \
	(FLAG(F_BACKEND) | FLAG(F_IMAGE) | FLAG(F_MOUNT) | FLAG(F_NO_MOUNTS) | \
	 FLAG(F_MASK) | FLAG(F_STORAGE) | FLAG(F_NET) | FLAG(F_ALLOW) | FLAG(F_DENY) | \
	 FLAG(F_ASK) | FLAG(F_POLICY) | FLAG(F_SECRET) | FLAG(F_USER) | FLAG(F_CPUS) | \
	 FLAG(F_MEMORY) | FLAG(F_DISK) | FLAG(F_SWAP) | FLAG(F_PIDS) | FLAG(F_TTL) | \
	 FLAG(F_IDLE) | FLAG(F_PUBLISH) | FLAG(F_PROFILE) | FLAG(F_SPEC))
#define EXEC_FLAGS (FLAG(F_ENV) | FLAG(F_WORKDIR) | FLAG(F_TIMEOUT))
#define TTY_FLAGS (FLAG(F_TTY) | FLAG(F_NO_TTY) | FLAG(F_INTERACTIVE))

/* The NAME and DIR words: what has a '/' or is "." is a DIR. */
struct workplace {
	const char *name; /* NULL: a one-shot */
	char *dir;        /* absolute; the current directory if none was given */
	bool given;       /* a DIR was given */
};
/* 0, or the exit code after a message. dir is to be freed. */
int cli_workplace(const struct args *a, struct workplace *ret);

/* Configuration, profile, --spec, COVE_BACKEND, flags, then the default mount. 0, or the
 * exit code after a message. *ret_name (if not NULL): the name that the spec file gives.
 */
int cli_spec_build(const struct args *a, const struct workplace *w,
		   struct cove_spec **ret, char **ret_name);

/* The flags alone, over what is there. 0, or the exit code after a message. */
int cli_spec_flags(const struct args *a, struct cove_spec *spec);

/* Those about the network that are more than one key each; cli_spec_flags() calls it. */
int cli_spec_network(const struct args *a, struct cove_spec *spec);

#endif
