/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_doctor - doctor and attest: what this host can enforce, what is enforced now. */
#include "cli/json.h"

#include <stdio.h>

/* One line of text, painted on a terminal, harmless on any. */
static void put(const char *text, const char *paint, int width)
{
	cleanup_free char *safe = cli_escape(text ? text : "");
	const char *shown = safe ? safe : "";

	if (paint && cli_colour(STDOUT_FILENO))
		printf("\033[%sm%-*s\033[0m", paint, width, shown);
	else
		printf("%-*s", width, shown);
}

static void print_check(const json_t *check)
{
	bool ok = json_is_true(json_object_get(check, "ok"));
	const char *fix = cli_json_text(check, "fix");

	put(ok ? "ok" : "missing", ok ? "32" : "31", 9);
	put(cli_json_text(check, "name"), NULL, 16);
	put(cli_json_text(check, "detail"), NULL, 0);
	putchar('\n');
	if (!ok && fix && *fix) {
		put("", NULL, 9);
		put("fix: ", "1", 0);
		put(fix, NULL, 0);
		putchar('\n');
	}
}

static void print_backends(const json_t *backends)
{
	const char *name;
	json_t *b;

	json_object_foreach((json_t *)(uintptr_t)backends, name, b)
	{
		bool usable = json_is_true(json_object_get(b, "usable"));
		const char *why = cli_json_text(b, "why");

		put(usable ? "ok" : "missing", usable ? "32" : "31", 9);
		put("backend", NULL, 16);
		put(name, NULL, 0);
		if (!usable && why) {
			fputs(": ", stdout);
			put(why, NULL, 0);
		}
		putchar('\n');
	}
}

int cmd_doctor(const struct args *a)
{
	struct cove_error err = {0};
	const json_t *check;
	char *text = NULL;
	int usable = 0, code;
	json_t *json;
	size_t i;

	if (cove_doctor_json(&text, &usable, &err) < 0)
		return cli_fail("doctor", &err);
	code = usable ? 0 : EXIT_SHORT;
	if (cli_has(a, F_JSON)) {
		code = cli_json_print("doctor", text, false, code);
		cove_string_free(text);
		return code;
	}
	json = cli_json_take(text, &err);
	if (!json)
		return cli_fail("doctor", &err);
	json_array_foreach(json_object_get(json, "checks"), i, check)
	{
		print_check(check);
	}
	print_backends(json_object_get(json, "backends"));
	json_decref(json);
	return cli_flush("doctor", code);
}

static int print_items(const json_t *items)
{
	static const char *const heads[] = {"OK", "ITEM", "REQUIRED", "ACTUAL"};
	cleanup_table struct table *t = cli_table_new(ARRAY_LEN(heads), heads);
	const json_t *item;
	size_t i;

	json_array_foreach(items, i, item)
	{
		bool ok = json_is_true(json_object_get(item, "ok"));
		const char *paint[] = {ok ? "32" : "31", NULL, NULL, NULL};
		char required[64], actual[64];
		const char *cells[] = {
			ok ? "yes" : "NO",
			cli_json_text(item, "item"),
			cli_json_scalar(json_object_get(item, "required"), required,
					sizeof(required)),
			cli_json_scalar(json_object_get(item, "actual"), actual,
					sizeof(actual)),
		};

		if (!t || cli_table_row(t, cells, paint) < 0)
			return cli_failf("attest", NULL, "out of memory");
	}
	if (t)
		cli_table_print(t);
	return 0;
}

int cmd_attest(const struct args *a)
{
	struct cove_error err = {0};
	char *text = NULL;
	json_t *json;
	int r = cove_attest_json(a->words[0], &text, &err), code;

	if (r < 0 && !(r == COVE_EDENIED && text))
		return cli_fail("attest", &err);
	code = r < 0 ? EXIT_SHORT : 0;
	if (cli_has(a, F_JSON)) {
		code = cli_json_print("attest", text, false, code);
		cove_string_free(text);
		return code;
	}
	json = cli_json_take(text, &err);
	if (!json)
		return cli_fail("attest", &err);
	r = print_items(json_is_array(json) ? json : json_object_get(json, "items"));
	json_decref(json);
	if (r == 0 && code)
		cli_fail("attest", &err);
	return cli_flush("attest", r ? r : code);
}
