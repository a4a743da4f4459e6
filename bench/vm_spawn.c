/* SPDX-License-Identifier: Apache-2.0 */
/* vm_spawn RUNS PROGRAM - what it costs to start a program and wait for it, right here;
 * prints samples as timeit does.
 * vm_spawn out MIB - writes so much, as vm_agent does: in blocks of 64 KiB. */
#include "bench.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK 65536

extern char **environ;

static int out(long mib)
{
	static char block[BLOCK];

	for (long left = mib << 20; left > 0;) {
		ssize_t n = write(1, block, left < BLOCK ? (size_t)left : BLOCK);

		if (n < 0)
			return 1;
		left -= n;
	}
	return 0;
}

int main(int argc, char **argv)
{
	long runs = argc == 3 ? strtol(argv[1], NULL, 10) : 0;

	if (argc == 3 && strcmp(argv[1], "out") == 0)
		return out(strtol(argv[2], NULL, 10));
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
