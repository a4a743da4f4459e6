/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_snapshot - snapshot, snapshots, snapshot rm and shred, restore. */
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/term.h"

#include <stdio.h>

static int take(const struct args *a)
{
	struct cove_snapshot_options o = {
		.size = sizeof(o),
		.flags = cli_has(a, F_WITH_MEMORY) ? COVE_SNAPSHOT_MEMORY : 0,
		.description = cli_value(a, F_MESSAGE),
	};
	struct cove_error err = {0};
	char what[160];
	int r;

	snprintf(what, sizeof(what), "snapshot of %.80s", a->words[0]);
	cli_progress_slow(what);
	r = cove_snapshot_with(a->words[0], a->words[1], &o, &err);
	cli_progress_end();
	if (r < 0)
		return cli_fail("snapshot", &err);
	if (cli_has(a, F_JSON))
		printf("{\"name\":\"%s\",\"tag\":\"%s\"}\n", a->words[0], a->words[1]);
	return cli_flush("snapshot", 0);
}

static int drop(const struct args *a, bool shred)
{
	struct cove_error err = {0};
	char question[200];
	int code;

	snprintf(question, sizeof(question), "%s snapshot %.64s of %.64s for good?",
		 shred ? "Shred" : "Remove", a->words[2], a->words[1]);
	code = cli_ask(a, question, a->words[0]);
	if (code)
		return code;
	code = shred ? cove_snapshot_shred(a->words[1], a->words[2], &err)
		     : cove_snapshot_remove(a->words[1], a->words[2], &err);
	return code < 0 ? cli_fail("snapshot", &err) : 0;
}

/* "rm NAME TAG" has three words; a sandbox may be called rm as well. */
int cmd_snapshot(const struct args *a)
{
	if (a->n_words == 2)
		return take(a);
	if (strcmp(a->words[0], "rm") != 0 && strcmp(a->words[0], "shred") != 0)
		return cli_usage(a->cmd, "%s: only 'rm' and 'shred' take three words",
				 a->words[0]);
	if (cli_has(a, F_MESSAGE) || cli_has(a, F_WITH_MEMORY))
		return cli_usage(a->cmd, "%s takes no description and no memory",
				 a->words[0]);
	return drop(a, a->words[0][0] == 's');
}

/* ---- snapshots ------------------------------------------------------------------ */

static const char *size_text(double bytes, char *out, size_t n)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	size_t i = 0;

	while (bytes >= 1024 && i + 1 < ARRAY_LEN(units)) {
		bytes /= 1024;
		i++;
	}
	snprintf(out, n, i && bytes < 100 ? "%.1f %s" : "%.0f %s", bytes, units[i]);
	return out;
}

static int print_table(const json_t *list)
{
	static const char *const heads[] = {"TAG",    "TIME",   "FILES",      "SIZE",
					    "MEMORY", "PARENT", "DESCRIPTION"};
	cleanup_table struct table *t = cli_table_new(ARRAY_LEN(heads), heads);
	size_t i;
	json_t *o;

	if (!t)
		return -1;
	json_array_foreach(list, i, o)
	{
		const char *problem = cli_json_text(o, "problem");
		const char *parent = cli_json_text(o, "parent");
		const json_t *memory = json_object_get(o, "memory");
		char files[24], size[32], mem[32], when[24];

		snprintf(files, sizeof(files), "%lld",
			 (long long)json_integer_value(json_object_get(o, "files")));
		size_text((double)json_integer_value(json_object_get(o, "bytes")), size,
			  sizeof(size));
		/* to the second, without the T */
		snprintf(when, sizeof(when), "%.19s", cli_json_text(o, "time"));
		if (strlen(when) > 10)
			when[10] = ' ';
		const char *cells[] = {
			cli_json_text(o, "tag"),
			when,
			files,
			size,
			memory ? size_text((double)json_integer_value(memory), mem,
					   sizeof(mem))
			       : NULL,
			parent && *parent ? parent : NULL,
			problem ? problem : cli_json_text(o, "description")};
		if (cli_table_row(t, cells, NULL) < 0)
			return -1;
	}
	cli_table_print(t);
	return 0;
}

static void print_tags(const json_t *list)
{
	size_t i;
	json_t *o;

	json_array_foreach(list, i, o)
	{
		puts(cli_json_text(o, "tag"));
	}
}

int cmd_snapshots(const struct args *a)
{
	cleanup_string char *text = NULL;
	struct cove_error err = {0};
	json_error_t je;
	json_t *list;
	int r = 0;

	if (cove_snapshots_json(a->words[0], &text, &err) < 0)
		return cli_fail("snapshots", &err);
	if (cli_has(a, F_JSON)) {
		puts(text);
		return cli_flush("snapshots", 0);
	}
	list = json_loads(text, 0, &je);
	if (cli_has(a, F_QUIET))
		print_tags(list);
	else if (json_array_size(list))
		r = print_table(list);
	json_decref(list);
	return r < 0 ? cli_failf("snapshots", NULL, "out of memory")
		     : cli_flush("snapshots", 0);
}

/* ---- restore -------------------------------------------------------------------- */

int cmd_restore(const struct args *a)
{
	struct cove_error err = {0};
	char question[240];
	int code, r;

	snprintf(question, sizeof(question),
		 "Take %.64s back to %.64s? What changed since is lost.", a->words[0],
		 a->words[1]);
	code = cli_ask(a, question, a->words[0]);
	if (code)
		return code;
	cli_progress_slow("restoring");
	r = cove_restore_with(a->words[0], a->words[1],
			      cli_has(a, F_FILES_ONLY) ? COVE_RESTORE_FILES_ONLY : 0,
			      &err);
	cli_progress_end();
	return r < 0 ? cli_fail("restore", &err) : 0;
}
