/* SPDX-License-Identifier: Apache-2.0 */
/* spawn - starts one process in a session of its own, vfork-style. */
#ifndef COVE_GUEST_SPAWN_H
#define COVE_GUEST_SPAWN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SPAWN_PATH_MAX 4096

enum spawn_stage { SPAWN_FORK, SPAWN_SETUP, SPAWN_USER, SPAWN_CWD, SPAWN_EXEC };

struct spawn {
	char **argv, **envp; /* NULL-terminated; argv[0] is looked up in PATH of envp */
	const char *cwd;     /* or NULL */
	int fd[3];           /* become 0, 1, 2 */
	bool tty;            /* fd[1] is a terminal to be controlled by */
	bool die_with_us;
	const uint32_t *uid, *gid; /* or NULL: unchanged */
	enum spawn_stage stage;    /* on failure: what failed */
};

/* The process id, or -errno. On failure there is no process left. */
pid_t spawn(struct spawn *s);

#endif
