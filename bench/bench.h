/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - what the small benchmark programs share: a clock, and giving up with a
 * reason. */
#ifndef COVE_BENCH_H
#define COVE_BENCH_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Says what failed, with errno, on one line, and ends the program. */
static inline void __attribute__((noreturn)) die(const char *what)
{
	char line[256];
	int n = snprintf(line, sizeof(line), "%s: %s\n", what, strerror(errno));

	if (n > 0 && write(2, line, (size_t)n) < 0)
		_exit(126);
	_exit(125);
}

#endif
