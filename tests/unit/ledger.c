/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger: what is noted, kept, forgotten; and what a damaged file means. */
#include "work/ledger.h"
#include "layer_fixture.h"
#include "tap.h"
#include "work/change.h"

#include <time.h>

static struct ledger *open_ledger(const struct fixture *f)
{
	struct cove_error err = {0};
	struct ledger *g = NULL;
	bool damaged;

	fixture_must(ledger_open(&g, &f->layer, &damaged, &err) == 0, err.msg);
	return g;
}

static void capture(struct ledger *g, const struct fixture *f)
{
	struct cove_error err = {0};

	OK(ledger_capture(g, &f->layer, &err) == 0, "captured %s", err.msg);
}

static struct ledger *again(struct ledger *g, const struct fixture *f)
{
	struct cove_error err = {0};

	OK(ledger_save(g, &err) == 0, "saved %s", err.msg);
	ledger_close(g);
	return open_ledger(f);
}

static bool blob_is(const struct ledger *g, const char *path, const char *text)
{
	cleanup_buf struct buf b = BUF_INIT(1 << 20);
	const struct ledger_entry *e = ledger_find(g, path);

	return e && e->has_blob && ledger_blob(g, e, &b) == 0 && b.len == strlen(text) &&
	       (b.len == 0 || memcmp(b.data, text, b.len) == 0);
}

static void what_is_noted(void)
{
	struct fixture f;
	struct ledger *g;
	const struct ledger_entry *e;
	struct ident id;

	fixture_init(&f);
	int host = f.layer.lower, up = f.layer.upper;
	put(host, "text", "base\n");
	dir(host, "d");
	put(host, "d/in", "x\n");
	dir(host, "gone");
	put(host, "gone/f", "x\n");
	sym(host, "link", "a");
	fixture_mounted(&f);
	put(up, "text", "edited\n");
	dir(up, "d");
	put(up, "d/in", "y\n");
	dir(up, "new");
	put(up, "new/f", "z\n");
	whiteout(up, "gone");
	sym(up, "link", "b");
	put(host, "late", "host made it after the mount\n");
	put(up, "late", "so did the sandbox\n");
	g = open_ledger(&f);
	capture(g, &f);
	g = again(g, &f);
	e = ledger_find(g, "text");
	ident_at(host, "text", &id);
	OK(e && e->kind == LEDGER_SEEN && e->sure && ident_same(&e->host, &id), "a file");
	OK(blob_is(g, "text", "base\n"), "with its content");
	OK(ledger_find(g, "d") && blob_is(g, "d/in", "x\n"), "in a directory");
	e = ledger_find(g, "new");
	OK(e && e->sure && !e->host.mode, "what was not there");
	OK(!ledger_find(g, "new/f") && ledger_base(g, "new/f") == e,
	   "what is in it needs no entry");
	OK(!ledger_base(g, "d/other"), "a directory that was there says nothing");
	e = ledger_find(g, "gone/f");
	OK(e && e->host.mode && !e->has_blob, "below a deleted directory, by identity");
	e = ledger_find(g, "link");
	OK(e && *e->blob && !e->has_blob, "a symlink by its digest");
	e = ledger_find(g, "late");
	OK(e && !e->sure, "what changed after the mount is not sure");
	OK(ledger_count(g) == 9, "nothing else: %zu", ledger_count(g));

	put(host, "text", "the host changes it\n");
	unlinkat(up, "link", 0);
	unlinkat(up, "gone", 0);
	capture(g, &f);
	OK(blob_is(g, "text", "base\n"), "an entry stays what it was");
	OK(!ledger_find(g, "link") && !ledger_find(g, "gone/f"),
	   "what is not in the upper layer any more is forgotten");
	OK(ledger_find(g, "new"), "the rest is not");
	ledger_close(g);
	fixture_clear(&f);
}

