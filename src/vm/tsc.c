/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/tsc.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define FILE_NAME "tsc"
#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define SAMPLE_NS 50000000
#define TRIES 16
/* Two measurements of one counter differ by some millionths, and two kernels that each
 * calibrated it when they booted by some hundred of them. */
#define ALIKE 2000
#define KHZ_MAX 100000000u

/* ---- measuring ------------------------------------------------------------------ */

#if defined(__x86_64__)
/* Counter and clock at one instant: of some tries the one that was interrupted least. */
static uint64_t sample(uint64_t *ret_ns)
{
	uint64_t best = UINT64_MAX, at = 0;

	for (int i = 0; i < TRIES; i++) {
		struct timespec t;
		uint64_t before = __rdtsc(), after;

		clock_gettime(CLOCK_MONOTONIC_RAW, &t);
		after = __rdtsc();
		if (after - before >= best)
			continue;
		best = after - before;
		at = before + best / 2;
		*ret_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	}
	return at;
}

uint64_t tsc_measure(void)
{
	struct timespec nap = {0, SAMPLE_NS};
	uint64_t t0 = 0, t1 = 0, c0 = sample(&t0), c1;

	while (nanosleep(&nap, &nap) < 0)
		;
	c1 = sample(&t1);
	return (uint64_t)((double)(c1 - c0) * 1e6 / (double)(t1 - t0) + 0.5);
}
#else
uint64_t tsc_measure(void)
{
	return 0;
}
#endif

/* ---- remembering ---------------------------------------------------------------- */

/* "BOOT KHZ\n"; 0: nothing that makes sense. */
static uint64_t recall(const char *cache_dir, char boot[64])
{
	cleanup_buf struct buf text = BUF_INIT(200);
	char path[4200];
	uint64_t khz = 0;

	*boot = '\0';
	snprintf(path, sizeof(path), "%s/" FILE_NAME, cache_dir);
	if (read_file_at(AT_FDCWD, path, &text) < 0 || !text.len ||
	    sscanf(text.data, "%63s %10" SCNu64, boot, &khz) != 2 || khz > KHZ_MAX)
		return 0;
	return khz;
}

bool tsc_alike(uint64_t a, uint64_t b)
{
	return !a || !b || (a > b ? a - b : b - a) <= b / ALIKE;
}

uint64_t tsc_khz_by(const char *cache_dir, const char *boot, uint64_t (*measure)(void))
{
	char was[64], text[100];
	uint64_t old = recall(cache_dir, was), now;

	if (old && *boot && strcmp(boot, was) == 0)
		return old;
	now = measure();
	if (old && tsc_alike(now, old))
		now = old;
	snprintf(text, sizeof(text), "%.63s %" PRIu64 "\n", *boot ? boot : "-", now);
	write_file_in(cache_dir, FILE_NAME, text, strlen(text), 0600, 0);
	return now;
}

uint64_t tsc_khz(const char *cache_dir)
{
	cleanup_buf struct buf id = BUF_INIT(100);
	char boot[64] = "";

	if (read_file_at(AT_FDCWD, BOOT_ID, &id) == 0 && id.len)
		snprintf(boot, sizeof(boot), "%.36s", id.data);
	return tsc_khz_by(cache_dir, boot, tsc_measure);
}

uint64_t tsc_mhz(uint64_t khz)
{
	return (khz + 500) / 1000;
}
