/* SPDX-License-Identifier: Apache-2.0 */
/* tap.h - the whole unit-test framework: OK(cond, "what"), then `return tap_done();`. */
#ifndef COVE_TAP_H
#define COVE_TAP_H

#include <stdio.h>

static int tap_count, tap_failed;

#define OK(cond, ...) \
	do { \
		int ok_ = !!(cond); \
		tap_failed += !ok_; \
		printf("%sok %d - ", ok_ ? "" : "not ", ++tap_count); \
		printf(__VA_ARGS__); \
		printf("%s\n", ok_ ? "" : " # at " __FILE__); \
		if (!ok_) \
			printf("# line %d: %s\n", __LINE__, #cond); \
	} while (0)

#define SKIP(why) printf("ok %d # SKIP %s\n", ++tap_count, why)

static inline int tap_done(void)
{
	printf("1..%d\n", tap_count);
	return tap_failed != 0;
}

#endif
