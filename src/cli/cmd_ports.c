/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_ports - publishing ports of a sandbox, and what is published. */
#include "cli/json.h"
#include "cli/ports.h"

#include <inttypes.h>
#include <stdio.h>

static void guest_text(const json_t *port, char *out, size_t size)
{
	const json_t *guest = json_object_get(port, "guest");

	if (json_is_integer(guest))
		snprintf(out, size, "%" JSON_INTEGER_FORMAT, json_integer_value(guest));
	else
		snprintf(out, size, "%s", cli_json_text(port, "guest"));
}

/* "127.0.0.1:8080 is port 3000 of web" */
static void print_one(int fd, const json_t *port, const char *name)
{
	cleanup_free char *host = cli_escape(cli_json_text(port, "host"));
	cleanup_free char *inside = NULL;
	char guest[4200];

	guest_text(port, guest, sizeof(guest));
	inside = cli_escape(guest);
	dprintf(fd, "%s -> %s:%s\n", host ? host : "?", name, inside ? inside : "?");
}

int cmd_publish(const struct args *a)
{
	const char *name = a->words[0];
	int code = 0;

	for (size_t i = 1; i < a->n_words; i++) {
		struct cove_error err = {0};
		char *text = NULL;
		json_t *port;

		if (cove_publish(name, a->words[i], &text, &err) < 0) {
			code = cli_fail("publish", &err);
			continue;
		}
		if (cli_has(a, F_JSON)) {
			if (cli_json_print("publish", text, false, 0))
				code = EXIT_COVE;
			cove_string_free(text);
			continue;
		}
		port = cli_json_take(text, &err);
		if (!port)
			return cli_fail("publish", &err);
		if (!cli_has(a, F_QUIET))
			print_one(STDOUT_FILENO, port, name);
		json_decref(port);
	}
	return code;
}

int cmd_unpublish(const struct args *a)
{
	int code = 0;

	for (size_t i = 1; i < a->n_words; i++) {
		struct cove_error err = {0};

		if (cove_unpublish(a->words[0], a->words[i], &err) < 0)
			code = cli_fail("unpublish", &err);
	}
	return code;
}

static int print_table(const json_t *list)
{
	static const char *const heads[] = {"HOST", "GUEST", "STATE", "OPEN", "TOTAL"};
	cleanup_table struct table *t = cli_table_new(ARRAY_LEN(heads), heads);
	const json_t *port;
	size_t i;

	json_array_foreach(list, i, port)
	{
		char guest[4200], open[24], total[24];
		bool listening = json_is_true(json_object_get(port, "listening"));
		const char *cells[5] = {cli_json_text(port, "host"), guest,
					listening ? "listening" : "stopped", open, total};

		guest_text(port, guest, sizeof(guest));
		snprintf(open, sizeof(open), "%" JSON_INTEGER_FORMAT,
			 json_integer_value(json_object_get(port, "open")));
		snprintf(total, sizeof(total), "%" JSON_INTEGER_FORMAT,
			 json_integer_value(json_object_get(port, "total")));
		if (!t || cli_table_row(t, cells, NULL) < 0)
			return cli_failf("ports", NULL, "out of memory");
	}
	cli_table_print(t);
	return cli_flush("ports", 0);
}

int cmd_ports(const struct args *a)
{
	struct cove_error err = {0};
	char *text = NULL;
	json_t *list;
	int code;

	if (cove_ports_json(a->words[0], &text, &err) < 0)
		return cli_fail("ports", &err);
	if (cli_has(a, F_JSON)) {
		code = cli_json_print("ports", text, false, 0);
		cove_string_free(text);
		return code;
	}
	list = cli_json_take(text, &err);
	if (!list)
		return cli_fail("ports", &err);
	code = print_table(list);
	json_decref(list);
	return code;
}

void cli_ports_note(struct cove *box)
{
	struct cove_error err = {0};
	const json_t *port;
	char *text = NULL;
	json_t *list;
	size_t i;

	if (cove_ports_handle_json(box, &text, &err) < 0)
		return;
	list = cli_json_take(text, &err);
	json_array_foreach(list, i, port)
	{
		print_one(STDERR_FILENO, port, cove_name(box));
	}
	json_decref(list);
}
