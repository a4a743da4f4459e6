/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_run - `cove run [NAME] [DIR] [flags] -- CMD`: the everyday verb.
 *
 * Without a NAME this process is the keeper of a one-shot sandbox, and what the command
 * changed is kept and named at the end. With one the sandbox is created if missing,
 * started if stopped, and left running.
 */
#include "cli/ask.h"
#include "cli/notice.h"
#include "cli/ports.h"
#include "cli/review.h"
#include "cli/secret.h"
#include "cli/session.h"
#include "cli/spec.h"
#include "cli/term.h"

#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

struct run {
	const struct args *a;
	struct workplace place;
	struct cove_spec *spec;
	char *spec_name; /* the name in the --spec file */
	char **env;
	int64_t timeout_ms;
};

static void run_clear(struct run *r)
{
	free(r->place.dir);
	cove_spec_free(r->spec);
	free(r->spec_name);
	cli_env_free(r->env);
}

static int check_usage(const struct args *a)
{
	if (!a->rest && !(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)))
		return cli_usage(a->cmd,
				 "no command, and no terminal for a shell: put the "
				 "command after '--'");
	if (a->rest && !a->rest[0])
		return cli_usage(a->cmd, "no command after '--'");
	if (cli_has(a, F_KEEP) && cli_has(a, F_RM))
		return cli_usage(a->cmd, "--keep and --rm: choose one");
	if (cli_has(a, F_TTY) && cli_has(a, F_NO_TTY))
		return cli_usage(a->cmd, "--tty and --no-tty: choose one");
	return 0;
}

static int start(const struct run *r, const char *name, const struct cove_spec *spec,
		 struct cove **ret, struct cove_error *err)
{
	struct cove_start_options o = {
		.size = sizeof(o),
		.flags = (cli_has(r->a, F_DEGRADED) ? COVE_START_DEGRADED : 0) |
			 /* bash may be missing: then the sandbox must outlive the attempt
			  */
			 (!name && r->a->rest ? COVE_START_ONESHOT : 0),
	};
	int code;

	cli_secret_give(&o);
	cli_report_start(r->a, &o);
	code = cove_start(ret, name, spec, &o, err);
	cli_progress_end();
	return code;
}

/* Runs the command; the exit code of cove. */
static int session(const struct run *r, struct cove *box, bool main, struct outcome *out)
{
	const char *workdir = cli_value(r->a, F_WORKDIR);
	struct session s = {
		.box = box,
		.argv = (const char *const *)r->a->rest,
		.env = (const char *const *)r->env,
		.cwd = workdir                  ? workdir
		       : main && r->place.given ? r->place.dir
						: NULL,
		.timeout_ms = r->timeout_ms,
		.tty = cli_want_tty(r->a),
		.ask = cli_has(r->a, F_ASK) && !cli_has(r->a, F_DETACH),
		.main = main,
		.agent = cli_value(r->a, F_AGENT),
		.tool = cli_value(r->a, F_TOOL),
		.offline = cli_has(r->a, F_OFFLINE),
	};
	int64_t since = cli_wall_ms();
	struct cove_error err = {0};
	int code;

	if (!s.argv)
		code = cli_session_shell(&s, out, &err);
	else if (cli_has(r->a, F_DETACH))
		code = cli_session_detached(&s, out, &err);
	else
		code = cli_session(&s, out, &err);
	code = code < 0 ? cli_fail("run", &err) : cli_session_exit("run", out);
	if (!cli_has(r->a, F_QUIET) && !cli_has(r->a, F_DETACH) && !cli_has(r->a, F_JSON))
		cli_net_denied(box, main ? cove_name(box) : NULL, since);
	return code;
}

/* What a program wants to know at the end, as one line of JSON on stderr. */
static void report_json(const char *name, uint64_t changes, int code)
{
	json_t *json = json_pack("{s:s,s:I,s:i}", "name", name, "changes",
				 (json_int_t)changes, "exit", code);
	char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

	if (text)
		dprintf(STDERR_FILENO, "%s\n", text);
	free(text);
	json_decref(json);
}

