/* SPDX-License-Identifier: Apache-2.0 */
/* The change list: every kind of change, what is none, and what was forged. */
#include "change_list.h"

#include <sys/wait.h>

static bool is_sorted(const struct changes *c)
{
	for (size_t i = 1; i < c->n; i++)
		if (strcmp(c->v[i - 1].path, c->v[i].path) >= 0)
			return false;
	return true;
}

static void each_kind(void)
{
	struct fixture f;
	struct changes c;

	fixture_init(&f);
	int host = f.layer.lower, up = f.layer.upper;
	put(host, "edited", "one\n");
	put(up, "edited", "two\n");
	put(host, "longer", "one\n");
	put(up, "longer", "one and two\n");
	put(host, "touched", "same\n");
	put(up, "touched", "same\n");
	put(up, "added", "new\n");
	put(host, "gone", "old\n");
	whiteout(up, "gone");
	whiteout(up, "never-was");
	put_mode(host, "mode", "x", 0644);
	put_mode(up, "mode", "x", 0755);
	put(host, "attr", "x");
	put(up, "attr", "x");
	attr(up, "attr", "user.note", "v");
	attr(up, "attr", "user.overlay.origin", "v");
	sym(host, "link", "a");
	sym(up, "link", "b");
	sym(host, "same-link", "a");
	sym(up, "same-link", "a");
	put(host, "to-link", "x");
	sym(up, "to-link", "target");
	c = list_of(&f, NULL, CHANGES_NO_RENAMES);
	OK(is(&c, "edited", COVE_EDITED, COVE_WHAT_CONTENT), "same size, other content");
	OK(is(&c, "longer", COVE_EDITED, COVE_WHAT_CONTENT), "other size");
	OK(!find(&c, "touched"), "touched only is no change");
	OK(is(&c, "added", COVE_ADDED, COVE_WHAT_CONTENT), "added");
	OK(is(&c, "gone", COVE_DELETED, COVE_WHAT_CONTENT), "deleted");
	OK(!find(&c, "never-was"), "a whiteout of nothing is no change");
	OK(is(&c, "mode", COVE_ATTRS, COVE_WHAT_MODE), "mode");
	OK(is(&c, "attr", COVE_ATTRS, COVE_WHAT_XATTR), "attribute");
	OK(is(&c, "link", COVE_EDITED, COVE_WHAT_TARGET), "target");
	OK(strcmp(find(&c, "link")->old_target, "a") == 0 &&
		   strcmp(find(&c, "link")->new_target, "b") == 0,
	   "both targets");
	OK(!find(&c, "same-link"), "the same link is no change");
	OK(find(&c, "to-link")->kind == COVE_RETYPED &&
		   find(&c, "to-link")->what & COVE_WHAT_TYPE,
	   "a file became a link");
	OK(c.n == 8 && is_sorted(&c), "nothing else, sorted: %zu", c.n);
	changes_clear(&c);
	fixture_clear(&f);
}

