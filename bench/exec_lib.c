/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_lib - a process in a running sandbox through libcove, next to the same process
 * started bare: one connection, alternating runs. Prints samples as timeit does.
 *
 * usage: exec_lib SANDBOX RUNS PROGRAM
 */
#include "bench.h"

#include <cove.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static void check(int r, const struct cove_error *err)
{
	if (r >= 0)
		return;
	fprintf(stderr, "exec_lib: %s\n", err->msg);
	exit(125);
}

static int run_inside(struct cove *box, char *program)
{
	const char *argv[] = {program, NULL};
	struct cove_exec_options o = {.size = sizeof(o), .argv = argv};
	struct cove_status status = {.size = sizeof(status)};
	struct cove_error err = {0};
	struct cove_proc *p;

	check(cove_exec(box, &o, &p, &err), &err);
	check(cove_wait(p, -1, &status, &err), &err);
	cove_proc_free(p);
	return status.shell;
}

static int run_bare(char *program)
{
	char *argv[] = {program, NULL};
	int status = -1;
	pid_t pid;

	if (posix_spawn(&pid, program, NULL, NULL, argv, environ) != 0 ||
	    waitpid(pid, &status, 0) < 0)
		die(program);
	return status;
}

static void print(const char *name, unsigned failures, const uint64_t *ns, unsigned n)
{
	printf("%s\t%u", name, failures);
	for (unsigned i = 0; i < n; i++)
		printf("\t%llu", (unsigned long long)ns[i]);
	printf("\n");
}

int main(int argc, char **argv)
{
	unsigned runs = argc == 4 ? (unsigned)strtoul(argv[2], NULL, 10) : 0,
		 failed[2] = {0};
	uint64_t *bare = calloc(runs + 1, sizeof(*bare));
	uint64_t *inside = calloc(runs + 1, sizeof(*inside));
	struct cove_error err = {0};
	struct cove *box;

	if (!runs || !bare || !inside)
		die("usage: exec_lib SANDBOX RUNS PROGRAM");
	check(cove_connect(&box, argv[1], &err), &err);
	for (unsigned i = 0; i < runs; i++) {
		uint64_t t = now_ns();

		failed[0] += run_bare(argv[3]) != 0;
		bare[i] = now_ns() - t;
		t = now_ns();
		failed[1] += run_inside(box, argv[3]) != 0;
		inside[i] = now_ns() - t;
		usleep(500);
	}
	cove_free(box);
	print("bare", failed[0], bare, runs);
	print("cove_exec", failed[1], inside, runs);
	return 0;
}
