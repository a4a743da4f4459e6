/* SPDX-License-Identifier: Apache-2.0 */
/* session - one process in a sandbox, joined to this terminal or these pipes. */
#ifndef COVE_CLI_SESSION_H
#define COVE_CLI_SESSION_H

#include "cli/cli.h"

struct session {
	struct cove *box;
	const char *const *argv; /* NULL: re-join the main session */
	const char *const *env;
	const char *cwd;
	int64_t timeout_ms;
	bool tty;  /* give it a terminal */
	bool ask;  /* questions of its network are asked here */
	bool main; /* make it the main session; beside another it is an ordinary one */
	const char *agent, *tool; /* for network rules with a scope; NULL: not said */
	bool offline;             /* the command gets no network */
};

struct outcome {
	struct cove_status status;
	int left_by;   /* the signal that ended this client; 0: the process ended */
	bool started;  /* false: the command was not found or not executable, */
	char why[600]; /* and this says which */
};

/* Runs until the process ends or the user's terminal goes away. Signals are passed on. */
int cli_session(const struct session *s, struct outcome *ret, struct cove_error *err);
/* Starts the main session and leaves it alone; ret->status counts if it ended already. */
int cli_session_detached(const struct session *s, struct outcome *ret,
			 struct cove_error *err);
/* As cli_session(), with a shell of the image: bash, or sh where there is none. */
int cli_session_shell(const struct session *s, struct outcome *ret,
		      struct cove_error *err);
/* The exit code of cove; says why if the command could not be started. */
int cli_session_exit(const char *verb, const struct outcome *o);

bool cli_want_tty(const struct args *a);

/* TERM, LANG, LC_*, TZ of the caller, then --env; the array and the strings it made are
 * released with cli_env_free(). 0, or the exit code after a message. */
int cli_env(const struct args *a, char ***ret);
void cli_env_free(char **env);

static inline void cli_envp(char ***env)
{
	cli_env_free(*env);
}
#define cleanup_env __attribute__((cleanup(cli_envp)))

/* --timeout in milliseconds, 0 if not given. 0, or the exit code after a message. */
int cli_timeout(const struct args *a, int64_t *ret_ms);

#endif
