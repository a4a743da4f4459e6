/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_image - what is kept for later starts, unpacked images and templates of machines:
 * listing, removing, making it ahead. */
#include "cli/json.h"
#include "cli/spec.h"
#include "cli/term.h"

#include <stdio.h>
#include <time.h>

#define KEY_SHOWN 12 /* enough to be unique; any unique part will do */

/* ---- ls --------------------------------------------------------------------------- */

static const char *what_of(const json_t *v, char *buf, size_t size)
{
	const char *source = cli_json_text(v, "source");
	const char *problem = cli_json_text(v, "problem");
	const char *kernel = cli_json_text(v, "kernel");
	const char *accelerator = cli_json_text(v, "accelerator");

	if (problem || source)
		return problem ? problem : source;
	snprintf(buf, size, "%lld cpus, %lld MiB, %s, %s",
		 (long long)json_integer_value(json_object_get(v, "cpus")),
		 (long long)json_integer_value(json_object_get(v, "memoryMiB")),
		 accelerator ? accelerator : "?", kernel ? kernel : "?");
	return buf;
}

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

static int add_row(struct table *t, const json_t *v)
{
	json_int_t made = json_integer_value(json_object_get(v, "madeAt"));
	char key[KEY_SHOWN + 1], size[32], age[32] = "", what[300], users[400];
	const char *full = cli_json_text(v, "key");
	const char *cells[] = {
		key,
		cli_json_text(v, "kind"),
		cli_bytes(json_number_value(json_object_get(v, "bytes")), size,
			  sizeof(size)),
		made ? cli_elapsed((double)(time(NULL) - made), age, sizeof(age)) : NULL,
		what_of(v, what, sizeof(what)),
		users};

	snprintf(key, sizeof(key), "%s", full ? full : "?");
	used_by(json_object_get(v, "usedBy"), users, sizeof(users));
	if (!*users)
		cells[ARRAY_LEN(cells) - 1] = NULL;
	return cli_table_row(t, cells, NULL);
}

static int print_table(const json_t *all)
{
	static const char *const heads[] = {"KEY", "KIND", "SIZE",
					    "AGE", "WHAT", "USED BY"};
	cleanup_table struct table *t = cli_table_new(ARRAY_LEN(heads), heads);
	const json_t *v;
	size_t i;

	json_array_foreach(all, i, v)
	{
		if (!t || add_row(t, v) < 0)
			return cli_failf("image", NULL, "out of memory");
	}
	cli_table_print(t);
	return cli_flush("image", 0);
}

static int print_keys(const json_t *all)
{
	const json_t *v;
	size_t i;

	json_array_foreach(all, i, v)
	{
		puts(cli_json_text(v, "key"));
	}
	return cli_flush("image", 0);
}

static int list(const struct args *a)
{
	struct cove_error err = {0};
	char *text = NULL;
	json_t *all;
	int code;

	if (a->n_words > 1)
		return cli_usage(a->cmd, "%s: one argument too many", a->words[1]);
	if (cove_images_json(&text, &err) < 0)
		return cli_fail("image", &err);
	if (cli_has(a, F_JSON)) {
		code = cli_json_print("image", text, false, 0);
		cove_string_free(text);
		return code;
	}
	all = cli_json_take(text, &err);
	if (!all)
		return cli_fail("image", &err);
	code = cli_has(a, F_QUIET) ? print_keys(all) : print_table(all);
	json_decref(all);
	return code;
}

/* ---- rm --------------------------------------------------------------------------- */

static int remove_one(const char *key)
{
	struct cove_error err = {0};

	return cove_image_remove(key, &err) < 0 ? cli_fail("image", &err) : 0;
}

