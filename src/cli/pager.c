/* SPDX-License-Identifier: Apache-2.0 */
/* pager - see pager.h. */
#include "cli/pager.h"

#include "cli/cli.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

static pid_t pager = -1;

static const char *pager_command(void)
{
	static const char *const names[] = {"COVE_PAGER", "PAGER"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *value = getenv(names[i]);

		if (value)
			return *value && strcmp(value, "cat") != 0 ? value : NULL;
	}
	return "less";
}

/* The shell starts it, since $PAGER may hold arguments. ^C is for the pager alone. */
static int spawn_pager(const char *command, int from, pid_t *ret)
{
	char sh[] = "sh", c[] = "-c";
	cleanup_free char *text = strdup(command);
	char *argv[] = {sh, c, text, NULL};
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	sigset_t signals;
	int r;

	if (!text)
		return -ENOMEM;
	setenv("LESS", "FRX", 0);
	sigemptyset(&signals);
	sigaddset(&signals, SIGPIPE);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGQUIT);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigdefault(&attr, &signals);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, from, STDIN_FILENO);
	r = posix_spawn(ret, "/bin/sh", &fa, &attr, argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	posix_spawnattr_destroy(&attr);
	return -r;
}

bool cli_pager_start(void)
{
	const char *command = pager_command();
	cleanup_fd int from = -1, to = -1;
	int ends[2];

	if (!command || !isatty(STDOUT_FILENO) || pipe2(ends, O_CLOEXEC) < 0)
		return false;
	from = ends[0];
	to = ends[1];
	if (spawn_pager(command, from, &pager) < 0) {
		pager = -1;
		return false;
	}
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	fflush(stdout);
	dup2(to, STDOUT_FILENO);
	return true;
}

void cli_pager_end(void)
{
	if (pager < 0)
		return;
	fflush(stdout);
	close(STDOUT_FILENO); /* what makes it see the end */
	open("/dev/null", O_WRONLY);
	while (waitpid(pager, NULL, 0) < 0 && errno == EINTR)
		;
	pager = -1;
}
