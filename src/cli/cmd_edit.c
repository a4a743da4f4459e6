/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_edit - the spec of a sandbox in the user's editor.
 *
 * The text is checked as a whole; all problems are shown, and on a terminal the user may
 * go on editing. Nothing changes on an error, and nothing when the text is the same.
 */
#include "cli/json.h"
#include "cli/yaml.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

#define TEXT_MAX (1u << 20)

struct edit {
	const char *name;
	char path[512];
	char *before, *after;
};

static void edit_clear(struct edit *e)
{
	if (*e->path)
		unlink(e->path);
	free(e->before);
	free(e->after);
}

/* What was asked for, as it is on disk: defaults that are filled in would become demands
 * by being written down. */
static json_t *spec_asked(const json_t *all)
{
	const char *dir = cli_json_text(all, "directory");
	cleanup_free char *path = NULL;

	if (!dir || asprintf(&path, "%s/spec.json", dir) < 0)
		path = NULL;
	return path ? json_load_file(path, 0, NULL) : NULL;
}

static void write_text(struct edit *e, const json_t *spec)
{
	size_t n;
	FILE *f = open_memstream(&e->before, &n);

	if (!f)
		return;
	fprintf(f,
		"# The spec of sandbox %s, see cove-spec(5). Save and leave to apply it; "
		"leave it\n"
		"# as it is to change nothing.\n",
		e->name);
	cli_yaml_write(f, spec);
	fclose(f);
}

static int spec_text(struct edit *e, struct cove_error *err)
{
	char *text = NULL;
	json_t *all, *spec;

	if (cove_inspect_json(e->name, &text, err) < 0)
		return err->code;
	all = cli_json_take(text, err);
	if (!all)
		return err->code;
	spec = spec_asked(all);
	if (json_is_object(spec) && json_object_get(all, "spec"))
		write_text(e, spec);
	else
		snprintf(err->msg, sizeof(err->msg), "%s: %s", e->name,
			 cli_json_text(all, "problem") ? cli_json_text(all, "problem")
						       : "its spec cannot be read");
	json_decref(spec);
	json_decref(all);
	return e->before ? 0 : (err->code = COVE_EDAMAGED);
}

static int write_file(struct edit *e, struct cove_error *err)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");
	size_t n = strlen(e->before);
	cleanup_fd int fd = -1;
	ssize_t done;

	if (!dir || !*dir || access(dir, W_OK) < 0)
		dir = getenv("TMPDIR");
	snprintf(e->path, sizeof(e->path), "%s/cove-edit-XXXXXX.yaml",
		 dir && *dir ? dir : "/tmp");
	fd = mkostemps(e->path, 5, O_CLOEXEC); /* mode 0600 */
	done = fd < 0 ? -1 : write(fd, e->before, n);
	if (done == (ssize_t)n)
		return 0;
	snprintf(err->msg, sizeof(err->msg), "%s: %s", e->path, strerror(errno));
	if (fd < 0)
		*e->path = '\0';
	return err->code = COVE_EIO;
}

static int read_back(struct edit *e, struct cove_error *err)
{
	cleanup_fd int fd = open(e->path, O_RDONLY | O_CLOEXEC);
	char *text = calloc(1, TEXT_MAX + 1);
	size_t n = 0;
	ssize_t got = -1;

	while (fd >= 0 && text && n < TEXT_MAX &&
	       (got = read(fd, text + n, TEXT_MAX - n)) > 0)
		n += (size_t)got;
	if (fd < 0 || !text || got < 0) {
		snprintf(err->msg, sizeof(err->msg), "%s: %s", e->path, strerror(errno));
		free(text);
		return err->code = COVE_EIO;
	}
	free(e->after);
	e->after = text;
	return 0;
}

/* The editor may be a command with arguments, so a shell splits it; the file is $1. */
static int run_editor(struct edit *e, struct cove_error *err)
{
	const char *visual = getenv("VISUAL"), *editor = getenv("EDITOR");
	const char *name = visual && *visual ? visual : editor && *editor ? editor : "vi";
	cleanup_free char *script = NULL;
	int status = 0, r;
	pid_t pid;

	if (asprintf(&script, "exec %s \"$1\"", name) < 0)
		script = NULL;
	char sh[] = "sh", c[] = "-c", zero[] = "cove-edit";
	char *argv[] = {sh, c, script, zero, e->path, NULL};

	r = script ? posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ) : ENOMEM;
	if (r) {
		snprintf(err->msg, sizeof(err->msg), "%s: %s", name, strerror(r));
		return err->code = COVE_EIO;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	snprintf(err->msg, sizeof(err->msg), "%s: the editor failed; nothing was changed",
		 name);
	snprintf(err->hint, sizeof(err->hint),
		 "set EDITOR or VISUAL to the editor to use");
	return err->code = COVE_EIO;
}

/* 0 applied, 1 the text has problems (shown), or an error. */
static int apply(struct edit *e, struct cove_error *err)
{
	cleanup_spec struct cove_spec *spec = NULL;
	int r = cove_spec_new(&spec, err);

	if (r < 0)
		return r;
	r = cove_spec_parse(spec, e->after, strlen(e->after), e->name, err);
	if (r < 0 && *cove_spec_problems(spec)) {
		cli_lines("edit", cove_spec_problems(spec));
		return 1;
	}
	return r < 0 ? r : cove_update(e->name, spec, COVE_UPDATE_FULL, err);
}

static int edit_loop(struct edit *e, bool quiet)
{
	struct cove_error err = {0};

	for (;;) {
		int r = run_editor(e, &err);

		if (r == 0)
			r = read_back(e, &err);
		if (r < 0)
			return cli_fail("edit", &err);
		if (strcmp(e->before, e->after) == 0) {
			if (!quiet)
				cli_note("cove edit: %s: nothing changed", e->name);
			return 0;
		}
		r = apply(e, &err);
		if (r == 0)
			return 0;
		if (r < 0)
			cli_fail("edit", &err);
		if (cli_confirm("Edit again?") != 1)
			return EXIT_COVE;
		err = (struct cove_error){0};
	}
}

int cmd_edit(const struct args *a)
{
	struct edit e = {.name = a->words[0]};
	struct cove_error err = {0};
	int code;

	if (spec_text(&e, &err) < 0 || write_file(&e, &err) < 0)
		code = cli_fail("edit", &err);
	else
		code = edit_loop(&e, cli_has(a, F_QUIET));
	edit_clear(&e);
	return code;
}
