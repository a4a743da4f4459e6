/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_inspect - inspect and ps: what one sandbox is and what runs in it. */
#include "cli/json.h"

#include <stdio.h>

int cmd_inspect(const struct args *a)
{
	int code = 0;

	for (size_t i = 0; i < a->n_words; i++) {
		cleanup_string char *json = NULL;
		struct cove_error err = {0};

		if (cove_inspect_json(a->words[i], &json, &err) < 0)
			code = cli_fail("inspect", &err);
		else
			code = cli_json_print("inspect", json, true, code);
	}
	return code;
}

static int add_process(struct table *t, const json_t *p)
{
	double ticks = json_number_value(json_object_get(p, "cpuTicks"));
	double kib = json_number_value(json_object_get(p, "rssKiB"));
	const char *command = cli_json_text(p, "command");
	char pid[24], uid[24], used[24] = "", bytes[24] = "";
	const char *cells[] = {
		cli_json_scalar(json_object_get(p, "pid"), pid, sizeof(pid)),
		cli_json_scalar(json_object_get(p, "uid"), uid, sizeof(uid)),
		cli_json_text(p, "state"),
		cli_elapsed(ticks / (double)sysconf(_SC_CLK_TCK), used, sizeof(used)),
		cli_bytes(kib * 1024, bytes, sizeof(bytes)),
		command && *command ? command : cli_json_text(p, "comm"),
	};

	return cli_table_row(t, cells, NULL);
}

static int print_processes(const json_t *list)
{
	static const char *const heads[] = {"PID", "UID",    "STATE",
					    "CPU", "MEMORY", "COMMAND"};
	cleanup_table struct table *t = cli_table_new(ARRAY_LEN(heads), heads);
	const json_t *p;
	size_t i;

	if (!t)
		return cli_failf("ps", NULL, "out of memory");
	json_array_foreach(list, i, p)
	{
		if (add_process(t, p) < 0)
			return cli_failf("ps", NULL, "out of memory");
	}
	cli_table_print(t);
	return cli_flush("ps", 0);
}

int cmd_ps(const struct args *a)
{
	struct cove_error err = {0};
	char *text = NULL;
	json_t *list;
	int code;

	if (cove_ps_json(a->words[0], &text, &err) < 0)
		return cli_fail("ps", &err);
	if (cli_has(a, F_JSON)) {
		code = cli_json_print("ps", text, false, 0);
		cove_string_free(text);
		return code;
	}
	list = cli_json_take(text, &err);
	if (!list)
		return cli_fail("ps", &err);
	code = print_processes(list);
	json_decref(list);
	return code;
}
