/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message - what cove says to people: one form for failures, hints, notes and questions.
 *
 * All of it goes to stderr, each message in one write, with whatever came from outside
 * made harmless first: stdout is for data only.
 */
#include "cli/cli.h"

#include <stdarg.h>
#include <stdio.h>

static void say(const char *prefix, const char *verb, const char *text)
{
	cleanup_free char *safe = cli_escape(text);
	char line[1400];
	int n;

	n = snprintf(line, sizeof(line), "%s%s%s%s\n", prefix, verb, *verb ? ": " : "",
		     safe ? safe : "out of memory");
	if (n >= (int)sizeof(line)) {
		n = sizeof(line) - 1;
		line[n - 1] = '\n';
	}
	if (n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* nobody listens: nothing more to do about it */
}

int cli_fail(const char *verb, const struct cove_error *err)
{
	say("cove ", verb, err->msg[0] ? err->msg : "failed without saying why");
	if (err->hint[0])
		say("hint: ", "", err->hint);
	return EXIT_COVE;
}

int cli_failf(const char *verb, const char *hint, const char *fmt, ...)
{
	struct cove_error err = {.code = COVE_EINVAL};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err.msg, sizeof(err.msg), fmt, ap);
	va_end(ap);
	if (hint)
		snprintf(err.hint, sizeof(err.hint), "%s", hint);
	return cli_fail(verb, &err);
}

int cli_usage(const struct command *cmd, const char *fmt, ...)
{
	struct cove_error err = {.code = COVE_EINVAL};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err.msg, sizeof(err.msg), fmt, ap);
	va_end(ap);
	snprintf(err.hint, sizeof(err.hint), "see 'cove %s --help'", cmd->name);
	cli_fail(cmd->name, &err);
	return EXIT_USAGE;
}

void cli_note(const char *fmt, ...)
{
	char text[1200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	say("", "", text);
}

void cli_lines(const char *verb, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "\n");
		char line[1000];

		snprintf(line, sizeof(line), "%.*s", (int)(len < 999 ? len : 999), text);
		if (*line)
			say("cove ", verb, line);
		text += len + (text[len] == '\n');
	}
}

int cli_flush(const char *verb, int code)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	if (errno == EPIPE)
		return code; /* the reader had enough */
	return cli_failf(verb, NULL, "standard output: %s", strerror(errno));
}

static int log_most; /* the level that is shown, and those before it */

static void log_line(void *arg, int level, const char *line)
{
	static const char *const names[] = {"error", "warning", "info", "debug"};

	(void)arg;
	if (level > log_most)
		return;
	say("cove: ", level >= 0 && level < 4 ? names[level] : "log", line);
}

/* Errors are returned, not logged: who wants nothing else does not listen. */
void cli_log_enable(int level)
{
	log_most = level;
	cove_set_log(level > 0 ? log_line : NULL, NULL);
}

int cli_confirm(const char *question)
{
	char answer[16];

	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
		return -1;
	dprintf(STDERR_FILENO, "%s [y/N] ", question);
	if (!fgets(answer, sizeof(answer), stdin))
		return 0;
	return answer[0] == 'y' || answer[0] == 'Y';
}

int cli_ask(const struct args *a, const char *question, const char *what)
{
	int yes = cli_has(a, F_YES) ? 1 : cli_confirm(question);

	if (yes > 0)
		return 0;
	if (yes < 0)
		return cli_failf(a->cmd->name, "say --yes if you mean it",
				 "%s: no terminal to ask on", what);
	cli_note("cove %s: nothing was changed", a->cmd->name);
	return EXIT_NO;
}
