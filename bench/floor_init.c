/* SPDX-License-Identifier: Apache-2.0 */
/*
 * floor_init - the least PID 1: starts argv[0..] by vfork, reaps until it has ended,
 * passes its status on. Stands where cove-guest stands, to count the cost of one more
 * exec.
 */
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv, char **env)
{
	pid_t pid, p;
	int status = 0;

	(void)argc;
	pid = vfork();
	if (pid == 0) {
		execve(argv[0], argv, env);
		_exit(127);
	}
	do
		p = waitpid(-1, &status, 0);
	while (p != pid && (p > 0 || errno == EINTR));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
