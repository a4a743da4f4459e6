/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_volume - volumes: what there is, and removing some. */
#include "cli/json.h"

#include <stdio.h>

static void used_by(const json_t *names, char *out, size_t size)
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
	static const char *const heads[] = {"NAME", "SIZE", "USED BY"};
	cleanup_table struct table *t = cli_table_new(ARRAY_LEN(heads), heads);
	const json_t *v;
	size_t i;

	json_array_foreach(list, i, v)
	{
		char size[32], users[400];
		const char *cells[3] = {cli_json_text(v, "name"), size, users};

		cli_bytes(json_number_value(json_object_get(v, "bytes")), size,
			  sizeof(size));
		used_by(json_object_get(v, "usedBy"), users, sizeof(users));
		if (!*users)
			cells[2] = NULL;
		if (!t || cli_table_row(t, cells, NULL) < 0)
			return cli_failf("volume", NULL, "out of memory");
	}
	cli_table_print(t);
	return cli_flush("volume", 0);
}

static int list(const struct args *a)
{
	struct cove_error err = {0};
	char *text = NULL;

	if (a->n_words > 1)
		return cli_usage(a->cmd, "%s: one argument too many", a->words[1]);
	if (cove_volumes_json(&text, &err) < 0)
		return cli_fail("volume", &err);
	return cli_json_list(a, text, print_table);
}

static int ask(const struct args *a)
{
	char question[200];

	snprintf(question, sizeof(question), "Remove volume %.80s%s with all its files?",
		 a->words[1], a->n_words > 2 ? " and the others" : "");
	return cli_ask(a, question, a->words[1]);
}

/* One that fails does not stop the others. */
static int remove_all(const struct args *a)
{
	int code;

	if (a->n_words < 2)
		return cli_usage(a->cmd, "rm: no name");
	code = ask(a);
	if (code)
		return code;
	for (size_t i = 1; i < a->n_words; i++) {
		struct cove_error err = {0};

		if (cove_volume_remove(a->words[i], &err) < 0)
			code = cli_fail("volume", &err);
	}
	return code;
}

int cmd_volume(const struct args *a)
{
	if (strcmp(a->words[0], "ls") == 0)
		return list(a);
	if (strcmp(a->words[0], "rm") == 0)
		return remove_all(a);
	return cli_usage(a->cmd, "%s: not ls or rm", a->words[0]);
}
