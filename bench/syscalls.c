/* SPDX-License-Identifier: Apache-2.0 */
/*
 * syscalls - nanoseconds of three system calls in a loop: getpid, stat, openat+close.
 * Prints one line "getpid NS stat NS open NS": the best of several short batches, since
 * anything slower was somebody else's work. Static, and raw calls: no libc in between.
 *
 * usage: syscalls [FILE]	(default: a file below /usr, the same inside and outside)
 */
#include "bench.h"
#include "os/raw.h"

#include <fcntl.h>
#include <sys/stat.h>

#define BATCHES 40
#define CALLS 5000

static const char *file = "/usr/bin/env";

static void do_getpid(void)
{
	raw0(SYS_getpid);
}

static void do_stat(void)
{
	struct stat st;

	raw4(SYS_newfstatat, AT_FDCWD, file, &st, 0);
}

static void do_open(void)
{
	raw1(SYS_close, raw4(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC, 0));
}

static double best_ns(void (*call)(void))
{
	uint64_t best = UINT64_MAX;

	for (int b = 0; b < BATCHES; b++) {
		uint64_t start = now_ns(), t;

		for (int i = 0; i < CALLS; i++)
			call();
		t = now_ns() - start;
		if (t < best)
			best = t;
	}
	return (double)best / CALLS;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		file = argv[1];
	if (access(file, R_OK) < 0)
		die(file);
	double p = best_ns(do_getpid), s = best_ns(do_stat), o = best_ns(do_open);

	printf("getpid %.2f stat %.2f open %.2f\n", p, s, o);
	return 0;
}
