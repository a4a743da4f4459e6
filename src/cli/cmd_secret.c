/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_secret - the store of secrets: setting, listing and removing them. */
#include "cli/json.h"
#include "cli/secret.h"

#include <stdio.h>
#include <time.h>

/* ---- set ------------------------------------------------------------------------------
 */

/* Before the value is asked for; the library says it once more. */
static bool is_name(const char *s)
{
	return *s && !(*s >= '0' && *s <= '9') &&
	       !s[strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
			    "0123456789_")];
}

static int set(const struct args *a)
{
	const char *env = cli_value(a, F_FROM_ENV), *file = cli_value(a, F_VALUE_FILE);
	bool command = cli_has(a, F_COMMAND);
	struct cove_secret_options o = {.size = sizeof(o),
					.name = a->words[1],
					.hosts = cli_value(a, F_HOSTS),
					.env = env,
					.file = file};
	struct cove_error err = {0};
	const char *text = NULL;
	int code;

	if (a->n_words != 2)
		return cli_usage(a->cmd, a->n_words < 2 ? "set: no name"
							: "a value is not given on the "
							  "command line");
	if (!is_name(o.name))
		return cli_failf("secret",
				 "a name is that of a variable: letters, digits and '_'",
				 "'%.60s' is not a name for a secret", o.name);
	if (!!env + !!file + command > 1)
		return cli_usage(a->cmd, "--from-env, --file, --command: choose one");
	if (command != (a->rest && a->rest[0]))
		return cli_usage(a->cmd, command ? "--command: put the command after '--'"
						 : "a command needs --command");
	if (command)
		o.command = (const char *const *)a->rest;
	if (!env && !file && !command) {
		code = cli_secret_read("secret", o.name, &text, &o.value_size);
		if (code)
			return code;
		o.value = text;
	}
	code = cove_secret_set(&o, &err) < 0 ? cli_fail("secret", &err) : 0;
	cli_secret_forget();
	return code;
}

/* ---- ls -------------------------------------------------------------------------------
 */

static void join(const json_t *names, char *out, size_t size)
{
	size_t len = 0, i;
	const json_t *name;

	*out = '\0';
	json_array_foreach(names, i, name)
	{
		if (len < size)
			len += (size_t)snprintf(out + len, size - len, "%s%s",
						i ? ", " : "", json_string_value(name));
	}
}

static int print_table(const json_t *list)
{
	static const char *const heads[] = {"NAME", "HOSTS", "SET", "KEY"};
	cleanup_table struct table *t = cli_table_new(ARRAY_LEN(heads), heads);
	const json_t *v;
	size_t i;

	json_array_foreach(list, i, v)
	{
		time_t changed = json_integer_value(json_object_get(v, "changed"));
		const char *problem = cli_json_text(v, "problem");
		char hosts[600], date[32] = "";
		const char *cells[4] = {cli_json_text(v, "name"), hosts, date,
					cli_json_text(v, "key")};
		struct tm tm;

		join(json_object_get(v, "hosts"), hosts, sizeof(hosts));
		if (!*hosts)
			cells[1] = problem && *problem ? problem : NULL;
		if (localtime_r(&changed, &tm))
			strftime(date, sizeof(date), "%Y-%m-%d %H:%M", &tm);
		if (!t || cli_table_row(t, cells, NULL) < 0)
			return cli_failf("secret", NULL, "out of memory");
	}
	cli_table_print(t);
	return cli_flush("secret", 0);
}

static int list(const struct args *a)
{
	struct cove_error err = {0};
	char *text = NULL;

	if (a->n_words > 1)
		return cli_usage(a->cmd, "%s: one argument too many", a->words[1]);
	if (cove_secret_list_json(&text, &err) < 0)
		return cli_fail("secret", &err);
	return cli_json_list(a, text, print_table);
}

/* ---- rm -------------------------------------------------------------------------------
 */

/* One that fails does not stop the others. */
static int remove_all(const struct args *a)
{
	int code = 0;

	if (a->n_words < 2)
		return cli_usage(a->cmd, "rm: no name");
	for (size_t i = 1; i < a->n_words; i++) {
		struct cove_error err = {0};

		if (cove_secret_remove(a->words[i], &err) < 0)
			code = cli_fail("secret", &err);
	}
	return code;
}

int cmd_secret(const struct args *a)
{
	if (strcmp(a->words[0], "set") == 0)
		return set(a);
	if (a->rest || cli_has(a, F_COMMAND) || cli_has(a, F_FROM_ENV) ||
	    cli_has(a, F_VALUE_FILE) || cli_has(a, F_HOSTS))
		return cli_usage(a->cmd, "%s: takes no source and no hosts", a->words[0]);
	if (strcmp(a->words[0], "ls") == 0)
		return list(a);
	if (strcmp(a->words[0], "rm") == 0)
		return remove_all(a);
	return cli_usage(a->cmd, "%s: not set, ls or rm", a->words[0]);
}
