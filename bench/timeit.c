/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeit - how long commands take, interleaved: every round runs every case once, in an
 * order shuffled anew, so that drift and the aftermath of one case (a network namespace
 *is torn down by a kernel worker after its process has ended) fall on all of them alike.
 *
 * usage: timeit ROUNDS PAUSE_US < cases > samples
 *	cases:   one a line, tab-separated: name, runs (at most ROUNDS), program,
 *arguments... samples: one a line: name, failures, then nanoseconds of every good run
 *
 * A case with fewer runs than rounds is spread evenly over them. A run is timed from
 * before posix_spawn (vfork-like: the size of this program plays no part) until wait4 has
 * returned; standard input, output and error are /dev/null.
 */
#include "bench.h"

#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/wait.h>

#define CASES_MAX 64
#define ARGS_MAX 256

extern char **environ;

struct kase {
	char *name;
	unsigned runs, failures, n, pause_us;
	char **argv;
	uint64_t *ns;
	int mnt; /* namespace to start it in, entered outside the timing; -1: our own */
};

static struct kase cases[CASES_MAX];
static size_t n_cases;
static int own_mnt; /* the way back */
static char own_dir[4096];

static void read_case(char *line, unsigned rounds)
{
	struct kase *k = &cases[n_cases++];
	char *save = NULL, *runs, *pause, *mnt;
	size_t argc = 0;

	k->name = strtok_r(line, "\t\n", &save);
	runs = strtok_r(NULL, "\t\n", &save);
	pause = strtok_r(NULL, "\t\n", &save);
	mnt = strtok_r(NULL, "\t\n", &save);
	k->argv = calloc(ARGS_MAX, sizeof(*k->argv));
	k->ns = calloc(rounds, sizeof(*k->ns));
	if (!k->name || !runs || !pause || !mnt || !k->argv || !k->ns)
		die("timeit: a case");
	k->mnt = strcmp(mnt, "-") == 0 ? -1 : open(mnt, O_RDONLY | O_CLOEXEC);
	if (k->mnt < 0 && mnt[0] != '-')
		die(mnt);
	k->runs = (unsigned)strtoul(runs, NULL, 10);
	k->pause_us = (unsigned)strtoul(pause, NULL, 10);
	if (k->runs > rounds)
		k->runs = rounds;
	while (argc < ARGS_MAX - 1 && (k->argv[argc] = strtok_r(NULL, "\t\n", &save)))
		argc++;
	if (!argc)
		die("timeit: a case without a program");
}

static void read_cases(unsigned rounds)
{
	char *line = NULL;
	size_t size = 0;

	while (n_cases < CASES_MAX && getline(&line, &size, stdin) > 1) {
		read_case(line, rounds);
		line = NULL; /* the case keeps it */
		size = 0;
	}
	free(line);
}

static void enter(int mnt)
{
	if (setns(mnt, CLONE_NEWNS) < 0 || chdir(own_dir) < 0)
		die("timeit: setns");
}

static void run_case(struct kase *k, const posix_spawn_file_actions_t *fa)
{
	uint64_t start;
	pid_t pid;
	int status = 0, e;

	if (k->mnt >= 0)
		enter(k->mnt);
	start = now_ns();
	e = posix_spawn(&pid, k->argv[0], fa, NULL, k->argv, environ);
	while (e == 0 && wait4(pid, &status, 0, NULL) < 0)
		if (errno != EINTR)
			die("timeit: wait4");
	if (e != 0 || status != 0)
		k->failures++;
	else
		k->ns[k->n++] = now_ns() - start;
	if (k->mnt >= 0)
		enter(own_mnt);
}

/* In round i of r: run if the case's share of runs grows by one with this round. */
static bool due(const struct kase *k, unsigned i, unsigned r)
{
	return (uint64_t)(i + 1) * k->runs / r != (uint64_t)i * k->runs / r;
}

static void shuffle(unsigned *order, size_t n)
{
	static uint32_t seed = 12345; /* fixed: two runs of the benchmark are alike */

	for (size_t i = n; i > 1; i--) {
		seed = seed * 1664525u + 1013904223u;
		size_t j = (seed >> 8) % i;
		unsigned t = order[i - 1];

		order[i - 1] = order[j];
		order[j] = t;
	}
}

static void run_all(unsigned rounds)
{
	posix_spawn_file_actions_t fa;
	unsigned order[CASES_MAX];

	if (posix_spawn_file_actions_init(&fa) ||
	    posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0) ||
	    posix_spawn_file_actions_addopen(&fa, 1, "/dev/null", O_WRONLY, 0) ||
	    posix_spawn_file_actions_adddup2(&fa, 1, 2))
		die("timeit: file actions");
	for (size_t i = 0; i < n_cases; i++)
		order[i] = (unsigned)i;
	for (unsigned r = 0; r < rounds; r++) {
		shuffle(order, n_cases);
		for (size_t i = 0; i < n_cases; i++) {
			if (!due(&cases[order[i]], r, rounds))
				continue;
			run_case(&cases[order[i]], &fa);
			if (cases[order[i]].pause_us)
				usleep(cases[order[i]].pause_us);
		}
	}
	posix_spawn_file_actions_destroy(&fa);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		die("usage: timeit ROUNDS < cases");
	unsigned rounds = (unsigned)strtoul(argv[1], NULL, 10);

	own_mnt = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (own_mnt < 0 || !getcwd(own_dir, sizeof(own_dir)))
		die("timeit: where am I");
	read_cases(rounds);
	run_all(rounds);
	for (size_t i = 0; i < n_cases; i++) {
		printf("%s\t%u", cases[i].name, cases[i].failures);
		for (unsigned j = 0; j < cases[i].n; j++)
			printf("\t%llu", (unsigned long long)cases[i].ns[j]);
		printf("\n");
	}
	return fflush(stdout) == 0 ? 0 : 1;
}