static void what_a_change_is(void)
{
	struct fixture f;
	struct changes c = {0};
	struct cove_error err = {0};
	struct ledger *g;
	struct ident h, u;

	fixture_init(&f);
	int host = f.layer.lower, up = f.layer.upper;
	put(host, "touched", "same\n");
	put(up, "touched", "same\n");
	put(up, "landed", "one\n");
	dir(host, "d");
	dir(up, "d");
	fixture_mounted(&f);
	g = open_ledger(&f);
	capture(g, &f);
	put(host, "touched", "the host goes on\n");
	mode(host, "d", 0700);
	put(host, "landed", "one\n");
	ident_at(host, "landed", &h);
	ident_at(up, "landed", &u);
	OK(ledger_set_applied(g, "landed", &h, &u, "one\n", 4, &err) == 0, "applied");
	OK(ledger_is_clean(g, "landed", &h, &u), "and clean");
	OK(changes_list(&c, &f.layers, &g, NULL, 0, &err) == 0 && c.n == 0,
	   "what only the host changed is no change: %zu", c.n);
	changes_clear(&c);
	put(host, "landed", "two\n");
	ident_at(host, "landed", &h);
	OK(!ledger_is_clean(g, "landed", &h, &u), "the host changed it");
	OK(changes_list(&c, &f.layers, &g, NULL, 0, &err) == 0 && c.n == 0,
	   "not the sandbox");
	changes_clear(&c);
	put(up, "landed", "three\n");
	OK(changes_list(&c, &f.layers, &g, NULL, 0, &err) == 0 && c.n == 1,
	   "now the sandbox did: %zu", c.n);
	changes_clear(&c);
	ledger_close(g);
	fixture_clear(&f);
}

static void contents_are_kept(void)
{
	struct fixture f;
	struct cove_error err = {0};
	struct ledger *g;
	struct ident id = {.mode = S_IFREG | 0644};
	char *big = calloc(1, LEDGER_BLOB_MAX + 2), path[32];
	struct stat st;

	fixture_init(&f);
	g = open_ledger(&f);
	memset(big, 'x', LEDGER_BLOB_MAX + 1);
	ledger_set_applied(g, "big", &id, &id, big, LEDGER_BLOB_MAX + 1, &err);
	OK(!ledger_find(g, "big")->has_blob && *ledger_find(g, "big")->blob,
	   "a large one by its digest only");
	ledger_set_applied(g, "bin", &id, &id, "a\0b", 3, &err);
	OK(!ledger_find(g, "bin")->has_blob, "no copy of what is not text");
	ledger_set_applied(g, "empty", &id, &id, "", 0, &err);
	for (int i = 0; i < 12; i++) { /* more than is kept in memory */
		big[0] = (char)('a' + i);
		snprintf(path, sizeof(path), "f%d", i);
		ledger_set_applied(g, path, &id, &id, big, LEDGER_BLOB_MAX, &err);
	}
	big[LEDGER_BLOB_MAX] = '\0';
	OK(blob_is(g, "empty", "") && blob_is(g, "f11", big), "before it is saved");
	big[0] = 'a';
	OK(blob_is(g, "f0", big), "of those that went to the file");
	g = again(g, &f);
	OK(blob_is(g, "f0", big) && blob_is(g, "empty", ""), "and after");
	for (int i = 1; i < 12; i++) {
		snprintf(path, sizeof(path), "f%d", i);
		ledger_forget(g, path);
	}
	g = again(g, &f);
	OK(blob_is(g, "f0", big), "still there when the others went");
	OK(fstatat(f.layer.dir, "blobs/0", &st, 0) < 0 &&
		   fstatat(f.layer.dir, "blobs/1", &st, 0) == 0 &&
		   st.st_size == LEDGER_BLOB_MAX,
	   "and nothing else");
	int fd = openat(f.layer.dir, "blobs/1", O_WRONLY | O_CLOEXEC);
	fixture_must(pwrite(fd, "!", 1, 5) == 1, "blobs");
	close(fd);
	OK(!blob_is(g, "f0", big), "a damaged content is none");
	ledger_sweep(g);
	OK(!ledger_find(g, "f0")->has_blob, "and is not kept");
	ledger_close(g);
	free(big);
	fixture_clear(&f);
}