static void directories(void)
{
	struct fixture f;
	struct changes c;

	fixture_init(&f);
	int host = f.layer.lower, up = f.layer.upper;
	dir(host, "merged");
	dir(up, "merged");
	put(host, "merged/stays", "x");
	put(up, "merged/new", "x");
	dir(up, "fresh");
	dir(up, "fresh/sub");
	put(up, "fresh/sub/f", "x");
	dir(host, "gone");
	dir(host, "gone/sub");
	put(host, "gone/sub/f", "x");
	whiteout(up, "gone");
	dir(host, "opaque");
	put(host, "opaque/hidden", "x");
	put(host, "opaque/back", "x");
	dir(host, "opaque/sub");
	put(host, "opaque/sub/hidden", "x");
	opaque(up, "opaque");
	put(up, "opaque/back", "x");
	dir(up, "opaque/sub");
	put(up, "opaque/sub/new", "x");
	dir(host, "to-file");
	put(host, "to-file/f", "x");
	put(up, "to-file", "now a file");
	put(host, "to-dir", "x");
	dir(up, "to-dir");
	put(up, "to-dir/f", "x");
	c = list_of(&f, NULL, CHANGES_NO_RENAMES);
	OK(!find(&c, "merged") && !find(&c, "merged/stays"), "merged directory");
	OK(is(&c, "merged/new", COVE_ADDED, COVE_WHAT_CONTENT), "in it");
	OK(is(&c, "fresh", COVE_ADDED, 0) && is(&c, "fresh/sub", COVE_ADDED, 0) &&
		   find(&c, "fresh/sub/f"),
	   "a new directory and all in it");
	OK(is(&c, "gone", COVE_DELETED, 0) && is(&c, "gone/sub", COVE_DELETED, 0) &&
		   is(&c, "gone/sub/f", COVE_DELETED, COVE_WHAT_CONTENT),
	   "a deleted directory and all that was in it");
	OK(!find(&c, "opaque") && !find(&c, "opaque/back") && !find(&c, "opaque/sub"),
	   "made anew as it was");
	OK(is(&c, "opaque/hidden", COVE_DELETED, COVE_WHAT_CONTENT) &&
		   is(&c, "opaque/sub/hidden", COVE_DELETED, COVE_WHAT_CONTENT),
	   "what an opaque directory hides is deleted, below its directories too");
	OK(is(&c, "opaque/sub/new", COVE_ADDED, COVE_WHAT_CONTENT), "new below opaque");
	OK(find(&c, "to-file")->kind == COVE_RETYPED &&
		   find(&c, "to-file/f")->kind == COVE_DELETED,
	   "a directory became a file");
	OK(find(&c, "to-dir")->kind == COVE_RETYPED &&
		   find(&c, "to-dir/f")->kind == COVE_ADDED,
	   "a file became a directory");
	OK(c.n == 14 && is_sorted(&c), "nothing else: %zu", c.n);
	changes_clear(&c);
	fchmod(up, 0700);
	attr(f.layer.dir, "upper", "user.mine", "1");
	c = list_of(&f, (const char *const[]){".", NULL}, CHANGES_NO_RENAMES);
	OK(is(&c, ".", COVE_ATTRS, COVE_WHAT_MODE | COVE_WHAT_XATTR), "the root itself");
	changes_clear(&c);
	fixture_clear(&f);
}

static void forged(void)
{
	struct fixture f;
	struct changes c;
	const struct change *w;

	fixture_init(&f);
	int host = f.layer.lower, up = f.layer.upper;
	mkfifoat(up, "fifo", 0644);
	put_mode(up, "setuid", "x", 04755);
	put(host, "opaque-file", "x");
	put(up, "opaque-file", "x");
	attr(up, "opaque-file", "user.overlay.opaque", "y");
	dir(host, "odd");
	dir(up, "odd");
	attr(up, "odd", "user.overlay.opaque", "x");
	dir(host, "redirect");
	dir(up, "redirect");
	attr(up, "redirect", "user.overlay.redirect", "/etc");
	put(host, "meta", "x");
	put(up, "meta", "x");
	attr(up, "meta", "user.overlay.metacopy", "y");
	put(up, "with\nnewline", "x");
	put(up, "\xff\xfe", "x");
	if (geteuid() == 0)
		mknodat(up, "null", S_IFCHR | 0666, makedev(1, 3));
	c = list_of(&f, NULL, 0);
	w = find(&c, "fifo");
	OK(w && w->kind == COVE_ADDED && S_ISFIFO(w->new.mode),
	   "a fifo is listed as one");
	w = find(&c, "setuid");
	OK(w && w->new.mode &S_ISUID, "set-user-id is seen");
	w = find(&c, "opaque-file");
	OK(w && w->what & COVE_WHAT_UNREADABLE && strstr(w->why, "opaque"),
	   "opaque file");
	w = find(&c, "odd");
	OK(w && w->what & COVE_WHAT_UNREADABLE, "odd value of opaque");
	w = find(&c, "redirect");
	OK(w && w->what & COVE_WHAT_UNREADABLE && strstr(w->why, "redirect"), "redirect");
	w = find(&c, "meta");
	OK(w && w->what & COVE_WHAT_UNREADABLE, "metacopy");
	OK(find(&c, "with\nnewline") && find(&c, "\xff\xfe"), "names of any bytes");
	w = find(&c, "null");
	if (geteuid() == 0)
		OK(w && S_ISCHR(w->new.mode), "a device is no whiteout");
	else
		SKIP("needs root");
	changes_clear(&c);
	fixture_clear(&f);
}

