/* SPDX-License-Identifier: Apache-2.0 */
/* The line difference: shape of the output, what patch(1) makes of it, hostile inputs. */
#include "base/util.h"
#include "tap.h"
#include "text/diff.h"
#include "textgen.h"

#include <time.h>

#define T(s) ((struct text){(s), sizeof(s) - 1})

static bool unified_is(struct text old, struct text new, const char *want)
{
	cleanup_buf struct buf out = BUF_INIT(1 << 20);
	cleanup_text_diff struct text_diff d = {0};
	bool same;

	if (text_diff(&d, old, new) < 0 || text_unified(&out, old, new, &d, 3) < 0)
		return false;
	same = strcmp(out.data ? out.data : "", want) == 0;
	if (!same)
		printf("# got:\n%s# wanted:\n%s", out.data ? out.data : "", want);
	return same;
}

static void test_shape(void)
{
	OK(unified_is(T("a\nb\n"), T("a\nb\n"), ""), "equal texts");
	OK(unified_is(T(""), T("a\nb\n"), "@@ -0,0 +1,2 @@\n+a\n+b\n"), "a new text");
	OK(unified_is(T("a\n"), T(""), "@@ -1 +0,0 @@\n-a\n"), "a text emptied");
	OK(unified_is(T("a\nb"), T("a\nb\n"),
		      "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"),
	   "a missing last newline is a difference");
	OK(unified_is(T("a\nb"), T("c\nb"),
		      "@@ -1,2 +1,2 @@\n-a\n+c\n b\n\\ No newline at end of file\n"),
	   "a missing last newline in the context");
	OK(unified_is(T("a\r\nb\r\n"), T("a\r\nb\n"),
		      "@@ -1,2 +1,2 @@\n a\r\n-b\r\n+b\n"),
	   "CRLF is kept and is a difference");
	OK(unified_is(T("int f()\n{\n\tone;\n\ttwo;\n\tthree;\n\tfour;\n}\n"),
		      T("int f()\n{\n\tone;\n\ttwo;\n\tthree;\n\tFOUR;\n}\n"),
		      "@@ -3,5 +3,5 @@ int f()\n \tone;\n \ttwo;\n \tthree;\n-\tfour;\n"
		      "+\tFOUR;\n }\n"),
	   "the heading is the definition above");
}

static void test_slide(void)
{
	OK(unified_is(T("void a()\n{\n}\n\nvoid c()\n{\n}\n"),
		      T("void a()\n{\n}\n\nvoid b()\n{\n}\n\nvoid c()\n{\n}\n"),
		      "@@ -2,6 +2,10 @@ void a()\n {\n }\n \n+void b()\n+{\n+}\n+\n "
		      "void c()\n {\n }\n"),
	   "a new function begins at its head, not at a brace");
	OK(unified_is(T("f:\n\tif a:\n\t\tx\n\t\tend\n\ty\n"),
		      T("f:\n\tif a:\n\t\tx\n\t\tend\n\tif b:\n\t\tz\n\t\tend\n\ty\n"),
		      "@@ -2,4 +2,7 @@ f:\n \tif a:\n \t\tx\n \t\tend\n+\tif b:\n+\t\tz\n"
		      "+\t\tend\n \ty\n"),
	   "a new block begins at its head");
	OK(unified_is(T("x\nx\nx\n"), T("x\nx\n"), "@@ -1,3 +1,2 @@\n x\n x\n-x\n"),
	   "of equal places the last");
}

