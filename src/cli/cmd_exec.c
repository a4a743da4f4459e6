/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_exec - exec, shell and attach: a process of a running sandbox, joined to this one.
 */
#include "cli/session.h"
#include "cli/spec.h"

typedef int session_fn(const struct session *s, struct outcome *ret,
		       struct cove_error *err);

static int join(const struct args *a, session_fn *fn, bool with_command)
{
	const char *verb = a->cmd->name;
	cleanup_env char **env = NULL;
	struct cove_error err = {0};
	struct outcome out = {0};
	struct session s = {
		.argv = with_command ? (const char *const *)a->rest : NULL,
		.cwd = cli_value(a, F_WORKDIR),
		.tty = cli_want_tty(a),
		.main = cli_has(a, F_DETACH),
		.agent = cli_value(a, F_AGENT),
		.tool = cli_value(a, F_TOOL),
		.offline = cli_has(a, F_OFFLINE),
		.ask = cli_has(a, F_ASK) && !cli_has(a, F_DETACH),
	};
	int code = cli_env(a, &env);

	if (code == 0)
		code = cli_timeout(a, &s.timeout_ms);
	if (code)
		return code;
	s.env = (const char *const *)env;
	if (cove_connect(&s.box, a->words[0], &err) < 0)
		return cli_fail(verb, &err);
	code = fn(&s, &out, &err) < 0 ? cli_fail(verb, &err)
				      : cli_session_exit(verb, &out);
	cove_free(s.box);
	return code;
}

int cmd_exec(const struct args *a)
{
	if (!a->rest || !a->rest[0])
		return cli_usage(a->cmd, "no command: put it after '--'");
	return join(a, cli_has(a, F_DETACH) ? cli_session_detached : cli_session, true);
}

int cmd_shell(const struct args *a)
{
	return join(a, cli_session_shell, false);
}

int cmd_attach(const struct args *a)
{
	return join(a, cli_session, false);
}