/* As an ordinary user: what the agent made inaccessible is named, the rest is listed. */
static void unreadable(void)
{
	struct fixture f;
	struct changes c;
	pid_t pid;
	int status;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		int bad = 0;

		if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
			_exit(99);
		fixture_init(&f);
		int up = f.layer.upper;
		struct cove_error err = {0};

		dir(f.layer.lower, "both");
		dir(up, "both");
		put(up, "both/secret", "x");
		mode(up, "both", 0);
		dir(up, "closed");
		put(up, "closed/f", "x");
		mode(up, "closed", 0);
		dir(up, "no-search");
		put(up, "no-search/f", "x");
		mode(up, "no-search", 0600);
		put_mode(up, "file", "x", 0);
		put_mode(f.layer.lower, "edit", "y", 0644);
		put_mode(up, "edit", "x", 0);
		put(up, "open", "x");
		bad |= changes_list(&c, &f.layers, NULL, NULL, 0, &err) < 0 ? 1 : 0;
		bad |= !is(&c, "closed", COVE_ADDED, COVE_WHAT_UNREADABLE) << 1;
		bad |= !is(&c, "no-search", COVE_ADDED, COVE_WHAT_UNREADABLE) << 2;
		bad |= !is(&c, "both", COVE_ATTRS, COVE_WHAT_UNREADABLE | COVE_WHAT_MODE)
		       << 3;
		bad |= !is(&c, "file", COVE_ADDED,
			   COVE_WHAT_CONTENT | COVE_WHAT_UNREADABLE)
		       << 4;
		bad |= !is(&c, "edit", COVE_ATTRS, COVE_WHAT_MODE | COVE_WHAT_UNREADABLE)
		       << 5;
		bad |= !is(&c, "open", COVE_ADDED, COVE_WHAT_CONTENT) << 6;
		changes_clear(&c);
		fixture_clear(&f);
		fflush(stdout);
		_exit(bad);
	}
	waitpid(pid, &status, 0);
	OK(WIFEXITED(status) && WEXITSTATUS(status) == 0,
	   "what cannot be read is named, the rest listed: %x", WEXITSTATUS(status));
}

static void deep_tree(void)
{
	struct fixture f;
	struct changes c;
	size_t named = 0;
	int at;

	fixture_init(&f);
	at = fcntl(f.layer.upper, F_DUPFD_CLOEXEC, 3);
	for (int i = 0; i < CHANGE_DEPTH_MAX + 100; i++) {
		int next = fixture_dir(at, "a-rather-long-name-so-that-the-path-is-"
					   "longer-than-a-call-takes");

		close(at);
		at = next;
	}
	close(at);
	c = list_of(&f, NULL, 0);
	for (size_t i = 0; i < c.n; i++)
		named += (c.v[i].what & COVE_WHAT_UNREADABLE) != 0;
	OK(c.n == CHANGE_DEPTH_MAX + 1 && named == 1, "bounded depth: %zu, %zu", c.n,
	   named);
	OK(strstr(c.v[c.n - 1].why, "deeper"), "and it is said: %s", c.v[c.n - 1].why);
	changes_clear(&c);
	fixture_clear(&f);
}

static void wide_and_deep_descriptors(void)
{
	struct fixture f;
	struct changes c;
	char path[64];

	fixture_init(&f);
	for (int i = 0; i < 300; i++) {
		snprintf(path, sizeof(path), "d%d", i);
		dir(f.layer.upper, path);
		dir(f.layer.lower, path);
		snprintf(path, sizeof(path), "d%d/f", i);
		put(f.layer.upper, path, "x");
	}
	c = list_of(&f, NULL, 0);
	OK(c.n == 300, "more directories than descriptors are kept: %zu", c.n);
	changes_clear(&c);
	fixture_clear(&f);
}

static void selection(void)
{
	struct fixture f;
	struct changes c = {0};
	struct cove_error err = {0};
	char absolute[128];

	fixture_init(&f);
	int up = f.layer.upper;
	dir(up, "src");
	put(up, "src/a.c", "x");
	put(up, "src/b.h", "x");
	dir(up, "doc");
	put(up, "doc/a.c", "x");
	put(up, "a.c", "x");
	put(f.layer.lower, "unchanged", "x");
	c = list_of(&f, (const char *const[]){"src", NULL}, 0);
	OK(c.n == 3, "a directory and all in it: %zu", c.n);
	changes_clear(&c);
	c = list_of(&f, (const char *const[]){"a.c", NULL}, 0);
	OK(c.n == 1, "a name is that path only: %zu", c.n);
	changes_clear(&c);
	c = list_of(&f, (const char *const[]){"*.c", NULL}, 0);
	OK(c.n == 3, "a glob at any depth: %zu", c.n);
	changes_clear(&c);
	snprintf(absolute, sizeof(absolute), "%s/*.c", f.layer.source);
	c = list_of(&f, (const char *const[]){absolute, "./src/", NULL}, 0);
	OK(c.n == 4, "an absolute glob means its place: %zu", c.n);
	changes_clear(&c);
	c = list_of(&f, (const char *const[]){"unchanged", NULL}, 0);
	OK(c.n == 0, "a path without change is no error");
	changes_clear(&c);
	OK(changes_list(&c, &f.layers, NULL, (const char *const[]){"a.c", "nope", NULL},
			0, &err) == COVE_ENOENT &&
		   strstr(err.msg, "nope"),
	   "a pattern that names nothing is: %s", err.msg);
	fixture_clear(&f);
}

