/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_archive - export and import. */
#include "cli/json.h"
#include "cli/spec.h"
#include "cli/term.h"

#include <fcntl.h>
#include <stdio.h>

/* Beside the file, and in its place only when complete. */
static int export_to(const char *name, const char *file)
{
	cleanup_free char *tmp = NULL;
	struct cove_error err = {0};
	int r;

	if (asprintf(&tmp, "%s.%d.tmp", file, (int)getpid()) < 0) {
		tmp = NULL;
		return cli_failf("export", NULL, "out of memory");
	}
	cleanup_fd int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return cli_failf("export", NULL, "%s: %s", tmp, strerror(errno));
	cli_progress_slow("exporting");
	r = cove_export(name, fd, &err);
	cli_progress_end();
	if (r == 0 && (fsync(fd) < 0 || rename(tmp, file) < 0)) {
		r = cli_failf("export", NULL, "%s: %s", file, strerror(errno));
		unlink(tmp);
		return r;
	}
	if (r < 0) {
		unlink(tmp);
		return cli_fail("export", &err);
	}
	return 0;
}

int cmd_export(const struct args *a)
{
	const char *file = cli_value(a, F_OUTPUT);
	struct cove_error err = {0};

	if (file && strcmp(file, "-") != 0)
		return export_to(a->words[0], file);
	if (isatty(STDOUT_FILENO))
		return cli_usage(a->cmd, "an archive does not go to a terminal: -o FILE");
	return cove_export(a->words[0], STDOUT_FILENO, &err) < 0
		       ? cli_fail("export", &err)
		       : 0;
}

/* What the archive's sandbox will see of this host, since the archive named it. */
static void tell_mounts(const char *name)
{
	struct cove_error err = {0};
	char *text = NULL;
	json_t *all = cove_inspect_json(name, &text, &err) < 0
			      ? NULL
			      : cli_json_take(text, &err);
	const json_t *mounts = json_object_get(json_object_get(all, "spec"), "mounts");
	const json_t *m;
	size_t i;

	json_array_foreach(mounts, i, m)
		cli_note("cove import: it will see %s (%s)", cli_json_text(m, "source"),
			 cli_json_text(m, "mode") ? cli_json_text(m, "mode") : "overlay");
	json_decref(all);
}

int cmd_import(const struct args *a)
{
	cleanup_spec struct cove_spec *changes = NULL;
	cleanup_string char *made = NULL;
	struct cove_error err = {0};
	bool standard = strcmp(a->words[0], "-") == 0;
	int code, r;

	if (a->set & (SPEC_FLAGS | EXEC_FLAGS)) {
		if (cove_spec_new(&changes, &err) < 0)
			return cli_fail("import", &err);
		code = cli_spec_flags(a, changes);
		if (code)
			return code;
	}
	cleanup_fd int fd = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
				     : open(a->words[0], O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return cli_failf("import", NULL, "%s: %s", a->words[0], strerror(errno));
	cli_progress_slow("importing");
	r = cove_import(a->n_words > 1 ? a->words[1] : NULL, fd, changes, &made, &err);
	cli_progress_end();
	if (r < 0)
		return cli_fail("import", &err);
	if (!cli_has(a, F_QUIET)) {
		puts(made);
		tell_mounts(made);
	}
	return cli_flush("import", 0);
}
