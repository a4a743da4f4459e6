/* SPDX-License-Identifier: Apache-2.0 */
/* Conflicts: a table of what the host, the sandbox and both did to one path. */
#include "work/conflict.h"
#include "layer_fixture.h"
#include "tap.h"

struct world {
	struct fixture f;
	struct ledger *g;
	struct changes c;
	struct buf merged;
	char why[200];
};

static const char base[] = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";

/* The host has path with base; then the sandbox is started. */
static void begin(struct world *w, const char *path)
{
	*w = (struct world){.merged = BUF_INIT(1 << 20)};
	fixture_init(&w->f);
	if (path)
		put(w->f.layer.lower, path, base);
	fixture_mounted(&w->f);
}

static void end(struct world *w)
{
	changes_clear(&w->c);
	ledger_close(w->g);
	buf_clear(&w->merged);
	fixture_clear(&w->f);
}

static void capture(struct world *w)
{
	struct cove_error err = {0};

	if (!w->g)
		fixture_must(ledger_open(&w->g, &w->f.layer, NULL, &err) == 0, err.msg);
	fixture_must(ledger_capture(w->g, &w->f.layer, &err) == 0, err.msg);
}

static int ask(struct world *w, const char *path, uint32_t flags)
{
	struct cove_error err = {0};
	struct ledger *const *ledgers = w->g ? &w->g : NULL;
	const struct change *c = NULL;
	enum verdict v = VERDICT_CONFLICT;
	struct ident now;
	int fd, r;

	changes_clear(&w->c);
	fixture_must(changes_list(&w->c, &w->f.layers, ledgers, NULL, flags, &err) == 0,
		     err.msg);
	for (size_t i = 0; i < w->c.n; i++)
		if (strcmp(w->c.v[i].path, path) == 0)
			c = &w->c.v[i];
	if (!c)
		return -1; /* no change at all */
	fixture_must(ident_at(w->f.layer.lower, path, &now) == 0, path);
	fd = S_ISREG(c->new.mode) ? change_open_new(&w->f.layers, c) : -1;
	r = conflict_check(&w->f.layers, w->g, &w->c, c, fd, &now, &v, &w->merged, w->why,
			   sizeof(w->why), &err);
	closep(&fd);
	fixture_must(r == 0, err.msg);
	printf("# %s: verdict %d %s\n", path, v, w->why);
	return (int)v;
}

/* text NULL: deletes it */
static void write_side(int at, bool upper, const char *path, const char *text)
{
	if (text)
		put(at, path, text);
	else if (upper)
		whiteout(at, path);
	else
		fixture_must(unlinkat(at, path, 0) == 0, path);
}

#define KEEP ((const char *)-1)

static const struct {
	const char *title, *sandbox, *host; /* NULL: deleted */
	int verdict;
	const char *merged;
} cases[] = {
	{"only the sandbox edited it",               "1\nx\n",                      KEEP,     VERDICT_CLEAN,    NULL                         },
	{"only the sandbox deleted it",              NULL,                          KEEP,     VERDICT_CLEAN,    NULL                         },
	{"both made the same edit",                  "1\nx\n",                      "1\nx\n", -1,               NULL                         },
	{"both deleted it",                          NULL,                          NULL,     -1,               NULL                         },
	{"the host rewrote the same content",        "1\nx\n",                      base,     VERDICT_CLEAN,    NULL                         },
	{"edits of other lines",                     "1\nS\n3\n4\n5\n6\n7\n8\n9\n",
	 "1\n2\n3\n4\n5\n6\n7\nH\n9\n",						       VERDICT_MERGE,    "1\nS\n3\n4\n5\n6\n7\nH\n9\n"},
	{"edits of the same line",                   "1\nS\n3\n4\n5\n6\n7\n8\n9\n",
	 "1\nH\n3\n4\n5\n6\n7\n8\n9\n",						       VERDICT_CONFLICT, NULL                         },
	{"the host's edit is part of the sandbox's", "1\nS\n3\n4\n5\n6\n7\nS\n9\n",
	 "1\nS\n3\n4\n5\n6\n7\n8\n9\n",						       VERDICT_CLEAN,    NULL                         },
	{"the sandbox deleted, the host edited",     NULL,                          "1\n",    VERDICT_CONFLICT, NULL                         },
	{"the sandbox edited, the host deleted",     "1\nx\n",                      NULL,     VERDICT_CONFLICT, NULL                         },
};

static void table(void)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct world w;
		int v;

		begin(&w, "f");
		write_side(w.f.layer.upper, true, "f", cases[i].sandbox);
		capture(&w);
		if (cases[i].host != KEEP)
			write_side(w.f.layer.lower, false, "f", cases[i].host);
		v = ask(&w, "f", CHANGES_NO_RENAMES);
		OK(v == cases[i].verdict, "%s", cases[i].title);
		if (cases[i].merged)
			OK(w.merged.len == strlen(cases[i].merged) &&
				   strcmp(w.merged.data, cases[i].merged) == 0,
			   "merged");
		end(&w);
	}
}

