/* SPDX-License-Identifier: Apache-2.0 */
/* The buffer: text that fits at once, that makes it grow, and that is past the cap. */
#include "base/buf.h"

#include "base/util.h"
#include "tap.h"

#include <errno.h>

#define CAP 300

/* Appends numbers until nothing fits, by printf and by hand. */
static void test_printf(void)
{
	cleanup_buf struct buf b = BUF_INIT(CAP);
	char want[CAP + 32] = "";
	size_t n = 0;
	int r = 0, wrong = 0;

	for (int i = 0; r == 0; i++) {
		char one[32];
		int len = snprintf(one, sizeof(one), "%d.", i * i);

		r = buf_printf(&b, "%d.", i * i);
		if (r == 0) {
			memcpy(want + n, one, (size_t)len + 1);
			n += (size_t)len;
		}
		wrong += b.len != n || strcmp(b.data, want) != 0;
	}
	OK(r == -ENOBUFS && n <= CAP && n > CAP - 8, "numbers until it is full: %zu", n);
	OK(wrong == 0, "the text is right after each, also after the one that failed");
}

static void test_edges(void)
{
	cleanup_buf struct buf b = BUF_INIT(CAP);

	OK(buf_printf(&b, "%s", "") == 0 && b.len == 0 && b.data && !*b.data,
	   "an empty text is a text");
	OK(buf_printf(&b, "%*s", CAP + 1, "") == -ENOBUFS && b.len == 0 && !*b.data,
	   "one more than the cap changes nothing");
	OK(buf_printf(&b, "%*s", CAP, "x") == 0 && b.len == CAP && strlen(b.data) == CAP,
	   "as much as the cap fits");
	OK(buf_printf(&b, "%s", "") == 0 && buf_printf(&b, "y") == -ENOBUFS &&
		   strlen(b.data) == CAP,
	   "then nothing more");
}

int main(void)
{
	test_printf();
	test_edges();
	return tap_done();
}
