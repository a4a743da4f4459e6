/* SPDX-License-Identifier: Apache-2.0 */
/*
 * patient.h - time in tests, for a machine that stands still for a second now and then.
 *
 * A limit that a test does not want to reach is PATIENT_MS. What must not have waited for
 * any such limit is done within PROMPT_MS: less than the limit, and more than a stall. A
 * test of a limit itself sets a short one, and looks at what happened, not when.
 */
#ifndef COVE_PATIENT_H
#define COVE_PATIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#define PATIENT_MS 30000
#define PROMPT_MS 15000

static inline int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Has it become true? Looks again and again, for long. */
static inline bool becomes(bool (*is)(void *arg), void *arg)
{
	for (int64_t until = now_ms() + PATIENT_MS; !is(arg); usleep(2000))
		if (now_ms() > until)
			return is(arg);
	return true;
}

#endif