static void added(void)
{
	struct world w;

	begin(&w, NULL);
	put(w.f.layer.upper, "new", "sandbox\n");
	dir(w.f.layer.upper, "d");
	put(w.f.layer.upper, "d/f", "sandbox\n");
	capture(&w);
	OK(ask(&w, "new", 0) == VERDICT_CLEAN, "a new file");
	OK(ask(&w, "d/f", 0) == VERDICT_CLEAN, "in a new directory");
	put(w.f.layer.lower, "new", "host\n");
	OK(ask(&w, "new", 0) == VERDICT_CONFLICT, "the host made one, too");
	dir(w.f.layer.lower, "d");
	put(w.f.layer.lower, "d/f", "host\n");
	OK(ask(&w, "d/f", 0) == VERDICT_CONFLICT, "and in the directory");
	put_mode(w.f.layer.lower, "new", "sandbox\n", 0600);
	OK(ask(&w, "new", 0) == VERDICT_CONFLICT, "the same but for the mode");
	end(&w);
}

static void not_sure(void)
{
	struct world w;

	begin(&w, "f");
	put(w.f.layer.lower, "f", "edited by the host after the start\n");
	put(w.f.layer.upper, "f", "edited by the sandbox\n");
	OK(ask(&w, "f", 0) == VERDICT_CONFLICT, "no ledger: the time tells");
	capture(&w);
	OK(ask(&w, "f", 0) == VERDICT_CONFLICT, "what it saw is not known");
	fixture_mounted(&w.f);
	OK(ask(&w, "f", 0) == VERDICT_CONFLICT, "nor is it after another start");
	end(&w);
	begin(&w, "f");
	put(w.f.layer.upper, "f", "edited by the sandbox\n");
	OK(ask(&w, "f", 0) == VERDICT_CLEAN, "no ledger, and an old file");
	end(&w);
}

/* As overlayfs does it: the copy is younger than the host's last edit. */
static void copied_after_the_edit(void)
{
	struct world w;

	begin(&w, "f");
	put(w.f.layer.lower, "f", "edited by the host after the start\n");
	usleep(10000);
	put(w.f.layer.upper, "f", "edited by the host and the sandbox\n");
	attr(w.f.layer.upper, "f", "user.overlay.origin", "");
	capture(&w);
	OK(ask(&w, "f", 0) == VERDICT_CLEAN, "the sandbox saw the host's edit");
	end(&w);
}