static void damage(void)
{
	static const char *const bad[] = {
		"",
		"cove-ledger 2 0\nend 0\n",
		"cove-ledger 1 0\nend 1\n",
		"cove-ledger 1 0\nseen sure - - - - x\n",
		"cove-ledger 1 0\nseen sure - - - - x\nend 1",
		"cove-ledger 1 0\nseen sure - - - - ../x\nend 1\n",
		"cove-ledger 1 0\nseen sure - - - - /x\nend 1\n",
		"cove-ledger 1 0\nseen sure - - - - x\nseen sure - - - - x\nend 2\n",
		"cove-ledger 1 0\nseen sure 81a4:0:0:0:0:0:0 - - - x\nend 1\n",
		"cove-ledger 1 0\nseen sure - - - 0:5 x\nend 1\n",
		"cove-ledger 1 0\nseen sure - - - - x\\00\nend 1\n",
	};
	struct fixture f;
	struct cove_error err = {0};
	struct ledger *g = NULL;
	bool damaged = false;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		g = ledger_new();
		OK(ledger_parse(g, bad[i], strlen(bad[i])) < 0 && ledger_count(g) == 0,
		   "refused: %zu", i);
		ledger_close(g);
	}
	fixture_init(&f);
	put(f.layer.dir, "ledger", "rubbish\n");
	OK(ledger_open(&g, &f.layer, &damaged, &err) == 0 && damaged &&
		   ledger_count(g) == 0,
	   "a damaged ledger is an empty one");
	put(f.layer.upper, "x", "y");
	capture(g, &f);
	g = again(g, &f);
	OK(ledger_count(g) == 2, "and is replaced");
	ledger_close(g);
	fixture_clear(&f);
}

static void odd_paths(void)
{
	static const char *const paths[] = {"a b",      "new\nline", "back\\slash",
					    "\xff\x7f", "d/\x01",    "."};
	struct cove_error err = {0};
	struct ident id = {.mode = S_IFREG, .mtime_ns = -1, .ctime_ns = INT64_MIN};
	struct ledger *g = ledger_new(), *h = ledger_new();
	cleanup_buf struct buf text = BUF_INIT(1 << 20);
	bool all = true;

	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		ledger_set_seen(g, paths[i], &id, NULL, 0, &err);
	OK(ledger_print(g, &text) == 0 && ledger_parse(h, text.data, text.len) == 0,
	   "any bytes in a path");
	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		all &= ledger_find(h, paths[i]) != NULL;
	OK(all && ledger_count(h) == ARRAY_LEN(paths), "all of them are there");
	OK(ident_same(&ledger_find(h, "a b")->host, &id), "and what they were");
	ledger_close(g);
	ledger_close(h);
}

/* Of this process: the machine may be busy with others. */
static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void many(void)
{
	struct fixture f;
	struct cove_error err = {0};
	struct ledger *g;
	char path[64];
	double a, b, c;

	fixture_init(&f);
	for (int i = 0; i < 10000; i++) {
		snprintf(path, sizeof(path), "file-%d", i);
		if (i % 2)
			put(f.layer.lower, path, "what the host has\n");
		put(f.layer.upper, path, "what the sandbox made of it\n");
	}
	fixture_mounted(&f);
	g = open_ledger(&f);
	a = now_ms();
	capture(g, &f);
	b = now_ms();
	OK(ledger_save(g, &err) == 0, "saved");
	c = now_ms();
	OK(ledger_count(g) == 10001, "all are noted");
	printf("# 10000 new paths, half of them edits: capture %.1f ms, save %.1f ms\n",
	       b - a, c - b);
	a = now_ms();
	capture(g, &f);
	printf("# again, nothing new: %.1f ms\n", now_ms() - a);
	for (int i = 0; i < 10000; i++) {
		snprintf(path, sizeof(path), "file-%d", i);
		ledger_forget(g, path);
	}
	OK(ledger_count(g) == 1, "all are forgotten");
	ledger_close(g);
	fixture_clear(&f);
}

int main(void)
{
	umask(022);
	what_is_noted();
	what_a_change_is();
	contents_are_kept();
	damage();
	odd_paths();
	many();
	return tap_done();
}
