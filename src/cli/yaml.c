/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yaml - JSON as block YAML. Words that YAML could read as something else (numbers, yes,
 * null) are quoted the JSON way, which is YAML too.
 */
#include "cli/yaml.h"
#include "cli/cli.h"

#include <strings.h>

static void write_value(FILE *f, const json_t *v, int depth);

static bool plain(const char *s)
{
	static const char *const taken[] = {"true", "false", "null", "yes", "no",
					    "on",   "off",   "y",    "n"};
	static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				 "0123456789_./-";

	if (!*s || strspn(s, ok) != strlen(s) || !strchr(ok, *s) ||
	    strchr("0123456789.-", *s))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(taken); i++)
		if (strcasecmp(s, taken[i]) == 0)
			return false;
	return true;
}

static void write_text(FILE *f, const char *s)
{
	json_t *text;
	char *quoted;

	if (plain(s)) {
		fputs(s, f);
		return;
	}
	text = json_string(s);
	quoted = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
	fputs(quoted ? quoted : "\"\"", f);
	free(quoted);
	json_decref(text);
}

static void write_pairs(FILE *f, const json_t *object, int depth, bool first_inline)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)object, key, v)
	{
		fprintf(f, "%*s", first_inline ? 0 : depth * 2, "");
		first_inline = false;
		write_text(f, key);
		putc(':', f);
		write_value(f, v, depth + 1);
	}
}

static void write_items(FILE *f, const json_t *array, int depth)
{
	json_t *v;
	size_t i;

	json_array_foreach(array, i, v)
	{
		fprintf(f, "%*s-", depth * 2, "");
		if (json_is_object(v) && json_object_size(v)) {
			putc(' ', f);
			write_pairs(f, v, depth + 1, true);
		} else
			write_value(f, v, depth + 1);
	}
}

/* What follows "key:" or "-", with the end of the line. */
static void write_value(FILE *f, const json_t *v, int depth)
{
	if (json_is_object(v) && json_object_size(v)) {
		putc('\n', f);
		write_pairs(f, v, depth, false);
	} else if (json_is_array(v) && json_array_size(v)) {
		putc('\n', f);
		write_items(f, v, depth);
	} else if (json_is_string(v)) {
		putc(' ', f);
		write_text(f, json_string_value(v));
		putc('\n', f);
	} else {
		char *text = json_dumps(v, JSON_ENCODE_ANY);

		fprintf(f, " %s\n", text ? text : "null");
		free(text);
	}
}

void cli_yaml_write(FILE *f, const json_t *object)
{
	write_pairs(f, object, 0, false);
}
