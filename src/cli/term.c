/* SPDX-License-Identifier: Apache-2.0 */
/*
 * term - raw mode that is given back on every way out.
 *
 * The loop in session.c restores on its own ways out; atexit() covers exit(), and
 * handlers cover the signals of a crash. The saved settings are written once, before the
 * flag.
 */
#include "cli/term.h"
#include "cli/cli.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>

static struct {
	struct termios saved;
	volatile sig_atomic_t raw;
	int fd;
	bool hooked;
} term = {.fd = -1};

void cli_term_restore(void)
{
	int saved = errno;

	if (term.raw) {
		/* Not DRAIN: a terminal that holds its output would hold us too. */
		tcsetattr(term.fd, TCSANOW, &term.saved);
		term.raw = 0;
	}
	errno = saved;
}

static void crashed(int signo)
{
	cli_term_restore();
	raise(signo); /* the handler was for once: this ends the process */
}

static void hook(void)
{
	static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS};
	struct sigaction sa = {.sa_handler = crashed, .sa_flags = (int)SA_RESETHAND};

	if (term.hooked)
		return;
	term.hooked = true;
	atexit(cli_term_restore);
	for (size_t i = 0; i < ARRAY_LEN(crashes); i++)
		sigaction(crashes[i], &sa, NULL);
}

int cli_term_raw(int fd)
{
	struct termios raw;

	if (term.raw)
		return 0;
	if (tcgetattr(fd, &term.saved) < 0)
		return -errno;
	raw = term.saved;
	cfmakeraw(&raw);
	term.fd = fd;
	hook();
	term.raw = 1;
	if (tcsetattr(fd, TCSANOW, &raw) < 0) {
		term.raw = 0;
		return -errno;
	}
	return 0;
}

void cli_term_size(uint16_t *rows, uint16_t *cols)
{
	static const int fds[] = {STDOUT_FILENO, STDIN_FILENO, STDERR_FILENO};
	struct winsize size;

	*rows = 24;
	*cols = 80;
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		if (ioctl(fds[i], TIOCGWINSZ, &size) < 0 || !size.ws_row || !size.ws_col)
			continue;
		*rows = size.ws_row;
		*cols = size.ws_col;
		return;
	}
}
