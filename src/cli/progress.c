/* SPDX-License-Identifier: Apache-2.0 */
/*
 * progress - one line on stderr for what takes longer than a second, erased at the end.
 *
 * Two ways in: the library's callback while a sandbox starts, and a timer for calls that
 * block without one (stop, rm). Nothing is shown when stderr is not a terminal.
 */
#include "cli/cli.h"
#include "cli/term.h"

#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>

static struct {
	time_t since; /* seconds of the first call; 0: none */
	int visible;  /* is stderr a terminal? -1: not asked yet */
	volatile sig_atomic_t shown;
	char slow[160];
	size_t slow_len;
} progress = {.visible = -1};

static bool visible(void)
{
	if (progress.visible < 0)
		progress.visible = isatty(STDERR_FILENO);
	return progress.visible;
}

static void put(const char *text, size_t len)
{
	int saved = errno;

	if (write(STDERR_FILENO, text, len) > 0)
		progress.shown = 1;
	errno = saved;
}

void cli_progress(void *arg, const char *what, int percent)
{
	cleanup_free char *safe = NULL;
	struct timespec now;
	char line[200];
	int n;

	(void)arg;
	if (!visible())
		return;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!progress.since)
		progress.since = now.tv_sec;
	if (now.tv_sec - progress.since < 1)
		return;
	safe = cli_escape(what);
	n = percent < 0
		    ? snprintf(line, sizeof(line), "\r\033[K%.70s ...", safe ? safe : "")
		    : snprintf(line, sizeof(line), "\r\033[K%.70s %d %%",
			       safe ? safe : "", percent);
	put(line, (size_t)n);
}

static void too_slow(int signo)
{
	(void)signo;
	put(progress.slow, progress.slow_len);
}

void cli_progress_slow(const char *what)
{
	struct sigaction sa = {.sa_handler = too_slow, .sa_flags = SA_RESTART};
	struct itimerval second = {.it_value.tv_sec = 1};
	cleanup_free char *safe = NULL;

	if (!visible())
		return;
	safe = cli_escape(what);
	snprintf(progress.slow, sizeof(progress.slow), "\r\033[K%.120s ...",
		 safe ? safe : "");
	progress.slow_len = strlen(progress.slow);
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &second, NULL);
}

void cli_progress_end(void)
{
	if (progress.slow_len) {
		setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
		progress.slow_len = 0;
	}
	if (progress.shown)
		put("\r\033[K", 4);
	progress.shown = 0;
	progress.since = 0;
}
