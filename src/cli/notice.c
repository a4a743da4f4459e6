/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/notice.h"
#include "cli/term.h"

#include <stdio.h>

void cli_notices(const char *name)
{
	cleanup_string char *text = NULL;
	struct cove_error err = {0};

	if (cove_notices(name, &text, &err) < 0 || !text)
		return;
	for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
		cleanup_free char *safe = NULL;

		*end = '\0';
		safe = cli_escape(line);
		cli_note("cove: %s", safe ? safe : "");
	}
}

int cli_remove(const char *name, uint32_t flags, struct cove_error *err)
{
	int r = cove_remove(name, flags, err);

	if (r == 0) {
		cli_progress_end();
		cli_notices(name);
	}
	return r;
}

/* Commands are told one by one, also where there is no terminal. */
static void show_progress(void *arg, const char *what, int percent)
{
	cleanup_free char *safe = NULL;

	if (strncmp(what, "provision", 9) != 0) {
		cli_progress(arg, what, percent);
		return;
	}
	cli_progress_end();
	safe = cli_escape(what);
	cli_note("cove: %s", safe ? safe : "");
}

static void show_output(void *arg, int fd, const void *data, size_t n)
{
	const char *p = data;

	(void)arg;
	(void)fd;
	while (n) {
		ssize_t w = write(STDERR_FILENO, p, n);

		if (w <= 0 && errno != EINTR)
			return;
		p += w > 0 ? w : 0;
		n -= w > 0 ? (size_t)w : 0;
	}
}

void cli_report_start(const struct args *a, struct cove_start_options *o)
{
	bool quiet = cli_has(a, F_QUIET);

	o->progress = quiet ? cli_progress : show_progress;
	o->output = quiet ? NULL : show_output;
}
