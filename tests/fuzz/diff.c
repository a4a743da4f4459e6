/* SPDX-License-Identifier: Apache-2.0 */
/* Properties: the input, cut in two at its first NUL, is two texts; taking all changes
 * gives the new one, none the old one, and every group can be printed. */
#include "text/diff.h"
#include "base/util.h"
#include "fuzz.h"

static void must_pick(struct text old, struct text new, const struct text_diff *d,
		      bool all)
{
	cleanup_buf struct buf out = BUF_INIT(1 << 24);
	cleanup_free bool *take = calloc(d->n + 1, sizeof(*take));
	struct text want = all ? new : old;

	if (!take)
		return;
	memset(take, all, d->n);
	if (text_pick(&out, old, new, d, take) < 0 || out.len != want.len ||
	    (want.len && memcmp(out.data, want.data, want.len) != 0))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
	size_t cut = nul ? (size_t)(nul - data) : size / 2;
	struct text old = {(const char *)data, cut};
	struct text new = {(const char *)data + cut, size - cut};
	cleanup_text_diff struct text_diff d = {0};
	cleanup_buf struct buf whole = BUF_INIT(1 << 24), parts = BUF_INIT(1 << 24);
	size_t groups;

	if (text_diff(&d, old, new) < 0)
		return 0;
	must_pick(old, new, &d, true);
	must_pick(old, new, &d, false);
	groups = text_groups(&d, 2, NULL, 0);
	if (text_unified(&whole, old, new, &d, 2) < 0)
		abort();
	for (size_t i = 0; i < groups && i < 64; i++)
		if (text_unified_group(&parts, old, new, &d, 2, i) < 0)
			abort();
	return 0;
}
