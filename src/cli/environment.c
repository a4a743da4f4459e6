/* SPDX-License-Identifier: Apache-2.0 */
/*
 * environment - what of the caller's surroundings goes into the sandbox: TERM, LANG,
 * LC_*, TZ, and what --env names. Nothing else.
 */
#include "cli/session.h"

#include <stdio.h>

static bool passes(const char *entry)
{
	static const char *const names[] = {"TERM=", "LANG=", "LC_", "TZ="};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strncmp(entry, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

bool cli_want_tty(const struct args *a)
{
	if (cli_has(a, F_TTY) || cli_has(a, F_NO_TTY))
		return cli_has(a, F_TTY);
	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

void cli_env_free(char **env)
{
	for (size_t i = 0; env && env[i]; i++)
		free(env[i]);
	free(env);
}

static char *entry_of(const char *flag)
{
	const char *value;
	char *entry;

	if (strchr(flag, '='))
		return strdup(flag);
	value = getenv(flag);
	return value && asprintf(&entry, "%s=%s", flag, value) >= 0 ? entry : NULL;
}

int cli_env(const struct args *a, char ***ret)
{
	cleanup_env char **env = NULL;
	size_t n = 0, room = a->n_given + 1;

	for (char **e = environ; e && *e; e++)
		room += passes(*e);
	env = calloc(room, sizeof(*env));
	if (!env)
		return cli_failf(a->cmd->name, NULL, "out of memory");
	for (char **e = environ; e && *e; e++)
		if (passes(*e) && (env[n] = strdup(*e)))
			n++;
	for (size_t i = 0; i < a->n_given; i++) {
		const char *value = a->given[i].value;

		if (a->given[i].id != F_ENV)
			continue;
		if (*value == '=' || *value == '\0')
			return cli_usage(a->cmd, "--env %s: a variable needs a name",
					 value);
		env[n] = entry_of(value);
		if (!env[n++])
			return cli_usage(a->cmd, "--env %s: not set in your environment",
					 value);
	}
	*ret = env;
	env = NULL;
	return 0;
}

int cli_timeout(const struct args *a, int64_t *ret_ms)
{
	const char *text = cli_value(a, F_TIMEOUT);

	if (text && cli_duration(text, ret_ms) < 0)
		return cli_usage(a->cmd,
				 "--timeout %s: not a duration like 90s, 5m or 2h", text);
	return 0;
}
