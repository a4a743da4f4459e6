/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tsc - prints the frequency of this host's time-stamp counter in kHz.
 *
 * QEMU's emulation hands the counter through to the machine. Told its frequency, the
 * kernel inside need not measure it against an emulated timer, which is what fails on a
 * busy host.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

int main(void)
{
	struct timespec nap = {.tv_nsec = 50 * 1000 * 1000};
	int64_t began = now_ns();
	uint64_t first = __rdtsc();

	nanosleep(&nap, NULL);
	printf("%.0f\n", (double)(__rdtsc() - first) * 1e6 / (double)(now_ns() - began));
	return 0;
}