static void covered_paths(void)
{
	struct fixture f;
	struct changes c;
	char one[] = "a/b/c", two[] = "mask";
	char *skip[] = {one, two};

	fixture_init(&f);
	int up = f.layer.upper;
	f.layer.skip = skip;
	f.layer.n_skip = 2;
	dir(up, "a");
	dir(up, "a/b");
	dir(up, "a/b/c");
	put(up, "a/b/c/f", "x");
	dir(up, "mask");
	put(up, "mask/f", "x");
	put(up, "masked", "x");
	c = list_of(&f, NULL, 0);
	OK(c.n == 1 && find(&c, "masked"),
	   "what other mounts cover is left out, with what leads there: %zu", c.n);
	changes_clear(&c);
	put(up, "a/new", "x");
	c = list_of(&f, NULL, 0);
	OK(c.n == 3 && find(&c, "a") && find(&c, "a/new"), "unless it holds a change");
	changes_clear(&c);
	f.layer.n_skip = 0;
	fixture_clear(&f);
}

static void renames_by_content(void)
{
	struct fixture f;
	struct changes c;
	const struct change *r;

	fixture_init(&f);
	int host = f.layer.lower, up = f.layer.upper;
	put(host, "old", "some content\n");
	whiteout(up, "old");
	put_mode(up, "new", "some content\n", 0755);
	put(host, "twin1", "twin content\n");
	put(host, "twin2", "twin content\n");
	whiteout(up, "twin1");
	whiteout(up, "twin2");
	put(up, "twin3", "twin content\n");
	put(host, "empty", "");
	whiteout(up, "empty");
	put(up, "empty2", "");
	c = list_of(&f, NULL, 0);
	r = find(&c, "new");
	OK(r && r->kind == COVE_RENAMED && strcmp(r->from, "old") == 0 &&
		   r->what == COVE_WHAT_MODE && r->old.mode == (S_IFREG | 0644),
	   "the same content, once on each side");
	OK(!find(&c, "old"), "its deletion is part of it");
	OK(find(&c, "twin3")->kind == COVE_ADDED, "an ambiguous one is none");
	OK(find(&c, "empty2")->kind == COVE_ADDED, "empty files prove nothing");
	int fd = change_open_old(&f.layers, r);
	OK(fd >= 0, "the old side is at the old name");
	close(fd);
	changes_clear(&c);
	c = list_of(&f, (const char *const[]){"new", NULL}, 0);
	OK(c.n == 1 && c.v[0].kind == COVE_ADDED, "half of a rename is an addition");
	changes_clear(&c);
	fixture_clear(&f);
}

static void opening(void)
{
	struct fixture f;
	struct changes c;
	int fd;

	fixture_init(&f);
	put(f.layer.lower, "f", "one");
	put(f.layer.upper, "f", "two");
	c = list_of(&f, NULL, 0);
	fd = change_open_new(&f.layers, &c.v[0]);
	OK(fd >= 0, "opens what was listed");
	close(fd);
	put(f.layer.upper, "f", "six");
	OK(change_open_new(&f.layers, &c.v[0]) == -ESTALE, "not what changed meanwhile");
	unlinkat(f.layer.upper, "f", 0);
	sym(f.layer.upper, "f", "/etc/passwd");
	OK(change_open_new(&f.layers, &c.v[0]) == -ESTALE, "nor a symlink");
	changes_clear(&c);
	fixture_clear(&f);
}

int main(void)
{
	umask(022);
	each_kind();
	directories();
	forged();
	unreadable();
	deep_tree();
	wide_and_deep_descriptors();
	selection();
	covered_paths();
	renames_by_content();
	opening();
	return tap_done();
}
