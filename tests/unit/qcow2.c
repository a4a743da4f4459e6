/* SPDX-License-Identifier: Apache-2.0 */
/* Which headers of qcow2 files stand alone. */
#include "vm/qcow2.h"
#include "tap.h"

#include <stdio.h>
#include <string.h>

static uint8_t head[QCOW2_HEAD];

static void put(size_t at, int bytes, uint64_t v)
{
	for (int i = bytes; i-- > 0; v >>= 8)
		head[at + (size_t)i] = (uint8_t)v;
}

static void begin(unsigned version)
{
	memset(head, 0, sizeof(head));
	memcpy(head, "QFI\xfb", 4);
	put(4, 4, version);
	put(20, 4, 16);
	put(24, 8, 64u << 20);
	put(100, 4, sizeof(head));
}

static void is(const char *title, size_t n, const char *want)
{
	uint64_t size = 0;
	const char *why = qcow2_check(head, n, &size);

	if (want)
		OK(why && strstr(why, want), "%s: %s", title, why ? why : "taken");
	else
		OK(!why && size == 64u << 20, "%s: %s", title, why ? why : "taken");
}

int main(void)
{
	begin(2);
	is("version 2", 72, NULL);
	is("version 2, cut", 71, "too short");
	begin(3);
	is("version 3", sizeof(head), NULL);
	is("version 3, cut", sizeof(head) - 1, "cut short");
	put(100, 4, 72);
	is("a header that says it is short", sizeof(head), "cut short");
	begin(4);
	is("version 4", sizeof(head), "version");
	begin(3);
	head[3] = 0;
	is("another magic", sizeof(head), "no qcow2");
	begin(3);
	put(8, 8, 1u << 16);
	is("a backing file", sizeof(head), "backing file");
	begin(2);
	put(8, 8, 104);
	is("a backing file of version 2", sizeof(head), "backing file");
	begin(3);
	put(32, 4, 1);
	is("encryption", sizeof(head), "encrypted");
	begin(3);
	put(72, 8, 4);
	is("data elsewhere", sizeof(head), "another file");
	put(72, 8, 2);
	is("corrupt", sizeof(head), "corrupt");
	put(72, 8, 1);
	is("not closed", sizeof(head), NULL);
	put(72, 8, 1ull << 63);
	is("an unknown feature", sizeof(head), "does not know");
	begin(3);
	put(24, 8, 0);
	is("no size", sizeof(head), "sizes");
	put(24, 8, ~0ull);
	is("an endless disk", sizeof(head), "sizes");
	begin(3);
	put(20, 4, 22);
	is("clusters too large", sizeof(head), "sizes");
	return tap_done();
}
