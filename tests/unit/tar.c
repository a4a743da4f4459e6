/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of archives: printed, parsed back, and refused when they are not ours. */
#include "spec/tar.h"
#include "base/util.h"
#include "tap.h"

static int parse(struct tar_entry *e, const struct buf *b)
{
	const unsigned char *p = (const unsigned char *)b->data;
	size_t n;
	int r = tar_parse_header(e, p);

	if (r < 0 || e->type != TAR_PAX)
		return r < 0 ? r : -EBADMSG;
	n = (size_t)e->size;
	e->size = 0;
	r = tar_parse_pax(e, b->data + TAR_BLOCK, n);
	if (r == 0)
		r = tar_parse_header(e, p + TAR_BLOCK + tar_padded(n));
	return r < 0 ? r : tar_check(e);
}

static void test_round_trip(void)
{
	struct tar_entry a, b;
	struct buf out = BUF_INIT(1 << 20);
	char path[5001];
	const char *name;
	const void *value;
	size_t pos = 0, n;

	tar_entry_init(&a);
	tar_entry_init(&b);
	for (size_t i = 0; i < sizeof(path) - 1; i++)
		path[i] = i % 200 == 199 ? '/' : i % 200 == 7 ? '\n' : 'a';
	path[sizeof(path) - 1] = '\0';
	path[sizeof(path) - 2] = 'z';
	a.type = TAR_FILE;
	a.mode = 01640;
	a.size = UINT64_C(1) << 40;
	a.mtime_ns = 1234567890123456789;
	buf_puts(&a.path, path);
	tar_add_xattr(&a, "user.overlay.origin", "\0\1=\n", 4);
	tar_add_xattr(&a, "user.empty", "", 0);
	OK(tar_print(&a, &out) == 0 && out.len % TAR_BLOCK == 0, "an entry is printed");
	OK(parse(&b, &out) == 0, "and parsed");
	OK(b.type == TAR_FILE && b.mode == a.mode && b.size == a.size &&
		   b.mtime_ns == a.mtime_ns && strcmp(b.path.data, path) == 0,
	   "to the same");
	OK(tar_next_xattr(&b, &pos, &name, &value, &n) && n == 4 &&
		   strcmp(name, "user.overlay.origin") == 0 &&
		   memcmp(value, "\0\1=\n", 4) == 0 &&
		   tar_next_xattr(&b, &pos, &name, &value, &n) && n == 0 &&
		   !tar_next_xattr(&b, &pos, &name, &value, &n),
	   "with its attributes");
	for (size_t i = 0; i < 512; i++) { /* of the header itself */
		unsigned char *p = (unsigned char *)out.data + out.len - TAR_BLOCK;

		p[i] ^= 0x10;
		tar_entry_reset(&b);
		if (tar_parse_header(&b, p) == 0)
			OK(0, "byte %zu of a header can be changed", i);
		p[i] ^= 0x10;
	}
	tar_entry_clear(&a);
	tar_entry_clear(&b);
	buf_clear(&out);
}

static void test_paths(void)
{
	static const char *const bad[] = {"",   "/",    "/a",   "a/",  "a//b", ".",
					  "..", "a/..", "../a", "a/.", "./a",  "a/../b"};
	static const char *const good[] = {"a",  "a/b",    "...", "a/...",
					   ".a", "a/.b/c", "\n"};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		OK(!tar_path_ok(bad[i], strlen(bad[i])), "no path: '%s'", bad[i]);
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		OK(tar_path_ok(good[i], strlen(good[i])), "a path");
}

static void test_records(void)
{
	static const char *const bad[] = {
		"11 path=../",
		"5 a=\n",
		"99 path=a\n",
		"10 path=a",
		"10 path=a\n10 path=b\n",
		"x",
		"12 size=-1\n",
		"28 size=99999999999999999999\n",
		"14 mtime=1.5\n",
		"24 GNU.sparse.major=2\n",
		"29 SCHILY.xattr.trusted.x=y\n",
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct tar_entry e;

		tar_entry_init(&e);
		OK(tar_parse_pax(&e, bad[i], strlen(bad[i])) == -EBADMSG,
		   "refused record %zu", i);
		tar_entry_clear(&e);
	}
}

static void test_maps(void)
{
	const struct tar_piece good[] = {
		{0,   10},
                {20,  5 },
                {100, 0 }
        };
	const struct tar_piece overlap[] = {
		{0, 10},
                {5, 10}
        };
	const struct tar_piece far[] = {
		{90, 20}
        };
	uint64_t v = 0;

	OK(tar_map_ok(good, 3, 100, 15), "a good map");
	OK(!tar_map_ok(good, 3, 100, 16), "whose sum counts");
	OK(!tar_map_ok(overlap, 2, 100, 20), "no overlap");
	OK(!tar_map_ok(far, 1, 100, 20), "not beyond the end");
	OK(tar_parse_number("12\n3", 4, &v) == 3 && v == 12, "a number");
	OK(tar_parse_number("12", 2, &v) == 0, "an incomplete one");
	OK(tar_parse_number("x\n", 2, &v) == -EBADMSG &&
		   tar_parse_number("1234567890123456789012", 22, &v) == -EBADMSG,
	   "none");
}

int main(void)
{
	test_round_trip();
	test_paths();
	test_records();
	test_maps();
	return tap_done();
}
