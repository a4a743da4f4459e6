/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate on hand-made changes: every structural rule with its opposite, ids,
 * acceptance. What the scanner finds is for the script tests; here its findings are left
 * out.
 */
#include "base/io.h"
#include "base/util.h"
#include "tap.h"
#include "work/gate_impl.h"

#include <fcntl.h>
#include <sys/resource.h>

#define MAX_ITEMS 64

static struct {
	char top[64];
	int dir, stage;
	struct layer layer;
	struct layers layers;
	struct gate_item items[MAX_ITEMS];
	struct change changes[MAX_ITEMS];
	size_t n;
	const char *accept[8];
	json_t *spec;
	struct findings found;
} t;

static void start(void)
{
	snprintf(t.top, sizeof(t.top), "/tmp/cove-gate.XXXXXX");
	if (!mkdtemp(t.top))
		abort();
	t.dir = open(t.top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (mkdirat(t.dir, "host", 0755) < 0 || mkdirat(t.dir, "stage", 0700) < 0)
		abort();
	t.stage = openat(t.dir, "stage", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	t.layer = (struct layer){.source = t.top, .dir = -1, .upper = -1};
	t.layer.lower = openat(t.dir, "host", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	t.layers = (struct layers){.v = &t.layer, .n = 1, .record = -1};
}

static void stop(void)
{
	findings_clear(&t.found);
	json_decref(t.spec);
	remove_tree_at(AT_FDCWD, t.top);
	close(t.layer.lower);
	close(t.stage);
	close(t.dir);
}

/* ---- building ------------------------------------------------------------------- */

static void again(void)
{
	t.n = 0;
	memset(t.accept, 0, sizeof(t.accept));
	json_decref(t.spec);
	t.spec = NULL;
}

static struct gate_item *item(const char *path, uint32_t kind, uint32_t mode)
{
	struct gate_item *it = &t.items[t.n];
	struct change *c = &t.changes[t.n];
	union { /* the gate changes nothing, but the field is a plain pointer */
		const char *in;
		char *out;
	} name = {path};

	*c = (struct change){.path = name.out, .kind = kind, .new = {.mode = mode}};
	if (kind == COVE_DELETED || kind == COVE_EDITED || kind == COVE_ATTRS)
		c->old.mode = S_IFREG | 0644;
	c->what = S_ISREG(mode) && kind != COVE_ATTRS ? COVE_WHAT_CONTENT : 0;
	*it = (struct gate_item){.change = c, .dir = -1, .mode = mode};
	t.n++;
	return it;
}

static struct gate_item *file_with(const char *path, uint32_t kind, uint32_t perm,
				   const void *data, size_t n)
{
	struct gate_item *it = item(path, kind, S_IFREG | perm);

	snprintf(it->name, sizeof(it->name), "%zu", t.n);
	it->dir = t.stage;
	it->size = n;
	unlinkat(t.stage, it->name, 0);
	cleanup_fd int fd =
		openat(t.stage, it->name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write_all(fd, data, n) < 0)
		abort();
	return it;
}

static struct gate_item *file(const char *path, const char *text)
{
	return file_with(path, COVE_ADDED, 0644, text, strlen(text));
}

static struct gate_item *directory(const char *path)
{
	return item(path, COVE_ADDED, S_IFDIR | 0755);
}

static struct gate_item *symlink_to(const char *path, const char *target)
{
	struct gate_item *it = item(path, COVE_ADDED, S_IFLNK | 0777);

	it->target = target;
	return it;
}

static void host_file(const char *path)
{
	cleanup_fd int fd =
		openat(t.layer.lower, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0)
		abort();
}

static void host_dir(const char *path)
{
	if (mkdirat(t.layer.lower, path, 0755) < 0)
		abort();
}

/* ---- asking --------------------------------------------------------------------- */

static void judge(void)
{
	struct gate_config c = {.spec = t.spec, .accept = t.accept};
	struct cove_error err = {0};

	findings_clear(&t.found);
	if (gate_run(&t.layers, &c, t.items, t.n, &t.found, &err) < 0) {
		printf("# %s\n", err.msg);
		abort();
	}
}

static const struct finding *finding(const char *path, const char *rule)
{
	for (size_t i = 0; i < t.found.n; i++)
		if (strcmp(t.found.v[i].path, path) == 0 &&
		    strcmp(t.found.v[i].rule, rule) == 0)
			return &t.found.v[i];
	return NULL;
}

static bool is_ours(const struct finding *f)
{
	for (size_t k = 0; k < N_GATE_RULES; k++)
		if (k != RULE_SCAN_FAILED && strcmp(f->rule, gate_rules[k].id) == 0)
			return true;
	for (const struct gate_path *e = gate_paths; e->id; e++)
		if (strcmp(f->rule, e->id) == 0)
			return true;
	return false;
}

/* Open findings of the gate itself. */
static size_t count(void)
{
	size_t n = 0;

	for (size_t i = 0; i < t.found.n; i++)
		n += is_ours(&t.found.v[i]) &&
		     !(t.found.v[i].flags & COVE_FINDING_ACCEPTED);
	return n;
}

static void refused(const char *path, const char *rule, bool hard, const char *what)
{
	const struct finding *f;

	judge();
	f = finding(path, rule);
	OK(f && !!(f->flags & COVE_FINDING_HARD) == hard && t.found.open > 0, "%s: %s",
	   rule, what);
	if (!f)
		for (size_t i = 0; i < t.found.n; i++)
			printf("# %s %s\n", t.found.v[i].rule, t.found.v[i].path);
	again();
}

static void passes(const char *what)
{
	judge();
	OK(count() == 0, "passes: %s", what);
	for (size_t i = 0; count() && i < t.found.n; i++)
		printf("# %s %s\n", t.found.v[i].rule, t.found.v[i].path);
	again();
}

/* ---- the tests ------------------------------------------------------------------ */

static void paths(void)
{
	file("src/ok.c", "int x;\n");
	passes("a new file");
	file("../out", "x");
	refused("../out", "path-outside", true, "up");
	file("/etc/cron.d/x", "x");
	refused("/etc/cron.d/x", "path-outside", true, "absolute");
	item(".", COVE_ATTRS, S_IFDIR | 0777);
	refused(".", "mount-root", true, "the mount");
	file("a", "1");
	file("a", "2");
	refused("a", "path-twice", true, "the same path");
	host_file("plain");
	file("plain/below", "x");
	refused("plain", "path-blocked", true, "below a file");
	if (symlinkat("/etc", t.layer.lower, "hostlink") < 0)
		abort();
	file("hostlink/passwd", "x");
	refused("hostlink", "path-blocked", true, "through a symlink of the host");
	directory("hostlink")->change = t.items[0].change;
	t.changes[0].kind = COVE_RETYPED;
	t.changes[0].old.mode = S_IFLNK | 0777;
	file("hostlink/passwd", "x");
	passes("below a directory that replaces it");
}

static void types(void)
{
	static const uint32_t special[] = {S_IFCHR, S_IFBLK, S_IFIFO, S_IFSOCK};

	for (size_t i = 0; i < ARRAY_LEN(special); i++) {
		item("node", COVE_ADDED, special[i] | 0600);
		refused("node", "special-file", true, "by type");
	}
	file_with("s", COVE_ADDED, 04755, "#!/bin/sh\n", 10);
	refused("s", "setuid", true, "user id");
	file_with("s", COVE_EDITED, 02755, "#!/bin/sh\n", 10);
	refused("s", "setuid", true, "group id");
	file_with("s", COVE_ADDED, 01644, "x", 1);
	refused("s", "sticky", true, "a file");
	item("d", COVE_ADDED, S_IFDIR | 01777);
	passes("a sticky directory");
	item("d", COVE_ADDED, S_IFDIR | 02755);
	refused("d", "setuid", true, "a directory of its own group");
	item("d", COVE_ADDED, S_IFDIR | 04755);
	refused("d", "setuid", true, "a directory");
	host_dir("shared");
	if (fchmodat(t.layer.lower, "shared", 02775, 0) < 0)
		abort();
	item("shared/new", COVE_ADDED, S_IFDIR | 02755);
	passes("a directory that inherits its group");
	file_with("run.sh", COVE_ADDED, 0755, "#!/bin/sh\n", 10);
	passes("a script");
	file_with("prog", COVE_ADDED, 0755,
		  "\x7f"
		  "ELF\x02\x01",
		  6);
	refused("prog", "binary-executable", false, "ELF");
	file_with("prog.o", COVE_ADDED, 0644,
		  "\x7f"
		  "ELF\x02\x01",
		  6);
	passes("an object file");
	file_with("x", COVE_EDITED, 0644, "x", 1);
	t.changes[0].what |= COVE_WHAT_UNREADABLE;
	refused("x", "unreadable", true, "said the list");
	item("x", COVE_ADDED, S_IFREG | 0644);
	refused("x", "unreadable", true, "not staged");
}

static void sizes(void)
{
	struct gate_item *it = file("big", "x");

	it->size = (10u << 20) + 1;
	refused("big", "too-large", false, "one byte more");
	file("big", "x")->size = 10u << 20;
	passes("just so");
	item("giant", COVE_ADDED, S_IFREG | 0644)->size = 1ull << 45;
	refused("giant", "too-large", false, "a giant that was not staged");
	for (int i = 0; i < 11; i++) {
		static char names[11][16];

		snprintf(names[i], sizeof(names[i]), "f%d", i);
		file(names[i], "x")->size = 10u << 20;
	}
	refused("", "too-large-total", false, "all together");
	t.spec = json_pack("{s:i,s:i}", "maxFileMiB", 1, "maxTotalMiB", 2);
	file("m", "x")->size = (1u << 20) + 1;
	refused("m", "too-large", false, "the spec's own limit");
}

static void lists(void)
{
	t.spec = json_pack("{s:[s],s:[s]}", "allow", "src/**", "deny", "*.key");
	directory("src");
	file("src/a.c", "x");
	passes("what is allowed");
	t.spec = json_pack("{s:[s],s:[s]}", "allow", "src/**", "deny", "*.key");
	file("other.c", "x");
	refused("other.c", "not-allowed", false, "outside");
	t.spec = json_pack("{s:[s],s:[s]}", "allow", "src/**", "deny", "*.key");
	file("src/my.key", "x");
	refused("src/my.key", "denied", false, "a pattern");
	t.spec = json_pack("{s:[s],s:[s]}", "allow", "src/**", "deny", "*.key");
	item("lib/x.c", COVE_DELETED, 0);
	refused("lib/x.c", "not-allowed", false, "a deletion");
}

static void names(void)
{
	file("new\nline", "x");
	refused("new\nline", "name-control", true, "a newline");
	file_with("old\nline", COVE_EDITED, 0644, "x", 1);
	passes("a name that the host has");
	file("bad\xff", "x");
	refused("bad\xff", "name-encoding", true, "a byte");
	file("a\xe2\x80\xaetxt", "x");
	refused("a\xe2\x80\xaetxt", "name-invisible", true, "right to left");
	file("d\x1b[2J/x", "x");
	refused("d\x1b[2J", "name-control", true, "a directory that comes along");
	item("gone\n", COVE_DELETED, 0);
	passes("a deletion");
}

static void twins(void)
{
	host_file("README");
	file("readme", "x");
	refused("readme", "name-twin", true, "case, on the host");
	file("readme", "x");
	item("README", COVE_DELETED, 0);
	passes("the other one goes");
	file("Foo", "x");
	file("foo", "x");
	refused("foo", "name-twin", true, "both land");
	file("caf\xc3\xa9", "x");
	file("cafe\xcc\x81", "x");
	refused("caf\xc3\xa9", "name-twin", true, "Unicode form");
	host_dir("lib");
	file("LIB/x", "x");
	refused("LIB", "name-twin", true, "a directory above");
	file_with("README", COVE_EDITED, 0644, "x", 1);
	passes("the host's own name");
	file("lib/README", "x");
	file("lib/other", "x");
	passes("the same name elsewhere");
	host_file("Dup");
	host_file("dup");
	file_with("dup", COVE_EDITED, 0644, "x", 1);
	file("unrelated", "x");
	passes("twins that the host has anyway");
}

static void symlinks(void)
{
	symlink_to("l", "/etc/passwd");
	refused("l", "symlink-absolute", true, "absolute");
	symlink_to("l", "..");
	refused("l", "symlink-leaves", true, "the parent");
	symlink_to("a/b/l", "../../../x");
	refused("a/b/l", "symlink-leaves", true, "one too many");
	symlink_to("a/b/l", "../../x");
	passes("up to the mount");
	symlink_to("l", "src/x");
	passes("down");
	symlink_to("a/one", "two");
	symlink_to("a/two", "../../x");
	refused("a/one", "symlink-leaves", true, "chained");
	symlink_to("d", "sub/deep");
	symlink_to("sub/deep/x", "../..");
	symlink_to("l", "d/x/../y");
	refused("l", "symlink-leaves", true, "up after a symlink");
	symlink_to("l", "hostlink/passwd");
	refused("l", "symlink-leaves", true, "through a symlink of the host");
	symlink_to("l", "l");
	refused("l", "symlink-loop", true, "itself");
	symlink_to("l", "x/../y");
	refused("l", "symlink-detour", false, "a detour");
	symlink_to("log", ".git/hooks/post-checkout");
	refused("log", "symlink-to-executing", false, "into the hooks");
	symlink_to("shared", "x");
	t.changes[0].kind = COVE_RETYPED;
	t.changes[0].old.mode = S_IFDIR | 0755;
	refused("shared", "directory-to-symlink", false, "a directory");
	symlink_to("l", "a\x1b[2J");
	refused("l", "name-control", true, "in a target");
	symlink_to(".vscode", "src");
	refused(".vscode", "editor-task", false, "in place of a directory");
}

static void executing(void)
{
	file(".git/hooks/pre-commit", "x");
	refused(".git/hooks/pre-commit", "git-hook", false, "a hook");
	item(".husky/pre-push", COVE_DELETED, 0);
	refused(".husky/pre-push", "git-hook", false, "a hook that goes");
	file("sub/.ENVRC", "x");
	refused("sub/.ENVRC", "direnv", false, "another case");
	file(".git/objects/aa/1", "x");
	file(".git/objects/aa/2", "y");
	file(".git/HEAD", "ref: refs/heads/x\n");
	file("lib2/.git/HEAD", "ref: refs/heads/x\n");
	judge();
	OK(count() == 2 && finding(".git", "git-dir") && finding("lib2/.git", "git-dir"),
	   "one finding a repository: %zu", count());
	again();
	file("x/HEAD", "ref: refs/heads/x\n");
	directory("x/objects");
	directory("x/refs");
	file("x/config", "[core]\n\tfsmonitor = id\n");
	refused("x/config", "bare-repository", false, "without .git");
	file("x/HEAD", "ref: refs/heads/x\n");
	file("x/config", "[core]\n");
	passes("files of these names");
	file(".gitattributes", "*.c filter=evil\n");
	refused(".gitattributes", "git-driver", false, "a filter");
	file(".gitattributes", "*.c diff=cpp\n");
	passes("a driver of git's own");
}

/* ---- ids ------------------------------------------------------------------------ */

static void id_of(const char *path, const char *rule, char out[17])
{
	const struct finding *f;

	judge();
	f = finding(path, rule);
	snprintf(out, 17, "%s", f ? f->id : "");
}

static void acceptance(void)
{
	char id[17], other[17];

	file(".envrc", "one");
	id_of(".envrc", "direnv", id);
	OK(strlen(id) == 16 && strspn(id, "0123456789abcdef") == 16, "an id: %s", id);
	id_of(".envrc", "direnv", other);
	OK(strcmp(id, other) == 0, "it is the same the next time");
	t.accept[0] = "0000000000000000";
	t.accept[1] = id;
	judge();
	OK(count() == 0 && finding(".envrc", "direnv")->flags & COVE_FINDING_ACCEPTED,
	   "it is accepted");
	file("sub/.envrc", "one");
	judge();
	OK(count() == 1, "and no other path with it");
	again();
	file(".envrc", "two");
	t.accept[0] = id;
	judge();
	OK(count() == 1, "nor another content");
	again();
	file_with(".envrc", COVE_ADDED, 0755, "one", 3);
	t.accept[0] = id;
	judge();
	OK(count() == 1, "nor another mode");
	again();
	item("fifo", COVE_ADDED, S_IFIFO | 0600);
	id_of("fifo", "special-file", id);
	t.accept[0] = id;
	judge();
	OK(count() == 1 && t.found.open > 0, "a hard finding is not accepted");
	again();
	item("giant", COVE_ADDED, S_IFREG | 0644)->size = 1ull << 40;
	id_of("giant", "too-large", id);
	again();
	file("giant", "staged now")->size = 1ull << 40;
	id_of("giant", "too-large", other);
	OK(strcmp(id, other) == 0, "a giant's id does not depend on being staged");
	t.changes[0].new.ctime_ns++;
	id_of("giant", "too-large", other);
	OK(strcmp(id, other) != 0, "but on its last change");
	again();
}

static void order_and_bound(void)
{
	enum { MANY = GATE_FINDINGS_MAX + 50 };
	struct gate_item *items = calloc(MANY, sizeof(*items));
	struct change *changes = calloc(MANY, sizeof(*changes));
	char(*names)[24] = calloc(MANY, sizeof(*names));
	struct gate_config c = {0};
	struct cove_error err = {0};
	bool sorted = true;

	if (!items || !changes || !names)
		abort();
	for (size_t i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof(names[i]), "%05zu\x01", MANY - i);
		changes[i] = (struct change){.path = names[i], .kind = COVE_ADDED};
		items[i] = (struct gate_item){
			.change = &changes[i], .dir = -1, .mode = S_IFDIR | 0755};
	}
	findings_clear(&t.found);
	OK(gate_run(&t.layers, &c, items, MANY, &t.found, &err) == 0, "many findings");
	for (size_t i = 1; i < t.found.n; i++)
		sorted &= strcmp(t.found.v[i - 1].path, t.found.v[i].path) <= 0;
	OK(t.found.n == GATE_FINDINGS_MAX && sorted, "bounded and sorted");
	OK(finding("", "too-many-findings") &&
		   finding("", "too-many-findings")->flags & COVE_FINDING_HARD,
	   "and it says so");
	free(items);
	free(changes);
	free(names);
}

int main(void)
{
	start();
	paths();
	types();
	sizes();
	lists();
	names();
	twins();
	symlinks();
	executing();
	acceptance();
	order_and_bound();
	stop();
	return tap_done();
}
