/* SPDX-License-Identifier: Apache-2.0 */
/* Property: a ledger that is accepted is printed as it was written, but for the order. */
#include "work/ledger.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ledger *a = ledger_new(), *b = ledger_new();
	struct buf one = BUF_INIT(8 << 20), two = BUF_INIT(8 << 20);

	if (!a || !b)
		abort();
	if (ledger_parse(a, (const char *)data, size) < 0) {
		if (ledger_count(a) != 0)
			abort(); /* a damaged one says nothing at all */
	} else {
		if (ledger_print(a, &one) < 0 || one.len != size ||
		    ledger_parse(b, one.data, one.len) < 0 || ledger_print(b, &two) < 0 ||
		    two.len != one.len || memcmp(one.data, two.data, one.len) != 0)
			abort();
		for (size_t i = 0; i < ledger_count(a); i++)
			if (ledger_find(a, ledger_at(a, i)->path) != ledger_at(a, i))
				abort();
	}
	ledger_close(a);
	ledger_close(b);
	buf_clear(&one);
	buf_clear(&two);
	return 0;
}
