/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ask.h"
#include "cli/net.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <termios.h>
#include <time.h>

#define ANSWER_MS 55000 /* a little less than what the other side waits */
#define NOTICES_MAX 8

/* ---- the question ------------------------------------------------------------------ */

/* Prints the prompt and takes one key, whatever mode the terminal is in: what was typed
 * before is no answer. 0: none came. */
static char ask_key(int tty, int signals, const char *prompt)
{
	struct pollfd fds[] = {
		{.fd = tty,     .events = POLLIN},
		{.fd = signals, .events = POLLIN},
	};
	struct termios before, now;
	char key = 0;

	if (tcgetattr(tty, &before) < 0)
		return 0;
	now = before;
	now.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
	now.c_cc[VMIN] = 1;
	now.c_cc[VTIME] = 0;
	if (tcsetattr(tty, TCSAFLUSH, &now) < 0)
		return 0;
	dprintf(tty, "%s", prompt);
	if (poll(fds, 2, ANSWER_MS) > 0 && fds[0].revents && read(tty, &key, 1) != 1)
		key = 0;
	tcsetattr(tty, TCSANOW, &before);
	return key;
}

static const struct {
	char key;
	bool allow, remember;
	const char *word;
} answers[] = {
	{'o', true,  false, "once"  },
	{'a', true,  true,  "always"},
	{'d', false, false, "deny"  },
};
#define DENY (ARRAY_LEN(answers) - 1)

/* An index of answers[]; anything but a clear yes is a no. */
static size_t ask_on(int tty, const struct ask *a, const char *program, const char *what)
{
	char prompt[1000];

	snprintf(prompt, sizeof(prompt),
		 "\r\ncove: '%.60s' wants %.800s - allow [o]nce, [a]lways, [d]eny? ",
		 program, what);
	for (int tries = 0; tries < 3; tries++) {
		char key = ask_key(tty, a->signals, prompt);

		for (size_t i = 0; i < ARRAY_LEN(answers); i++)
			if ((key | 0x20) == answers[i].key) {
				dprintf(tty, "%s\r\n", answers[i].word);
				return i;
			}
		if (!key || key == 3 || key == 4 || key == 27)
			break;
	}
	dprintf(tty, "deny\r\n");
	return DENY;
}

/* Somebody else's terminal, or one in the background, is no place to ask. */
static int open_tty(void)
{
	int tty = open("/dev/tty", O_RDWR | O_CLOEXEC);

	if (tty >= 0 && tcgetpgrp(tty) == getpgrp())
		return tty;
	if (tty >= 0)
		close(tty);
	return -1;
}

static bool was_denied(const struct ask *a, const char *what)
{
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->denied[i], what) == 0)
			return true;
	return false;
}

static void note_denied(struct ask *a, const char *what)
{
	if (a->n < ASK_DENIED && (a->denied[a->n] = strdup(what)))
		a->n++;
}

void cli_net_ask_clear(struct ask *a)
{
	while (a->n)
		free(a->denied[--a->n]);
}

void cli_net_ask(void *arg, uint64_t id, const char *question)
{
	struct ask *a = arg;
	json_t *q = json_loads(question, 0, NULL);
	const char *program = cli_json_text(q, "program");
	const char *method = cli_json_text(q, "method"), *path = cli_json_text(q, "path");
	struct cove_error err = {0};
	char host[340], what[800];
	size_t answer = DENY;

	net_host_port(q, host, sizeof(host));
	snprintf(what, sizeof(what), "%s%s%s%s%.300s", method ? method : "",
		 method ? " " : "", host, method ? " " : "", method && path ? path : "");
	if (!was_denied(a, what)) {
		cleanup_fd int tty = open_tty();
		cleanup_free char *safe = cli_escape(what);
		cleanup_free char *safe_program =
			cli_escape(program && *program ? program : "a program");

		if (tty >= 0 && safe && safe_program)
			answer = ask_on(tty, a, safe_program, safe);
		if (answer == DENY)
			note_denied(a, what);
	}
	if (cove_net_answer(a->box, id, answers[answer].allow, answers[answer].remember,
			    &err) < 0 &&
	    err.code != COVE_EGONE)
		cli_note("cove: %s: %s", host, err.msg);
	json_decref(q);
}

/* ---- what was refused ---------------------------------------------------------------
 */

int64_t cli_wall_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void say_denied(const json_t *d, const char *name)
{
	const char *reason = cli_json_text(d, "reason"), *rule = cli_json_text(d, "rule");
	const char *program = cli_json_text(d, "program");
	cleanup_free char *safe = NULL, *safe_program = NULL;
	char host[340];

	if (cli_json_text(d, "problem")) {
		cli_note("cove: %s: there is no network since then",
			 cli_json_text(d, "problem"));
		return;
	}
	net_host_port(d, host, sizeof(host));
	safe = cli_escape(host);
	safe_program = cli_escape(program ? program : "");
	if (!safe || !safe_program)
		return;
	cli_note("cove: denied %s%s%s%s: %s", safe, *safe_program ? " (" : "",
		 safe_program, *safe_program ? ")" : "", reason ? reason : "?");
	/* What a rule refuses, or what was wrong with an allowed one, needs more thought.
	 */
	if (!rule || strncmp(rule, "mode:", 5) != 0)
		return;
	if (name)
		cli_note("hint: cove net allow %s %s", name, safe);
	else
		cli_note("hint: cove run --allow %s ...", safe);
}

void cli_net_denied(struct cove *box, const char *name, int64_t since_ms)
{
	struct cove_error err = {0};
	char *text = NULL;
	json_t *list;
	size_t n;

	if (cove_net_denied_json(box, since_ms, &text, &err) < 0)
		return;
	list = cli_json_take(text, &err);
	n = json_array_size(list);
	for (size_t i = 0; i < n && i < NOTICES_MAX; i++)
		say_denied(json_array_get(list, i), name);
	if (n > NOTICES_MAX)
		cli_note("cove: and %zu more; 'cove net log' has all of a named sandbox",
			 n - NOTICES_MAX);
	json_decref(list);
}