static void test_groups(void)
{
	struct text old = T("a\n1\n2\n3\n4\n5\n6\n7\nb\n"),
		    new = T("A\n1\n2\n3\n4\n5\n6\n7\nB\n");
	cleanup_text_diff struct text_diff d = {0};
	cleanup_buf struct buf out = BUF_INIT(4096);
	bool take[2] = {false, true};
	size_t first[4] = {9, 9, 9, 9};

	OK(text_diff(&d, old, new) == 0 && d.n == 2 && d.added == 2 && d.removed == 2,
	   "two changes");
	OK(text_groups(&d, 3, first, 4) == 2 && first[0] == 0 && first[1] == 1,
	   "seven equal lines part the groups with a context of three");
	OK(text_groups(&d, 4, first, 4) == 1, "and not with four");
	OK(text_groups(&d, UINT32_MAX, NULL, 0) == 1, "any context is fine");
	OK(text_unified_group(&out, old, new, &d, 1, 1) == 0 &&
		   strcmp(out.data, "@@ -8,2 +8,2 @@ a\n 7\n-b\n+B\n") == 0,
	   "one group alone");
	OK(text_unified_group(&out, old, new, &d, 1, 2) == -EINVAL, "no third group");
	OK(text_unified(&out, new, T("A\n"), &d, 1) == -EINVAL,
	   "a difference of other texts is refused");
	buf_clear(&out);
	OK(text_pick(&out, old, new, &d, take) == 0 &&
		   strcmp(out.data, "a\n1\n2\n3\n4\n5\n6\n7\nB\n") == 0,
	   "one change picked");
	OK(text_is_binary(T("a\0b")) && !text_is_binary(T("ab\r\n\x80")),
	   "a NUL is binary");
}

/* Each is also picked whole and not at all, which must give the new and the old text. */
static bool round_trip(struct text old, struct text new, const struct text_diff *d)
{
	cleanup_buf struct buf out = BUF_INIT(1 << 24);
	cleanup_free bool *take = calloc(d->n + 1, sizeof(bool));
	bool good;

	good = text_pick(&out, old, new, d, take) == 0 && out.len == old.len &&
	       (old.len == 0 || memcmp(out.data, old.data, old.len) == 0);
	memset(take, 1, d->n);
	buf_clear(&out);
	return good && text_pick(&out, old, new, d, take) == 0 && out.len == new.len &&
	       (new.len == 0 || memcmp(out.data, new.data, new.len) == 0);
}

#define FILES 300

/* One big patch for many files, applied by patch(1) once. */
static void test_patch(const char *dir)
{
	cleanup_buf struct buf a = BUF_INIT(1 << 20), b = BUF_INIT(1 << 20),
			       all = BUF_INIT(1 << 28);
	char name[400], cmd_dir[300],
		*argv[] = {(char[]){"patch"}, (char[]){"-s"}, (char[]){"-p1"},
			   (char[]){"-d"},    cmd_dir,        NULL};
	static struct gen g[FILES], h[FILES];
	int picks = 0, same = 0, r;

	snprintf(cmd_dir, sizeof(cmd_dir), "%s", dir);
	for (int i = 0; i < FILES; i++) {
		uint32_t kinds = (uint32_t[]){3, 8, 40, 5000}[i % 4];
		cleanup_text_diff struct text_diff d = {0};
		struct text old, new;

		gen_make(&g[i], 200, kinds);
		h[i] = g[i];
		gen_edit(&h[i], 1 + i % 30, kinds);
		old = gen_text(&g[i], &a);
		new = gen_text(&h[i], &b);
		snprintf(name, sizeof(name), "%s/f%d", dir, i);
		gen_write(name, old);
		if (text_diff(&d, old, new) < 0)
			continue;
		picks += round_trip(old, new, &d);
		if (d.n)
			buf_printf(&all, "--- a/f%d\n+++ b/f%d\n", i, i);
		text_unified(&all, old, new, &d, (uint32_t)i % 5);
	}
	OK(picks == FILES, "all changes picked give the new text, none the old");
	snprintf(name, sizeof(name), "%s/p", dir);
	gen_write(name, (struct text){all.data, all.len});
	r = gen_run(argv, name, "/dev/null");
	if (r < 0) {
		SKIP("patch is not installed");
		return;
	}
	for (int i = 0; i < FILES; i++) {
		struct text want = gen_text(&h[i], &a), got;

		snprintf(name, sizeof(name), "%s/f%d", dir, i);
		got = gen_read(name, &b); /* patch removes a file it emptied */
		same += got.len == want.len &&
			!memcmp(got.data ? got.data : "", want.data ? want.data : "",
				want.len);
	}
	OK(r == 0 && same == FILES, "patch makes the new text of %d of %d (exit %d)",
	   same, FILES, r);
}

