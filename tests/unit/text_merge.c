/* SPDX-License-Identifier: Apache-2.0 */
/* Three-way merge: what is clean, what conflicts, and never another result than git's. */
#include "base/util.h"
#include "tap.h"
#include "text/merge.h"
#include "textgen.h"

#define T(s) ((struct text){(s), sizeof(s) - 1})

/* want NULL: a conflict. */
static bool merges(struct text base, struct text ours, struct text theirs,
		   const char *want)
{
	cleanup_buf struct buf out = BUF_INIT(1 << 20);
	size_t conflicts = 77;

	if (text_merge3(&out, base, ours, theirs, &conflicts) < 0)
		return false;
	if (!want)
		return conflicts > 0 && strstr(out.data, "<<<<<<< ours\n") &&
		       strstr(out.data, "||||||| base\n") &&
		       strstr(out.data, "\n=======\n") &&
		       strstr(out.data, "\n>>>>>>> theirs\n");
	if (conflicts || strcmp(out.data ? out.data : "", want) != 0)
		printf("# %zu conflicts:\n%s\n", conflicts, out.data ? out.data : "");
	return conflicts == 0 && strcmp(out.data ? out.data : "", want) == 0;
}

static void test_cases(void)
{
	struct text base = T("a\nb\nc\nd\ne\n");

	OK(merges(base, T("A\nb\nc\nd\ne\n"), T("a\nb\nc\nd\nE\n"), "A\nb\nc\nd\nE\n"),
	   "edits apart");
	OK(merges(base, T("a\nX\nc\nd\ne\n"), T("a\nX\nc\nd\nE\n"), "a\nX\nc\nd\nE\n"),
	   "the same edit twice is one edit");
	OK(merges(base, base, T("x\n"), "x\n"), "only they changed");
	OK(merges(base, T(""), base, ""), "only we changed");
	OK(merges(base, T("a\nX\nc\nd\ne\n"), T("a\nY\nc\nd\ne\n"), NULL),
	   "the same line differently");
	OK(merges(base, T("a\nX\nc\nd\ne\n"), T("a\nb\nY\nd\ne\n"), NULL),
	   "lines that touch");
	OK(merges(base, T("a\nb\nX\nc\nd\ne\n"), T("a\nb\nY\nc\nd\ne\n"), NULL),
	   "inserted at one place");
	OK(merges(base, T("a\nc\nd\ne\n"), T("a\nB\nc\nd\ne\n"), NULL),
	   "deleted here, edited there");
	OK(merges(T("a\nb"), T("x\na\nb"), T("a\nb\n"), "x\na\nb\n"),
	   "a last newline added");
	OK(merges(T("a\nb"), T("a\nb\nc"), T("a\nb\nd"), NULL),
	   "no last newline in a conflict");
	OK(merges(T("x\nx\nx\nx\n"), T("x\nx\nx\n"), T("x\nx\ny\nx\nx\n"), NULL),
	   "which of the equal lines went is not known");
}

static void test_limits(void)
{
	struct buf out = BUF_INIT(4);
	size_t conflicts = 77;

	OK(text_merge3(&out, T("a\nb\nc\n"), T("x\na\nb\nc\n"), T("a\nb\nc\ny\n"),
		       &conflicts) == -ENOBUFS &&
		   conflicts == 77,
	   "a full buffer is an error and says nothing of conflicts");
	buf_clear(&out);
}

#define ROUNDS 120

static void test_git(const char *dir)
{
	cleanup_buf struct buf a = BUF_INIT(1 << 20), b = BUF_INIT(1 << 20),
			       c = BUF_INIT(1 << 20), out = BUF_INIT(1 << 22),
			       git_out = BUF_INIT(1 << 22);
	char fa[300], fb[300], fc[300], fo[300];
	char *argv[] = {(char[]){"git"},
			(char[]){"merge-file"},
			(char[]){"-p"},
			fb,
			fa,
			fc,
			NULL};
	int same = 0, wrong = 0, careful = 0;

	snprintf(fa, sizeof(fa), "%s/a", dir);
	snprintf(fb, sizeof(fb), "%s/b", dir);
	snprintf(fc, sizeof(fc), "%s/c", dir);
	snprintf(fo, sizeof(fo), "%s/o", dir);
	for (int i = 0; i < ROUNDS; i++) {
		struct gen base, ours, theirs;
		size_t conflicts = 0;
		struct text got;
		int r;

		gen_make(&base, 120, 3000);
		ours = theirs = base;
		gen_edit(&ours, 1 + i % 4, 3000);
		gen_edit(&theirs, 1 + i % 3, 3000);
		gen_write(fa, gen_text(&base, &a));
		gen_write(fb, gen_text(&ours, &b));
		gen_write(fc, gen_text(&theirs, &c));
		r = gen_run(argv, "/dev/null", fo);
		if (r < 0 || r == 127) {
			SKIP("git is not installed");
			return;
		}
		got = gen_read(fo, &git_out);
		buf_clear(&out);
		text_merge3(&out, (struct text){a.data, a.len},
			    (struct text){b.data, b.len}, (struct text){c.data, c.len},
			    &conflicts);
		if (conflicts)
			careful += r == 0;
		else if (r == 0 && got.len == out.len &&
			 memcmp(got.data, out.data, out.len) == 0)
			same++;
		else
			wrong++;
	}
	OK(wrong == 0, "never another clean result than git");
	OK(same > ROUNDS / 2, "the same as git: %d of %d", same, ROUNDS);
	OK(careful <= ROUNDS / 20, "a conflict where git sees none: %d", careful);
}

int main(void)
{
	char dir[] = "/tmp/cove-text-XXXXXX";
	char *rm[] = {(char[]){"rm"}, (char[]){"-rf"}, dir, NULL};

	test_cases();
	test_limits();
	if (mkdtemp(dir)) {
		test_git(dir);
		gen_run(rm, "/dev/null", "/dev/null");
	}
	return tap_done();
}
