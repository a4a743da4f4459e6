/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sink - runs a command with its standard output in a pipe, throws the bytes away with
 * 1 MiB reads, and prints "BYTES NANOSECONDS". The clock starts with the first byte, so
 * that start-up does not count.
 *
 * usage: sink PROGRAM [ARG...]
 */
#include "bench.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#define CHUNK (1u << 20)

extern char **environ;

int main(int argc, char **argv)
{
	posix_spawn_file_actions_t fa;
	uint64_t bytes = 0, start = 0;
	int p[2], status, e;
	pid_t pid;
	char *buf = malloc(CHUNK);

	if (argc < 2 || !buf || pipe2(p, O_CLOEXEC) < 0)
		die("usage: sink PROGRAM [ARG...]");
	if (posix_spawn_file_actions_init(&fa) ||
	    posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0) ||
	    posix_spawn_file_actions_adddup2(&fa, p[1], 1))
		die("sink: file actions");
	e = posix_spawnp(&pid, argv[1], &fa, NULL, argv + 1, environ);
	if (e) {
		errno = e;
		die(argv[1]);
	}
	close(p[1]);
	fcntl(p[0], F_SETPIPE_SZ,
	      CHUNK); /* as a reader that cares would; may be refused */
	for (;;) {
		ssize_t n = read(p[0], buf, CHUNK);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		if (!bytes)
			start = now_ns();
		bytes += (uint64_t)n;
	}
	printf("%llu %llu\n", (unsigned long long)bytes,
	       (unsigned long long)(now_ns() - start));
	free(buf);
	if (waitpid(pid, &status, 0) < 0)
		die("sink: wait");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}