/* What a sandbox has is not taken from it; that is no failure of "all". */
static int remove_unused(const struct args *a)
{
	struct cove_error err = {0};
	char *text = NULL, users[400];
	const json_t *v;
	json_t *all;
	int code = 0;
	size_t i;

	if (a->n_words > 1)
		return cli_usage(a->cmd, "rm: --all, or some keys");
	if (cove_images_json(&text, &err) < 0)
		return cli_fail("image", &err);
	all = cli_json_take(text, &err);
	if (!all)
		return cli_fail("image", &err);
	json_array_foreach(all, i, v)
	{
		const char *key = cli_json_text(v, "key");

		used_by(json_object_get(v, "usedBy"), users, sizeof(users));
		if (!*users) {
			int r = remove_one(key);

			code = r ? r : code;
		} else if (!cli_has(a, F_QUIET)) {
			cli_note("cove image: %.*s is kept: it belongs to %s", KEY_SHOWN,
				 key, users);
		}
	}
	json_decref(all);
	return code;
}

/* One that fails does not stop the others. Nothing is asked: it can be made again. */
static int remove_all(const struct args *a)
{
	int code = 0;

	if (cli_has(a, F_ALL))
		return remove_unused(a);
	if (a->n_words < 2)
		return cli_usage(a->cmd, "rm: no key");
	for (size_t i = 1; i < a->n_words; i++) {
		int r = remove_one(a->words[i]);

		code = r ? r : code;
	}
	return code;
}

/* ---- prepare ---------------------------------------------------------------------- */

/* What 'cove run --backend vm' would make of the configuration and the same flags. */
static int make_spec(const struct args *a, struct cove_spec **ret)
{
	cleanup_string char *notice = NULL;
	struct cove_error err = {0};

	if (cove_spec_new(ret, &err) < 0 ||
	    cove_config_apply(*ret, ".", NULL, &notice, &err) < 0 ||
	    cove_spec_set(*ret, "mounts", NULL, &err) < 0 ||
	    cove_spec_set(*ret, "backend", "vm", &err) < 0)
		return cli_fail("image", &err);
	return cli_spec_flags(a, *ret);
}

static int prepare(const struct args *a)
{
	cleanup_spec struct cove_spec *spec = NULL;
	struct cove_error err = {0};
	int code, r;

	if (a->n_words > 1)
		return cli_usage(a->cmd, "%s: one argument too many", a->words[1]);
	code = make_spec(a, &spec);
	if (code)
		return code;
	cli_progress_slow("preparing");
	r = cove_image_prepare(spec, &err);
	cli_progress_end();
	return r < 0 ? cli_fail("image", &err) : 0;
}

/* ---- all of them ------------------------------------------------------------------ */

static const struct {
	const char *name;
	int (*run)(const struct args *a);
	flag_set flags;
} verbs[] = {
	{"ls",      list,       FLAG(F_JSON)                            },
	{"rm",      remove_all, FLAG(F_ALL)                             },
	{"prepare", prepare,
	 FLAG(F_BACKEND) | FLAG(F_IMAGE) | FLAG(F_MEMORY) | FLAG(F_CPUS)},
};

/* A flag that belongs to another of the verbs. */
static int check_flags(const struct args *a, flag_set own)
{
	flag_set others = a->set & ~(own | FLAG(F_QUIET) | FLAG(F_VERBOSE));

	for (int id = 0; id < FLAG_COUNT; id++)
		if (others & FLAG(id))
			return cli_usage(a->cmd, "--%s is not for %s", cli_flags[id].name,
					 a->words[0]);
	return 0;
}

int cmd_image(const struct args *a)
{
	const char *names[ARRAY_LEN(verbs)], *near;

	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		int code;

		names[i] = verbs[i].name;
		if (strcmp(a->words[0], verbs[i].name) != 0)
			continue;
		code = check_flags(a, verbs[i].flags);
		return code ? code : verbs[i].run(a);
	}
	near = cli_nearest(a->words[0], names, ARRAY_LEN(names));
	return near ? cli_usage(a->cmd, "%s: did you mean '%s'?", a->words[0], near)
		    : cli_usage(a->cmd, "%s: not one of ls, rm, prepare", a->words[0]);
}
