/* SPDX-License-Identifier: Apache-2.0 */
/* Properties: the input, cut in three at its NULs, is base and two sides. A merge ends;
 * with an unchanged side it is the other; and swapping the sides swaps nothing when it is
 * clean. */
#include "text/merge.h"
#include "base/util.h"
#include "fuzz.h"

static struct text next_part(const uint8_t **at, const uint8_t *end)
{
	const uint8_t *from = *at,
		      *nul = from < end ? memchr(from, 0, (size_t)(end - from)) : NULL;

	*at = nul ? nul + 1 : end;
	return (struct text){(const char *)from, (size_t)((nul ? nul : end) - from)};
}

static bool merged_is(const struct buf *out, struct text t)
{
	return out->len == t.len && (t.len == 0 || memcmp(out->data, t.data, t.len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *at = data, *end = data + size;
	struct text base = next_part(&at, end), ours = next_part(&at, end);
	struct text theirs = next_part(&at, end);
	cleanup_buf struct buf one = BUF_INIT(1 << 24), two = BUF_INIT(1 << 24);
	size_t conflicts = 0, swapped = 0;

	if (text_merge3(&one, base, ours, base, &conflicts) < 0 || conflicts ||
	    !merged_is(&one, ours))
		abort();
	buf_clear(&one);
	if (text_merge3(&one, base, ours, theirs, &conflicts) < 0 ||
	    text_merge3(&two, base, theirs, ours, &swapped) < 0)
		abort();
	if (!conflicts != !swapped)
		abort();
	if (!conflicts && !merged_is(&one, (struct text){two.data, two.len}))
		abort();
	return 0;
}
