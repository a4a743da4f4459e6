/* SPDX-License-Identifier: Apache-2.0 */
/* Property: a journal that is accepted survives print and parse, and its paths stay
 * below. */
#include "work/journal.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct journal a = {0}, b = {0};
	struct buf one = BUF_INIT(1 << 24), two = BUF_INIT(1 << 24);

	if (journal_parse(&a, (const char *)data, size) < 0)
		return 0;
	for (size_t i = 0; i < a.n; i++)
		if (a.v[i].path[0] == '/' || strncmp(a.v[i].path, "..", 3) == 0 ||
		    strstr(a.v[i].path, "/../") || a.v[i].layer >= a.n_layers)
			abort();
	if (journal_print(&a, &one) < 0 || journal_parse(&b, one.data, one.len) < 0 ||
	    journal_print(&b, &two) < 0 || one.len != two.len ||
	    memcmp(one.data, two.data, one.len) != 0)
		abort();
	journal_clear(&a);
	journal_clear(&b);
	buf_clear(&one);
	buf_clear(&two);
	return 0;
}
