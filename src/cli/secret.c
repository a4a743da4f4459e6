/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/secret.h"

#include "cli/term.h"

#include <stdio.h>
#include <sys/mman.h>

enum { KEY_INTERRUPT = 3, KEY_END = 4, KEY_KILL = 21, KEY_ERASE = 127 };

/* One value at a time is in hand. */
static char value[CLI_SECRET_MAX + 3]; /* a line break, and one too many */
static struct cove_secret_value given;

void cli_secret_forget(void)
{
	explicit_bzero(value, sizeof(value));
	munlock(value, sizeof(value));
	given = (struct cove_secret_value){0};
}

/* A line in raw mode: nothing of it is shown. -1: interrupted, or too long. */
static ssize_t read_line(void)
{
	size_t n = 0;

	for (;;) {
		char c;
		ssize_t k = read(STDIN_FILENO, &c, 1);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0 || c == '\r' || c == '\n' || (c == KEY_END && n == 0))
			return k < 0 ? -1 : (ssize_t)n;
		if (c == KEY_INTERRUPT || n > CLI_SECRET_MAX)
			return -1;
		if (c == KEY_KILL)
			n = 0;
		else if (c == KEY_ERASE || c == '\b')
			n -= n > 0;
		else
			value[n++] = c;
	}
}

static ssize_t read_terminal(const char *name)
{
	ssize_t n;

	dprintf(STDERR_FILENO, "Value of %s (not shown): ", name);
	if (cli_term_raw(STDIN_FILENO) < 0)
		return -1;
	n = read_line();
	cli_term_restore();
	dprintf(STDERR_FILENO, "\n");
	return n;
}

static ssize_t read_all(void)
{
	size_t n = 0;

	while (n < sizeof(value)) {
		ssize_t k = read(STDIN_FILENO, value + n, sizeof(value) - n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -1;
		if (k == 0)
			break;
		n += (size_t)k;
	}
	if (n && value[n - 1] == '\n') {
		n--;
		if (n && value[n - 1] == '\r')
			n--;
	}
	return (ssize_t)n;
}

int cli_secret_read(const char *verb, const char *name, const char **ret, size_t *ret_n)
{
	bool tty = isatty(STDIN_FILENO);
	ssize_t n;

	(void)mlock(value, sizeof(value)); /* over the limit it works all the same */
	n = tty ? read_terminal(name) : read_all();
	if (n > 0 && n <= CLI_SECRET_MAX) {
		*ret = value;
		*ret_n = (size_t)n;
		return 0;
	}
	cli_secret_forget();
	if (n < 0)
		return cli_failf(verb, NULL, "secret %s: no value was read", name);
	if (n == 0)
		return cli_failf(verb,
				 tty ? "type it, and then Enter"
				     : "it is read from standard input, to its end",
				 "secret %s: its value is empty", name);
	return cli_failf(verb, "what is larger can be a file that is mounted",
			 "secret %s: its value has more than %d bytes", name,
			 CLI_SECRET_MAX);
}

int cli_secret_take(const struct args *a)
{
	const char *name = cli_value(a, F_SECRET_STDIN), *text = NULL;
	size_t n = 0;
	int code = name ? cli_secret_read(a->cmd->name, name, &text, &n) : 0;

	if (name && code == 0)
		given = (struct cove_secret_value){name, text, n};
	return code;
}

void cli_secret_give(struct cove_start_options *o)
{
	if (!given.name)
		return;
	o->secrets = &given;
	o->n_secrets = 1;
}