static size_t count_marks(struct text t, size_t *ret_hunks)
{
	size_t n = 0;

	*ret_hunks = 0;
	for (size_t i = 0; i < t.len; i++) {
		if (i > 0 && t.data[i - 1] != '\n')
			continue;
		n += t.data[i] == '+' || t.data[i] == '-';
		*ret_hunks += t.data[i] == '@';
	}
	return n;
}

/* On lines that mostly differ, our output is not longer than git's by more than a little.
 */
static void test_git(const char *dir)
{
	cleanup_buf struct buf a = BUF_INIT(1 << 20), b = BUF_INIT(1 << 20),
			       out = BUF_INIT(1 << 24), theirs = BUF_INIT(1 << 24);
	char fa[300], fb[300], fo[300];
	char *argv[] = {(char[]){"git"},
			(char[]){"diff"},
			(char[]){"--no-index"},
			(char[]){"--no-color"},
			fa,
			fb,
			NULL};
	size_t ours_n = 0, git_n = 0, ours_h = 0, git_h = 0, hunks;
	struct gen g, h;

	snprintf(fa, sizeof(fa), "%s/a", dir);
	snprintf(fb, sizeof(fb), "%s/b", dir);
	snprintf(fo, sizeof(fo), "%s/o", dir);
	for (int i = 0; i < 40; i++) {
		cleanup_text_diff struct text_diff d = {0};
		struct text old, new;

		gen_make(&g, 300, 60);
		h = g;
		gen_edit(&h, 1 + i / 2, 60);
		old = gen_text(&g, &a);
		new = gen_text(&h, &b);
		gen_write(fa, old);
		gen_write(fb, new);
		if (gen_run(argv, "/dev/null", fo) < 0) {
			SKIP("git is not installed");
			return;
		}
		buf_clear(&out);
		text_diff(&d, old, new);
		text_unified(&out, old, new, &d, 3);
		ours_n += count_marks((struct text){out.data, out.len}, &hunks);
		ours_h += hunks;
		git_n += count_marks(gen_read(fo, &theirs), &hunks) - (hunks ? 2 : 0);
		git_h += hunks;
	}
	OK(ours_n <= git_n + git_n / 50, "changed lines: ours %zu, git %zu", ours_n,
	   git_n);
	OK(ours_h <= git_h + git_h / 10 && git_h <= ours_h + ours_h / 10,
	   "hunks: ours %zu, git %zu", ours_h, git_h);
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A megabyte of the shortest lines there are, of `kinds` kinds, against another. */
static void test_hostile(uint32_t kinds, const char *what)
{
	cleanup_buf struct buf a = BUF_INIT(4 << 20), b = BUF_INIT(4 << 20);
	cleanup_text_diff struct text_diff d = {0};
	struct text old, new;
	double t;

	while (a.len < 1 << 20)
		buf_printf(&a, "%x\n", gen_rand(kinds));
	while (b.len < 1 << 20)
		buf_printf(&b, "%x\n", gen_rand(kinds));
	old = (struct text){a.data, a.len};
	new = (struct text){b.data, b.len};
	t = seconds();
	OK(text_diff(&d, old, new) == 0, "%s: %zu changes", what, d.n);
	t = seconds() - t;
	OK(t < 15, "%s: took %.2f s", what, t); /* sanitizers are slow */
	OK(round_trip(old, new, &d), "%s: and is right", what);
}

static void remove_all(const char *dir)
{
	char *argv[] = {(char[]){"rm"}, (char[]){"-rf"}, NULL, NULL};
	char copy[300];

	snprintf(copy, sizeof(copy), "%s", dir);
	argv[2] = copy;
	gen_run(argv, "/dev/null", "/dev/null");
}

int main(void)
{
	char dir[] = "/tmp/cove-text-XXXXXX";

	test_shape();
	test_slide();
	test_groups();
	if (mkdtemp(dir)) {
		test_patch(dir);
		test_git(dir);
		remove_all(dir);
	}
	test_hostile(2, "two kinds of line");
	test_hostile(1000, "a thousand kinds");
	return tap_done();
}