static void modes(void)
{
	struct world w;

	begin(&w, "f");
	put_mode(w.f.layer.upper, "f", base, 0755);
	capture(&w);
	OK(ask(&w, "f", 0) == VERDICT_CLEAN, "a mode");
	put(w.f.layer.lower, "f", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n");
	OK(ask(&w, "f", 0) == VERDICT_MERGE, "a mode here, an edit there");
	mode(w.f.layer.lower, "f", 0600);
	OK(ask(&w, "f", 0) == VERDICT_CONFLICT, "two modes");
	end(&w);
	begin(&w, "f");
	put(w.f.layer.upper, "f", "sandbox\n");
	capture(&w);
	mode(w.f.layer.lower, "f", 0600);
	OK(ask(&w, "f", 0) == VERDICT_CONFLICT, "an edit here, a mode there");
	end(&w);
}

static void binary(void)
{
	struct world w;
	struct ident id;
	int fd;

	begin(&w, "f");
	put(w.f.layer.upper, "f", "sandbox\n");
	capture(&w);
	fd = openat(w.f.layer.lower, "f", O_WRONLY | O_TRUNC | O_CLOEXEC);
	fixture_must(write(fd, "\0bin", 4) == 4, "write");
	close(fd);
	OK(ask(&w, "f", 0) == VERDICT_CONFLICT, "no merge of what is not text");
	ident_at(w.f.layer.lower, "f", &id);
	OK(id.size == 4, "nothing was touched");
	end(&w);
}

static void directories(void)
{
	struct world w;

	begin(&w, NULL);
	int host = w.f.layer.lower, up = w.f.layer.upper;
	dir(host, "d");
	dir(host, "d/sub");
	put(host, "d/sub/f", "x\n");
	fixture_mounted(&w.f);
	whiteout(up, "d");
	capture(&w);
	OK(ask(&w, "d", 0) == VERDICT_CLEAN && ask(&w, "d/sub", 0) == VERDICT_CLEAN &&
		   ask(&w, "d/sub/f", 0) == VERDICT_CLEAN,
	   "a deleted tree");
	put(host, "d/sub/f", "edited\n");
	OK(ask(&w, "d/sub/f", 0) == VERDICT_CONFLICT, "the host edited a file in it");
	put(host, "d/sub/made", "later\n");
	OK(ask(&w, "d/sub/made", 0) == VERDICT_CONFLICT, "and made one in it");
	end(&w);
	begin(&w, NULL);
	host = w.f.layer.lower, up = w.f.layer.upper;
	dir(host, "d");
	put(host, "d/a", "x\n");
	fixture_mounted(&w.f);
	whiteout(up, "d");
	capture(&w);
	ask(&w, "d", CHANGES_NO_RENAMES);
	/* a file that comes between the listing and the check */
	struct changes listed = w.c;
	struct cove_error err = {0};
	struct ident now;
	enum verdict v;

	w.c = (struct changes){0};
	put(host, "d/late", "x\n");
	ident_at(host, "d", &now);
	OK(conflict_check(&w.f.layers, w.g, &listed, &listed.v[0], -1, &now, &v,
			  &w.merged, w.why, sizeof(w.why), &err) == 0 &&
		   v == VERDICT_CONFLICT && strstr(w.why, "late"),
	   "what is not listed as deleted: %s", w.why);
	changes_clear(&listed);
	end(&w);
}

static void renamed(void)
{
	struct world w;

	begin(&w, "old");
	whiteout(w.f.layer.upper, "old");
	put(w.f.layer.upper, "new", base);
	capture(&w);
	OK(ask(&w, "new", 0) == VERDICT_CLEAN && w.c.n == 1, "a rename");
	put(w.f.layer.lower, "new", "host\n");
	put(w.f.layer.lower, "old", base);
	OK(ask(&w, "new", CHANGES_NO_RENAMES) == VERDICT_CONFLICT, "onto a new file");
	end(&w);
	begin(&w, "old");
	whiteout(w.f.layer.upper, "old");
	put(w.f.layer.upper, "new", base);
	capture(&w);
	ask(&w, "new", 0);
	put(w.f.layer.lower, "old", "edited\n");
	struct cove_error err = {0};
	struct ident now = {0};
	enum verdict v;

	OK(conflict_check(&w.f.layers, w.g, &w.c, &w.c.v[0], -1, &now, &v, &w.merged,
			  w.why, sizeof(w.why), &err) == 0 &&
		   v == VERDICT_CONFLICT,
	   "of a file that the host edited: %s", w.why);
	end(&w);
}

/* An apply while the sandbox runs, with a merge: the host's file then holds more than the
 * sandbox's, and the next apply must not take that back. */
static void after_a_merge(void)
{
	static const char sandbox[] = "1\nS\n3\n4\n5\n6\n7\n8\n9\n";
	static const char landed[] = "1\nS\n3\n4\n5\n6\n7\nH\n9\n";
	struct cove_error err = {0};
	struct ident host, up;
	struct world w;

	begin(&w, "f");
	put(w.f.layer.upper, "f", sandbox);
	capture(&w);
	put(w.f.layer.lower, "f", landed);
	ident_at(w.f.layer.lower, "f", &host);
	ident_at(w.f.layer.upper, "f", &up);
	ledger_set_applied(w.g, "f", &host, &up, sandbox, strlen(sandbox), &err);
	OK(ask(&w, "f", 0) == -1, "it has landed");
	put(w.f.layer.upper, "f", "1\nS\n3\nS\n5\n6\n7\n8\n9\n");
	OK(ask(&w, "f", 0) == VERDICT_MERGE &&
		   strcmp(w.merged.data, "1\nS\n3\nS\n5\n6\n7\nH\n9\n") == 0,
	   "the next edit keeps what the host did");
	end(&w);
}

static void links(void)
{
	struct world w;

	begin(&w, NULL);
	sym(w.f.layer.lower, "l", "a");
	fixture_mounted(&w.f);
	sym(w.f.layer.upper, "l", "b");
	capture(&w);
	OK(ask(&w, "l", 0) == VERDICT_CLEAN, "a target");
	unlinkat(w.f.layer.lower, "l", 0);
	sym(w.f.layer.lower, "l", "a");
	OK(ask(&w, "l", 0) == VERDICT_CLEAN, "the host made the same link again");
	unlinkat(w.f.layer.lower, "l", 0);
	sym(w.f.layer.lower, "l", "c");
	OK(ask(&w, "l", 0) == VERDICT_CONFLICT, "two targets");
	end(&w);
}

int main(void)
{
	umask(022);
	table();
	added();
	not_sure();
	copied_after_the_edit();
	modes();
	binary();
	directories();
	renamed();
	after_a_merge();
	links();
	return tap_done();
}