static void report_applied(const char *name, int e, const struct cove_apply_result *res,
			   const struct cove_error *err)
{
	json_t *json =
		json_pack("{s:s,s:I,s:i,s:b,s:I,s:i,s:i}", "name", name, "changes",
			  (json_int_t)(e ? 1 : res->left), "exit", 0, "applied", e == 0,
			  "paths", (json_int_t)(e ? 0 : res->applied), "findings",
			  (int)res->findings, "conflicts", (int)res->conflicts);
	char *text;

	if (json && e)
		json_object_set_new(json, "error", json_string(err->msg));
	text = json ? json_dumps(json, JSON_COMPACT) : NULL;
	if (text)
		dprintf(STDERR_FILENO, "%s\n", text);
	free(text);
	json_decref(json);
}

/* --apply: what the command changed lands at once, if it succeeded and the gate passes.
 */
static int apply_changes(const struct run *r, const char *name)
{
	struct cove_apply_result res = {.size = sizeof(res)};
	struct cove_error err = {0};
	struct review review;
	int code, e;

	review_init(&review, r->a);
	review.json =
		false; /* stdout is the command's; the report is one line on stderr */
	review.silent = cli_has(r->a, F_JSON);
	e = cove_apply(name, &review.options, &res, &err);
	if (e == COVE_EFINDINGS)
		snprintf(err.hint, sizeof(err.hint),
			 "cove apply %s --accept ID lets one finding pass", name);
	code = review.silent ? review_code(e) : review_end(&review, e, &res, &err);
	if (review.silent)
		report_applied(name, e, &res, &err);
	if (e == 0 && !cli_has(r->a, F_RM) && !review.silent && !review.quiet) {
		cli_note("cove: applied %llu change%s", (unsigned long long)res.applied,
			 res.applied == 1 ? "" : "s");
		cli_note("hint: cove undo %s takes it back, cove rm %s forgets it", name,
			 name);
	} else if (e < 0 && !review.silent) {
		cli_note("hint: the changes are kept in sandbox %s", name);
	}
	review_clear(&review);
	return code;
}

/* Ends the one-shot; left-over changes are named, or with --rm removed. */
static int finish(const struct run *r, struct cove *box, int code)
{
	struct cove_error err = {0};
	uint64_t changes = 0;
	char name[80];
	/* Without a report to write there is nothing left to do but to go. */
	int left = cli_has(r->a, F_JSON) ? cove_finish(box, &changes, &err)
					 : cove_leave(box, &changes, &err);

	if (left > 0)
		_exit(code);
	if (left < 0) {
		cove_free(box);
		return cli_fail("run", &err);
	}
	snprintf(name, sizeof(name), "%s", cove_name(box) ? cove_name(box) : "");
	cove_free(box);
	cli_notices(name);
	if (changes && cli_has(r->a, F_APPLY) && code == 0) {
		code = apply_changes(r, name);
		if (code == 0 && cli_has(r->a, F_RM) &&
		    cli_remove(name, COVE_REMOVE_FORCE, &err) < 0)
			return cli_fail("run", &err);
		return code;
	}
	if (changes && cli_has(r->a, F_RM)) {
		if (cli_remove(name, COVE_REMOVE_FORCE, &err) < 0)
			return cli_fail("run", &err);
		changes = 0;
	}
	if (cli_has(r->a, F_JSON)) {
		report_json(changes ? name : "", changes, code);
	} else if (changes && !cli_has(r->a, F_QUIET)) {
		cli_note("cove: %llu changed path%s kept in sandbox %s",
			 (unsigned long long)changes, changes == 1 ? " is" : "s are",
			 name);
		cli_note("hint: cove diff %s shows them, cove apply %s lands them, cove "
			 "rm "
			 "%s drops them",
			 name, name, name);
	}
	return code;
}

static int run_oneshot(struct run *r)
{
	struct cove_error err = {0};
	struct outcome out = {0};
	struct cove *box = NULL;
	int code;

	code = start(r, NULL, r->spec, &box, &err);
	cli_secret_forget();
	if (code < 0)
		return cli_fail("run", &err);
	if (!cli_has(r->a, F_QUIET))
		cli_ports_note(box);
	code = session(r, box, false, &out);
	return finish(r, box, code);
}

