/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_scan - `cove scan`: secrets in files of the host, with the gate's own engine. Exit
 * codes: 0 clean, 1 findings, 125 cove failed (then nothing is said about the files).
 */
#include "cli/json.h"

#include <stdio.h>

struct show {
	bool quiet;
	json_t *list; /* with --json */
};

static json_t *text(const char *s)
{
	json_t *j = json_string(s);

	if (j)
		return j;
	cleanup_free char *safe = cli_escape(s); /* not UTF-8: escaped */

	return json_string(safe ? safe : "");
}

static void print_finding(const struct cove_finding *f)
{
	cleanup_free char *path = cli_escape(f->path), *inner = cli_escape(f->inner);
	cleanup_free char *why = cli_escape(f->why), *shown = cli_escape(f->excerpt);
	char line[24] = "";

	if (f->line)
		snprintf(line, sizeof(line), ":%llu", (unsigned long long)f->line);
	printf("%s%s%s%s: %s: %s%s%s\n", path ? path : "?", *f->inner ? "!" : "",
	       inner ? inner : "", line, f->rule, why ? why : "", *f->excerpt ? ": " : "",
	       shown ? shown : "");
}

static void on_finding(void *arg, const struct cove_finding *f)
{
	struct show *s = arg;

	if (s->list)
		json_array_append_new(
			s->list,
			json_pack("{s:s, s:o, s:o, s:o, s:I, s:o, s:o}", "id", f->id,
				  "rule", text(f->rule), "path", text(f->path), "inner",
				  text(f->inner), "line", (json_int_t)f->line, "why",
				  text(f->why), "excerpt", text(f->excerpt)));
	else if (!s->quiet)
		print_finding(f);
}

static int print_json(struct show *s, uint64_t files, uint64_t bytes, int code)
{
	json_t *out = json_pack("{s:O, s:I, s:I}", "findings", s->list, "files",
				(json_int_t)files, "bytes", (json_int_t)bytes);
	cleanup_free char *dump = out ? json_dumps(out, JSON_COMPACT) : NULL;

	json_decref(out);
	if (!dump)
		return cli_failf("scan", NULL, "out of memory");
	return cli_json_print("scan", dump, isatty(STDOUT_FILENO), code);
}

int cmd_scan(const struct args *a)
{
	uint64_t files = 0, bytes = 0;
	struct show s = {.quiet = cli_has(a, F_QUIET)};
	struct cove_scan_options o = {.size = sizeof(o),
				      .rules_file = cli_value(a, F_RULES),
				      .finding = on_finding,
				      .arg = &s,
				      .ret_files = &files,
				      .ret_bytes = &bytes};
	struct cove_error err = {0};
	int r, code;

	if (cli_has(a, F_JSON)) {
		s.list = json_array();
		if (!s.list)
			return cli_failf("scan", NULL, "out of memory");
	}
	r = cove_scan((const char *const *)a->words, &o, &err);
	if (r < 0 && r != COVE_EFINDINGS) {
		json_decref(s.list);
		return cli_fail("scan", &err);
	}
	code = r == COVE_EFINDINGS ? EXIT_FINDINGS : 0;
	if (s.list) {
		code = print_json(&s, files, bytes, code);
		json_decref(s.list);
		return code;
	}
	if (code && !s.quiet)
		cli_note("cove scan: %s in %llu files", err.msg,
			 (unsigned long long)files);
	return cli_flush("scan", code);
}
