/* SPDX-License-Identifier: Apache-2.0 */
/* vm_spawn RUNS PROGRAM - what it costs to start a program and wait for it, right here;
 * prints samples as timeit does. */
#include "bench.h"

#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

int main(int argc, char **argv)
{
	long runs = argc == 3 ? strtol(argv[1], NULL, 10) : 0;

	printf("inside\t0");
	for (long i = 0; i < runs; i++) {
		uint64_t begin = now_ns();
		pid_t pid;

		if (posix_spawn(&pid, argv[2], NULL, NULL, argv + 2, environ) != 0)
			return 1;
		waitpid(pid, NULL, 0);
		printf("\t%llu", (unsigned long long)(now_ns() - begin));
	}
	putchar('\n');
	return runs ? 0 : 2;
}