/* --ask does change one that exists: from now on somebody is there to ask. */
static int ask_from_now(const char *name)
{
	cleanup_spec struct cove_spec *spec = NULL;
	struct cove_error err = {0};

	if (cove_spec_new(&spec, &err) < 0 ||
	    cove_spec_set(spec, "network.ask", "true", &err) < 0 ||
	    cove_update(name, spec, 0, &err) < 0)
		return cli_fail("run", &err);
	return 0;
}

/* Flags that describe a sandbox cannot change one that exists: that is for `cove set`. */
static int refuse_flags_for_existing(const struct run *r, const char *name)
{
	cleanup_string char *json = NULL;
	struct cove_error err = {0};

	if (!(r->a->set & SPEC_FLAGS) ||
	    cove_inspect_json(name, &json, &err) == COVE_ENOENT)
		return 0;
	for (size_t i = 0; i < r->a->n_given; i++)
		if (FLAG(r->a->given[i].id) & (SPEC_FLAGS & ~FLAG(F_ASK)))
			return cli_failf(
				"run",
				"cove set changes it, cove rm removes it; or leave "
				"the flag away",
				"--%s: sandbox %s exists already",
				cli_flags[r->a->given[i].id].name, name);
	return cli_has(r->a, F_ASK) ? ask_from_now(name) : 0;
}

static int open_named(struct run *r, const char *name, struct cove **ret)
{
	struct cove_error err = {0};
	int code = refuse_flags_for_existing(r, name);

	if (code)
		return code;
	code = r->spec ? COVE_ENOENT : start(r, name, NULL, ret, &err);
	if (code != COVE_ENOENT)
		return code < 0 ? cli_fail("run", &err) : 0;
	code = r->spec ? 0 : cli_spec_build(r->a, &r->place, &r->spec, NULL);
	if (code)
		return code;
	err = (struct cove_error){0};
	return start(r, name, r->spec, ret, &err) < 0 ? cli_fail("run", &err) : 0;
}

static int run_named(struct run *r, const char *name)
{
	struct cove_error err = {0};
	struct outcome out = {0};
	struct cove *box = NULL;
	int code = open_named(r, name, &box);

	cli_secret_forget();
	if (code)
		return code;
	if (cli_has(r->a, F_PUBLISH) && !cli_has(r->a, F_QUIET))
		cli_ports_note(box);
	code = session(r, box, true, &out);
	cove_free(box);
	if (cli_has(r->a, F_APPLY) && code == 0 && !out.left_by) {
		code = apply_changes(r, name);
		if (code) /* what could not land is not thrown away either */
			return code;
	}
	if (cli_has(r->a, F_RM) && !out.left_by &&
	    cli_remove(name, COVE_REMOVE_FORCE, &err) < 0)
		return cli_fail("run", &err);
	if (cli_has(r->a, F_JSON))
		report_json(name, 0, code);
	return code;
}

static int run(struct run *r)
{
	const struct args *a = r->a;
	const char *name;
	int code = cli_workplace(a, &r->place);

	if (code == 0)
		code = cli_secret_take(a);
	if (code == 0)
		code = cli_env(a, &r->env);
	if (code == 0)
		code = cli_timeout(a, &r->timeout_ms);
	/* A sandbox named on the command line may exist: then no spec is needed. */
	if (code == 0 && (!r->place.name || (a->set & SPEC_FLAGS)))
		code = cli_spec_build(a, &r->place, &r->spec, &r->spec_name);
	if (code)
		return code;
	name = r->place.name ? r->place.name : r->spec_name;
	if (name)
		return run_named(r, name);
	if (cli_has(a, F_DETACH) || cli_has(a, F_KEEP))
		return cli_usage(a->cmd, "--%s: needs a NAME",
				 cli_has(a, F_DETACH) ? "detach" : "keep");
	return run_oneshot(r);
}

int cmd_run(const struct args *a)
{
	struct run r = {.a = a};
	int code = check_usage(a);

	if (code == 0)
		code = run(&r);
	run_clear(&r);
	return code;
}
