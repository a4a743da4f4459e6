/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_lifecycle - start, stop, restart, kill, pause, resume, rm, reset. Each takes
 * several names; one that fails does not stop the others, and any failure shows in the
 * exit code.
 */
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/notice.h"
#include "cli/secret.h"
#include "cli/term.h"

#include <stdio.h>

#define GRACE_MS 5000

struct job {
	const struct args *a;
	int64_t grace_ms;
};

typedef int one_fn(const struct job *job, const char *name, struct cove_error *err);

static int one(const struct job *job, one_fn *fn, const char *doing, const char *name)
{
	struct cove_error err = {0};
	char what[120];
	int r;

	snprintf(what, sizeof(what), "%s %.80s", doing, name);
	cli_progress_slow(what);
	r = fn(job, name, &err);
	cli_progress_end();
	return r < 0 ? cli_fail(job->a->cmd->name, &err) : 0;
}

/* One that is paused runs, too. */
static bool is_in(const char *is, const char *state)
{
	return !state ||
	       (is && (strcmp(is, state) == 0 ||
		       (strcmp(is, "paused") == 0 && strcmp(state, "running") == 0)));
}

static int each_listed(const struct job *job, one_fn *fn, const char *doing,
		       const char *state)
{
	struct cove_error err = {0};
	json_t *list, *item;
	size_t i;
	int code = 0;

	if (cli_list(&list, &err) < 0)
		return cli_fail(job->a->cmd->name, &err);
	json_array_foreach(list, i, item)
	{
		const char *name = cli_json_text(item, "name");
		const char *is = cli_json_text(item, "state");

		if (name && is_in(is, state) && one(job, fn, doing, name) != 0)
			code = EXIT_COVE;
	}
	json_decref(list);
	return code;
}

/* The named ones, or with --all every one in `state` (NULL: any). */
static int each(const struct args *a, one_fn *fn, const char *doing, const char *state)
{
	struct job job = {.a = a, .grace_ms = GRACE_MS};
	const char *grace = cli_value(a, F_GRACE);
	int code = 0;

	if (grace && cli_duration(grace, &job.grace_ms) < 0)
		return cli_usage(a->cmd, "--grace %s: not a duration like 10s or 1m",
				 grace);
	if (cli_has(a, F_ALL)) {
		if (a->n_words)
			return cli_usage(a->cmd, "--all and %s: choose one", a->words[0]);
		return each_listed(&job, fn, doing, state);
	}
	if (!a->n_words)
		return cli_usage(a->cmd, "no name");
	for (size_t i = 0; i < a->n_words; i++)
		if (one(&job, fn, doing, a->words[i]) != 0)
			code = EXIT_COVE;
	return code;
}

static int start_one(const struct job *job, const char *name, struct cove_error *err)
{
	struct cove_start_options o = {
		.size = sizeof(o),
		.flags = cli_has(job->a, F_DEGRADED) ? COVE_START_DEGRADED : 0,
	};
	struct cove *box = NULL;
	int r;

	cli_report_start(job->a, &o);
	cli_secret_give(&o);
	r = cove_start(&box, name, NULL, &o, err);
	cove_free(box);
	return r;
}

static int stop_one(const struct job *job, const char *name, struct cove_error *err)
{
	return cove_stop(name, (int)job->grace_ms, err);
}

/* A stopped one is started; that is what was asked for. */
static int restart_one(const struct job *job, const char *name, struct cove_error *err)
{
	int r = stop_one(job, name, err);

	if (r < 0 && r != COVE_ESTATE)
		return r;
	return start_one(job, name, err);
}

static int kill_one(const struct job *job, const char *name, struct cove_error *err)
{
	(void)job;
	return cove_kill(name, err);
}

static int pause_one(const struct job *job, const char *name, struct cove_error *err)
{
	(void)job;
	return cove_pause(name, err);
}

static int resume_one(const struct job *job, const char *name, struct cove_error *err)
{
	(void)job;
	return cove_resume(name, err);
}

static int remove_one(const struct job *job, const char *name, struct cove_error *err)
{
	return cli_remove(name, cli_has(job->a, F_FORCE) ? COVE_REMOVE_FORCE : 0, err);
}

static int reset_one(const struct job *job, const char *name, struct cove_error *err)
{
	(void)job;
	return cove_reset(name, err);
}

int cmd_start(const struct args *a)
{
	int code = cli_secret_take(a);

	if (code == 0)
		code = each(a, start_one, "starting", "stopped");
	cli_secret_forget();
	return code;
}

int cmd_stop(const struct args *a)
{
	return each(a, stop_one, "stopping", "running");
}

int cmd_restart(const struct args *a)
{
	int code = cli_secret_take(a);

	if (code == 0)
		code = each(a, restart_one, "restarting", "running");
	cli_secret_forget();
	return code;
}

int cmd_kill(const struct args *a)
{
	return each(a, kill_one, "killing", "running");
}

int cmd_pause(const struct args *a)
{
	return each(a, pause_one, "pausing", "running");
}

int cmd_resume(const struct args *a)
{
	return each(a, resume_one, "resuming", "paused");
}

int cmd_rm(const struct args *a)
{
	if (cli_has(a, F_ALL) && !a->n_words && !cli_has(a, F_FORCE)) {
		int code = cli_ask(a, "Remove every stopped sandbox with its changes?",
				   "--all");

		if (code)
			return code;
	}
	return each(a, remove_one, "removing", cli_has(a, F_FORCE) ? NULL : "stopped");
}

int cmd_reset(const struct args *a)
{
	char question[200];
	int code;

	snprintf(question, sizeof(question), "Discard all changes in %.80s%s?",
		 a->words[0], a->n_words > 1 ? " and the others" : "");
	code = cli_ask(a, question, a->words[0]);
	return code ? code : each(a, reset_one, "resetting", NULL);
}
