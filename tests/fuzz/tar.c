/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a tar archive: headers, pax records, maps. */
#include "fuzz.h"

#include "base/util.h"
#include "spec/tar.h"

/* What was accepted can be printed and is accepted again, as the same. */
static void check_again(const struct tar_entry *e)
{
	struct buf out = BUF_INIT(8 << 20);
	struct tar_entry b;
	size_t n;

	if (tar_print(e, &out) < 0) {
		buf_clear(&out);
		return;
	}
	tar_entry_init(&b);
	if (tar_parse_header(&b, (const unsigned char *)out.data) < 0 ||
	    b.type != TAR_PAX)
		abort();
	n = (size_t)b.size;
	b.size = 0;
	if (tar_parse_pax(&b, out.data + TAR_BLOCK, n) < 0 ||
	    tar_parse_header(&b, (const unsigned char *)out.data + TAR_BLOCK +
					 tar_padded(n)) < 0 ||
	    tar_check(&b) < 0 || b.size != e->size || b.path.len != e->path.len ||
	    memcmp(b.path.data, e->path.data, b.path.len) != 0 ||
	    b.xattrs.len != e->xattrs.len)
		abort();
	tar_entry_clear(&b);
	buf_clear(&out);
}

static void parse_map(const char *text, size_t n)
{
	struct tar_piece v[64];
	uint64_t num[129];
	size_t count = 0;

	while (count < ARRAY_LEN(num)) {
		int r = tar_parse_number(text, n, &num[count]);

		if (r <= 0)
			break;
		text += r;
		n -= (size_t)r;
		count++;
	}
	for (size_t i = 0; i + 1 < count && i / 2 < ARRAY_LEN(v); i += 2)
		v[i / 2] = (struct tar_piece){num[i], num[i + 1]};
	tar_map_ok(v, count / 2 < ARRAY_LEN(v) ? count / 2 : ARRAY_LEN(v), 1 << 20,
		   count ? num[0] : 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tar_entry e;
	size_t at = 0;

	parse_map((const char *)data, size);
	tar_entry_init(&e);
	tar_parse_pax(&e, (const char *)data, size);
	while (size - at >= TAR_BLOCK) {
		size_t n;

		tar_entry_reset(&e);
		if (tar_parse_header(&e, data + at) < 0 || e.type != TAR_PAX)
			break;
		at += TAR_BLOCK;
		n = (size_t)e.size;
		e.size = 0;
		if (n > size - at || tar_parse_pax(&e, (const char *)data + at, n) < 0)
			break;
		at += (size_t)tar_padded(n);
		if (at > size || size - at < TAR_BLOCK ||
		    tar_parse_header(&e, data + at) < 0 || tar_check(&e) < 0)
			break;
		at += TAR_BLOCK;
		check_again(&e);
		if (tar_padded(e.size) > size - at)
			break;
		at += (size_t)tar_padded(e.size);
	}
	tar_entry_clear(&e);
	return 0;
}
