/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/review.h"
#include "cli/diff.h"
#include "cli/json.h"
#include "cli/term.h"

#include <stdio.h>

char change_letter(uint32_t kind)
{
	static const char letters[] = "?AMDRTm";

	return kind < sizeof(letters) - 1 ? letters[kind] : '?';
}

/* Names may be any bytes; JSON and terminals take only some. */
static json_t *text(const char *s)
{
	json_t *j = json_string(s);

	if (!j) {
		cleanup_free char *safe = cli_escape(s);

		j = json_string(safe ? safe : "?");
	}
	return j;
}

static void on_change(void *arg, const struct cove_change *c)
{
	struct review *r = arg;

	r->n_changes++;
	if (r->json) {
		json_array_append_new(r->changes, diff_json(c));
	} else if (!r->quiet && !r->silent) {
		cleanup_free char *safe = cli_escape(c->path);

		cli_progress_end();
		printf("  %c %s\n", change_letter(c->kind), safe ? safe : "?");
	}
}

static void show_finding(const struct review *r, const struct cove_finding *f)
{
	cleanup_free char *path = cli_escape(f->path), *inner = cli_escape(f->inner);
	cleanup_free char *shown = cli_escape(f->excerpt), *why = cli_escape(f->why);
	char line[24] = "";

	if (f->line)
		snprintf(line, sizeof(line), ":%llu", (unsigned long long)f->line);
	cli_note("cove %s: %s%s%s%s: %s: %s%s%s", r->verb, path ? path : "?",
		 *f->inner ? "!" : "", inner ? inner : "", line, f->rule, why ? why : "",
		 *f->excerpt ? ": " : "", shown ? shown : "");
	if (f->flags & COVE_FINDING_ACCEPTED)
		cli_note("      accepted");
	else if (f->flags & COVE_FINDING_HARD)
		cli_note("      cannot be accepted");
	else
		cli_note("      accept this one: --accept %s", f->id);
}

static void on_finding(void *arg, const struct cove_finding *f)
{
	struct review *r = arg;

	if (r->json)
		json_array_append_new(
			r->findings,
			json_pack("{s:s, s:s, s:o, s:o, s:I, s:o, s:o, s:b, s:b}", "id",
				  f->id, "rule", f->rule, "path", text(f->path), "inner",
				  text(f->inner), "line", (json_int_t)f->line, "why",
				  text(f->why), "excerpt", text(f->excerpt), "hard",
				  (f->flags & COVE_FINDING_HARD) != 0, "accepted",
				  (f->flags & COVE_FINDING_ACCEPTED) != 0));
	else if (!r->silent)
		show_finding(r, f);
}

static void on_conflict(void *arg, const struct cove_conflict *c)
{
	struct review *r = arg;
	cleanup_free char *path = cli_escape(c->path);

	if (r->json)
		json_array_append_new(r->conflicts,
				      json_pack("{s:o, s:o, s:o}", "source",
						text(c->source), "path", text(c->path),
						"why", text(c->why)));
	else if (!r->silent)
		cli_note("cove %s: %s: conflict: %s", r->verb, path ? path : "?", c->why);
}

static void on_progress(void *arg, const char *what, uint64_t done, uint64_t all)
{
	const struct review *r = arg;

	if (!r->quiet && !r->json)
		cli_progress(NULL, what, all ? (int)(done * 100 / all) : -1);
}

void review_init(struct review *r, const struct args *a)
{
	*r = (struct review){.verb = a->cmd->name,
			     .json = cli_has(a, F_JSON),
			     .quiet = cli_has(a, F_QUIET)};
	r->changes = json_array();
	r->findings = json_array();
	r->conflicts = json_array();
	r->options = (struct cove_apply_options){
		.size = sizeof(r->options),
		.change = on_change,
		.finding = on_finding,
		.conflict = on_conflict,
		.progress = on_progress,
		.arg = r,
	};
}

void review_clear(struct review *r)
{
	json_decref(r->changes);
	json_decref(r->findings);
	json_decref(r->conflicts);
}

int review_code(int e)
{
	return e == 0                ? 0
	       : e == COVE_EFINDINGS ? EXIT_FINDINGS
	       : e == COVE_ECONFLICT ? EXIT_CONFLICT
				     : EXIT_COVE;
}

static int print_json(struct review *r, int e, const struct cove_apply_result *res,
		      const struct cove_error *err)
{
	json_t *j = json_pack("{s:b, s:I, s:I, s:I, s:I, s:O, s:O, s:O}", "ok", e == 0,
			      "applied", (json_int_t)(e ? 0 : res->applied), "merged",
			      (json_int_t)(e ? 0 : res->merged), "left",
			      (json_int_t)res->left, "bytes", (json_int_t)res->bytes,
			      "changes", r->changes, "findings", r->findings, "conflicts",
			      r->conflicts);
	char *out;

	if (e)
		json_object_set_new(j, "error", text(err->msg));
	out = j ? json_dumps(j, JSON_INDENT(2)) : NULL;
	json_decref(j);
	if (!out)
		return cli_failf(r->verb, NULL, "out of memory");
	puts(out);
	free(out);
	return cli_flush(r->verb, review_code(e));
}

int review_end(struct review *r, int e, const struct cove_apply_result *res,
	       const struct cove_error *err)
{
	cli_progress_end();
	if (r->json && (e == 0 || e == COVE_EFINDINGS || e == COVE_ECONFLICT))
		return print_json(r, e, res, err);
	if (e) {
		fflush(stdout);
		cli_fail(r->verb, err);
	}
	return e ? review_code(e) : cli_flush(r->verb, 0);
}
