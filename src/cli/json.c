/* SPDX-License-Identifier: Apache-2.0 */
/* json - reading what the library reports, and numbers for people. */
#include "cli/json.h"

#include <stdio.h>

json_t *cli_json_take(char *text, struct cove_error *err)
{
	json_error_t why;
	json_t *json = json_loads(text, 0, &why);

	cove_string_free(text);
	if (!json) {
		err->code = COVE_EPROTO;
		snprintf(err->msg, sizeof(err->msg), "report of the library: %s",
			 why.text);
	}
	return json;
}

int cli_list(json_t **ret, struct cove_error *err)
{
	char *text;
	json_t *list;
	int r = cove_list_json(&text, err);

	if (r < 0)
		return r;
	list = cli_json_take(text, err);
	if (!list)
		return err->code;
	*ret = list;
	return 0;
}

const char *cli_json_text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

const char *cli_json_scalar(const json_t *value, char *buf, size_t size)
{
	*buf = '\0';
	if (json_is_string(value))
		return json_string_value(value);
	if (json_is_integer(value))
		snprintf(buf, size, "%lld", (long long)json_integer_value(value));
	else if (json_is_real(value))
		snprintf(buf, size, "%g", json_real_value(value));
	else if (json_is_boolean(value))
		snprintf(buf, size, "%s", json_is_true(value) ? "yes" : "no");
	return buf;
}

int cli_json_print(const char *verb, const char *text, bool pretty, int code)
{
	cleanup_free char *indented = NULL;
	json_t *json = pretty ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;

	if (json)
		indented = json_dumps(json, JSON_INDENT(2) | JSON_ENCODE_ANY);
	json_decref(json);
	puts(indented ? indented : text);
	return cli_flush(verb, code);
}

const char *cli_bytes(double n, char *buf, size_t size)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
	size_t i = 0;

	while (n >= 1024 && i + 1 < ARRAY_LEN(units)) {
		n /= 1024;
		i++;
	}
	snprintf(buf, size, i && n < 100 ? "%.1f %s" : "%.0f %s", n, units[i]);
	return buf;
}

const char *cli_elapsed(double seconds, char *buf, size_t size)
{
	long long s = seconds < 0 ? 0 : (long long)seconds;

	if (s < 60)
		snprintf(buf, size, "%llds", s);
	else if (s < 3600)
		snprintf(buf, size, "%lldm%llds", s / 60, s % 60);
	else if (s < 86400)
		snprintf(buf, size, "%lldh%lldm", s / 3600, s / 60 % 60);
	else
		snprintf(buf, size, "%lldd%lldh", s / 86400, s / 3600 % 24);
	return buf;
}

int cli_json_list(const struct args *a, char *text, int (*table)(const json_t *all))
{
	const char *verb = a->cmd->name;
	struct cove_error err = {0};
	const json_t *v;
	json_t *all;
	size_t i;
	int code;

	if (cli_has(a, F_JSON)) {
		code = cli_json_print(verb, text, false, 0);
		cove_string_free(text);
		return code;
	}
	all = cli_json_take(text, &err);
	if (!all)
		return cli_fail(verb, &err);
	if (cli_has(a, F_QUIET)) {
		json_array_foreach(all, i, v)
		{
			puts(cli_json_text(v, "name"));
		}
		code = cli_flush(verb, 0);
	} else {
		code = table(all);
	}
	json_decref(all);
	return code;
}
