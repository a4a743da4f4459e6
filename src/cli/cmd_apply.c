/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_apply - `cove apply`, `cove undo`, `cove discard`.
 *
 * On a terminal apply and undo show what would happen and ask, unless --yes. Exit codes:
 * 0 done, 1 the gate has findings, 2 conflicts, 125 cove failed.
 */
#include "cli/json.h"
#include "cli/path.h"
#include "cli/review.h"
#include "cli/term.h"

#include <stdio.h>

typedef int call_fn(const char *name, const struct cove_apply_options *o,
		    struct cove_apply_result *r, struct cove_error *err);

static bool asks(const struct args *a)
{
	return !cli_has(a, F_YES) && !cli_has(a, F_JSON) && !cli_has(a, F_DRY_RUN) &&
	       !cli_has(a, F_CHOOSE) && isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

/* The values of --accept, NULL-terminated. */
static const char **accepted(const struct args *a)
{
	const char **v = calloc(a->n_given + 1, sizeof(*v));
	size_t n = 0;

	for (size_t i = 0; v && i < a->n_given; i++)
		if (a->given[i].id == F_ACCEPT)
			v[n++] = a->given[i].value;
	return v;
}

/* A dry run first; then the question. 1: go on. */
static int ask(struct review *r, const struct args *a, call_fn *call, const char *what)
{
	struct cove_apply_result res = {.size = sizeof(res)};
	struct cove_error err = {0};
	uint32_t flags = r->options.flags;
	char text[200];
	int e;

	r->options.flags = flags | COVE_APPLY_DRY_RUN;
	e = call(a->words[0], &r->options, &res, &err);
	r->options.flags = flags;
	if (e < 0 || res.applied == 0)
		return e < 0 ? -review_end(r, e, &res, &err) : 1;
	fflush(stdout);
	cli_progress_end();
	snprintf(text, sizeof(text), "%s %llu change%s?", what,
		 (unsigned long long)res.applied, res.applied == 1 ? "" : "s");
	if (cli_confirm(text) != 1) {
		cli_note("cove %s: nothing was changed", r->verb);
		return -EXIT_FINDINGS;
	}
	r->silent = true; /* what it lists was listed */
	return 1;
}

static void sum_up(const struct review *r, const struct args *a,
		   const struct cove_apply_result *res, bool dry)
{
	const char *name = a->words[0];
	char merged[64] = "", left[64] = "";

	if (r->json || r->quiet)
		return;
	if (!res->applied) {
		cli_note("cove %s: %s has no changes%s", r->verb, name,
			 res->left ? " that were chosen" : "");
		return;
	}
	if (res->merged)
		snprintf(merged, sizeof(merged), ", %llu of them merged with the host's",
			 (unsigned long long)res->merged);
	if (res->left)
		snprintf(left, sizeof(left), "; %llu left in the sandbox",
			 (unsigned long long)res->left);
	cli_note("cove %s: %s%llu change%s%s%s", r->verb,
		 strcmp(r->verb, "undo") == 0 ? dry ? "would take back " : "took back "
		 : dry                        ? "would apply "
					      : "applied ",
		 (unsigned long long)res->applied, res->applied == 1 ? "" : "s", merged,
		 left);
	if (!dry && strcmp(r->verb, "apply") == 0)
		cli_note("hint: cove undo %s takes it back", name);
}

static int perform(const struct args *a, call_fn *call, const char *what)
{
	struct cove_apply_result res = {.size = sizeof(res)};
	cleanup_free const char **accept = accepted(a);
	cleanup_paths char **paths = cli_paths(a);
	struct cove_error err = {0};
	struct review r;
	int code, e, go = 1;

	if (!paths || !accept)
		return cli_failf(a->cmd->name, NULL, "the paths: %s", strerror(errno));
	review_init(&r, a);
	r.options.paths = a->n_words > 1 ? (const char *const *)paths : NULL;
	r.options.accept = accept;
	r.options.flags = (cli_has(a, F_DRY_RUN) ? COVE_APPLY_DRY_RUN : 0u) |
			  (cli_has(a, F_OVERWRITE) ? COVE_APPLY_OVERWRITE : 0u);
	if (cli_has(a, F_CHOOSE))
		r.options.choose = review_choose;
	if (asks(a))
		go = ask(&r, a, call, what);
	if (go < 0) {
		review_clear(&r);
		return -go;
	}
	e = call(a->words[0], &r.options, &res, &err);
	code = review_end(&r, e, &res, &err);
	if (e == 0)
		sum_up(&r, a, &res, cli_has(a, F_DRY_RUN));
	review_clear(&r);
	return code;
}

int cmd_apply(const struct args *a)
{
	return perform(a, cove_apply, "Apply");
}

int cmd_undo(const struct args *a)
{
	return perform(a, cove_undo, "Take back");
}

int cmd_discard(const struct args *a)
{
	cleanup_paths char **given = cli_paths(a);
	const char *const *paths = a->n_words > 1 ? (const char *const *)given : NULL;
	struct cove_diff_options look = {.size = sizeof(look), .paths = paths};
	const char *name = a->words[0];
	struct cove_error err = {0};
	char question[160];
	int64_t n;

	if (!given)
		return cli_failf("discard", NULL, "the paths: %s", strerror(errno));
	n = cove_diff(name, &look, &err);
	if (n < 0)
		return cli_fail("discard", &err);
	snprintf(question, sizeof(question), "Drop %lld change%s of %s for good?",
		 (long long)n, n == 1 ? "" : "s", name);
	if (n > 0 && !cli_has(a, F_YES)) {
		int yes = cli_confirm(question);

		if (yes < 0)
			return cli_failf(
				"discard", "--yes drops them without a question",
				"%s has %lld change%s, and there is no terminal to ask "
				"on",
				name, (long long)n, n == 1 ? "" : "s");
		if (!yes)
			return EXIT_FINDINGS;
	}
	n = cove_discard(name, paths, &err);
	if (n < 0)
		return cli_fail("discard", &err);
	if (cli_has(a, F_JSON))
		printf("{\"discarded\": %lld}\n", (long long)n);
	else if (!cli_has(a, F_QUIET))
		cli_note("cove discard: dropped %lld change%s", (long long)n,
			 n == 1 ? "" : "s");
	return cli_flush("discard", 0);
}
