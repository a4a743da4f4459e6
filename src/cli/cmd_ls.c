/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_ls - the sandboxes of this user, as a table, as names or as JSON. */
#include "cli/json.h"

#include <fnmatch.h>
#include <stdio.h>

static const char *const filter_keys[] = {"state", "name", "backend"};

/* "state=running": the key is known and the value is there. */
static int check_filters(const struct args *a)
{
	for (size_t i = 0; i < a->n_given; i++) {
		const char *text = a->given[i].value;
		bool known = false;

		if (a->given[i].id != F_FILTER)
			continue;
		for (size_t k = 0; k < ARRAY_LEN(filter_keys); k++) {
			size_t len = strlen(filter_keys[k]);

			known |= strncmp(text, filter_keys[k], len) == 0 &&
				 text[len] == '=';
		}
		if (!known)
			return cli_usage(
				a->cmd,
				"--filter %s: not state=, name= or backend=", text);
	}
	return 0;
}

static bool passes(const struct args *a, const json_t *box)
{
	for (size_t i = 0; i < a->n_given; i++) {
		const char *text = a->given[i].value, *is;
		char key[16];

		if (a->given[i].id != F_FILTER)
			continue;
		snprintf(key, sizeof(key), "%.*s", (int)strcspn(text, "="), text);
		is = cli_json_text(box, key);
		if (!is || fnmatch(strchr(text, '=') + 1, is, 0) != 0)
			return false;
	}
	return true;
}

/* "running", or with limits that could not be set "running, degraded"; a guest that
 * leaves a question unanswered is "running, silent". */
static const char *state_of(const json_t *box, char *buf, size_t size)
{
	const json_t *degraded = json_object_get(box, "degraded");
	const char *state = cli_json_text(box, "state");
	bool is = json_is_true(degraded) || json_array_size(degraded) > 0;

	snprintf(buf, size, "%s%s%s", state ? state : "unknown", is ? ", degraded" : "",
		 json_object_get(box, "silentSeconds") ? ", silent" : "");
	return buf;
}

static const char *paint_of(const char *state)
{
	static const struct {
		const char *state, *paint;
	} paints[] = {
		{"running", "32"},
		{"stopped", "2" },
		{"damaged", "31"},
	};

	for (size_t i = 0; i < ARRAY_LEN(paints); i++)
		if (strcmp(state, paints[i].state) == 0)
			return paints[i].paint;
	return "33";
}

/* "/home/me/api (overlay), /data (ro)" */
static const char *mounts_of(const json_t *box, char *buf, size_t size)
{
	const json_t *mounts = json_object_get(box, "mounts"), *m;
	size_t n = 0, i;

	*buf = '\0';
	json_array_foreach(mounts, i, m)
	{
		const char *path = json_is_string(m) ? json_string_value(m)
						     : cli_json_text(m, "source");
		const char *mode = cli_json_text(m, "mode");
		int len = snprintf(buf + n, size - n, "%s%s%s%s%s", n ? ", " : "",
				   path ? path : "?", mode ? " (" : "", mode ? mode : "",
				   mode ? ")" : "");

		if (len < 0 || (size_t)len >= size - n)
			break;
		n += (size_t)len;
	}
	return buf;
}

static int add_row(struct table *t, const json_t *box)
{
	const json_t *uptime = json_object_get(box, "uptimeSeconds");
	char state[60], up[40] = "", mounts[600];
	const char *paint[6] = {NULL};
	const char *cells[] = {
		cli_json_text(box, "name"),
		state_of(box, state, sizeof(state)),
		cli_json_text(box, "backend"),
		json_is_number(uptime)
			? cli_elapsed(json_number_value(uptime), up, sizeof(up))
			: NULL,
		cli_json_text(box, "image"),
		mounts_of(box, mounts, sizeof(mounts)),
	};

	paint[1] = paint_of(state);
	return cli_table_row(t, cells, paint);
}

static int print_table(const json_t *list)
{
	static const char *const heads[] = {"NAME",   "STATE", "BACKEND",
					    "UPTIME", "IMAGE", "MOUNTS"};
	cleanup_table struct table *t = cli_table_new(ARRAY_LEN(heads), heads);
	const json_t *box;
	size_t i;

	if (!t)
		return cli_failf("ls", NULL, "out of memory");
	json_array_foreach(list, i, box)
	{
		if (add_row(t, box) < 0)
			return cli_failf("ls", NULL, "out of memory");
	}
	cli_table_print(t);
	return cli_flush("ls", 0);
}

static int print_names(const json_t *list)
{
	const json_t *box;
	size_t i;

	json_array_foreach(list, i, box)
	{
		const char *name = cli_json_text(box, "name");
		cleanup_free char *safe = name ? cli_escape(name) : NULL;

		if (safe)
			puts(safe);
	}
	return cli_flush("ls", 0);
}

static int print_json(const json_t *list)
{
	cleanup_free char *text = json_dumps(list, JSON_COMPACT);

	if (!text)
		return cli_failf("ls", NULL, "out of memory");
	return cli_json_print("ls", text, false, 0);
}

int cmd_ls(const struct args *a)
{
	struct cove_error err = {0};
	json_t *list = NULL;
	int code = check_filters(a);

	if (code)
		return code;
	if (cli_list(&list, &err) < 0)
		return cli_fail("ls", &err);
	for (size_t i = json_array_size(list); i-- > 0;)
		if (!passes(a, json_array_get(list, i)))
			json_array_remove(list, i);
	if (cli_has(a, F_JSON))
		code = print_json(list);
	else if (cli_has(a, F_QUIET))
		code = print_names(list);
	else
		code = print_table(list);
	json_decref(list);
	return code;
}
