/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mutate_edit - random edits of the tree in the working directory.
 *
 * Every operation picks from a sorted list of what is there, so the order in which a file
 * system returns names plays no part. Names never differ by case alone, modes leave the
 * owner his rights, and symlinks point at a neighbour: what a careful agent would do, and
 * a gate lets through.
 */
#include "mutate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t state;     /* of the random numbers */
static unsigned long made; /* names so far; each is new */
static struct tree now;    /* what is there, as of this operation */

static uint64_t next(void)
{
	uint64_t z = (state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static size_t below(size_t n)
{
	return n ? next() % n : 0;
}

/* ---- names and contents ---------------------------------------------------------- */

static void new_name(char *out, size_t size)
{
	static const char *const before[] = {
		"file",   "with space ", "it's ",  "quo\"te",   "back\\slash", "-dash",
		"über",   "日本",        "per%s",  "$(dollar)", "star*",       "[set]",
		".dot",   "#hash",       "semi;",  "a&b",       "~tilde",      "{b}",
		"equ=al", "comma,",      "co:lon", "plus+",     "longish"};
	static const char *const after[] = {"", ".c", ".txt", ".tar.gz", ".md", "x"};
	const char *b = before[below(sizeof(before) / sizeof(*before))];
	const char *a = after[below(sizeof(after) / sizeof(*after))];
	char fill[201] = "";

	if (strcmp(b, "longish") == 0) {
		memset(fill, 'n', sizeof(fill) - 1);
		fill[sizeof(fill) - 1] = '\0';
	}
	snprintf(out, size, "%s%lu%s%s", b, made++, fill, a);
}

/* Lines of text, or bytes of any kind; *ret_n may be 0. */
static char *new_content(size_t *ret_n)
{
	static const char *const words[] = {"river",  "stone", "cloud",  "garden",
					    "window", "paper", "yellow", "return",
					    "branch", "forest"};
	static const size_t sizes[] = {0, 1, 40, 300, 3000, 4096, 9000, 70000};
	size_t want = sizes[below(sizeof(sizes) / sizeof(*sizes))], n = 0;
	bool text = below(4) != 0;
	char *out = malloc(want + 64);

	if (!out)
		die("memory for", "content");
	while (n < want) {
		if (text)
			n += (size_t)snprintf(out + n, 32, "%s %s %u%s", words[below(10)],
					      words[below(10)], (unsigned)below(100),
					      below(20) ? "\n" : "\r\n");
		else
			out[n++] = (char)next();
	}
	*ret_n = n;
	return out;
}

static mode_t new_mode(void)
{
	static const mode_t modes[] = {0644, 0644, 0644, 0600, 0640, 0664,
				       0755, 0700, 0444, 0400, 0555};

	return modes[below(sizeof(modes) / sizeof(*modes))];
}

/* ---- picking --------------------------------------------------------------------- */

/* One of the kind that is there, or NULL. */
static const struct entry *pick(mode_t type)
{
	size_t n = 0, want;

	for (size_t i = 0; i < now.n; i++)
		n += (now.v[i].st.st_mode & S_IFMT) == type;
	if (n == 0)
		return NULL;
	want = below(n);
	for (size_t i = 0; i < now.n; i++)
		if ((now.v[i].st.st_mode & S_IFMT) == type && want-- == 0)
			return &now.v[i];
	return NULL;
}

static bool is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* A new path in one of the directories, or at the top; not below `avoid`. */
static bool new_path(char *out, const char *avoid)
{
	const struct entry *dir = below(4) ? pick(S_IFDIR) : NULL;
	char name[256];

	new_name(name, sizeof(name));
	if (dir && avoid && is_below(dir->path, avoid))
		dir = NULL;
	return snprintf(out, PATH_SIZE, "%s%s%s", dir ? dir->path : "", dir ? "/" : "",
			name) < 1500;
}

static bool has_hard_links(const char *dir)
{
	for (size_t i = 0; i < now.n; i++)
		if (is_below(now.v[i].path, dir) && S_ISREG(now.v[i].st.st_mode) &&
		    now.v[i].st.st_nlink > 1)
			return true;
	return false;
}

/* ---- operations ------------------------------------------------------------------ */

static void create_at(const char *path)
{
	size_t n;
	char *data = new_content(&n);

	put_file(path, data, n, new_mode());
	free(data);
}

static void fill_dir(const char *path)
{
	char name[300], file[PATH_SIZE];

	if (mkdir(path, below(3) ? 0755 : 0750) < 0)
		die("mkdir", path);
	for (size_t i = below(4); i > 0; i--) {
		new_name(name, sizeof(name));
		if (snprintf(file, sizeof(file), "%s/%s", path, name) < 0)
			die("path", path);
		create_at(file);
	}
}

static void op_create(void)
{
	char path[PATH_SIZE];

	if (new_path(path, NULL))
		create_at(path);
}

static void op_mkdir(void)
{
	char path[PATH_SIZE];

	if (new_path(path, NULL))
		fill_dir(path);
}

/* A file that its owner may write; the mode is put back. */
static int open_for_edit(const struct entry *e)
{
	int fd;

	if (!(e->st.st_mode & 0200) && chmod(e->path, 0600) < 0)
		die("chmod", e->path);
	fd = open(e->path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fchmod(fd, e->st.st_mode & 07777) < 0)
		die("open", e->path);
	return fd;
}

static void op_edit(void)
{
	const struct entry *e = pick(S_IFREG);
	size_t n;
	char *data;
	int fd;

	if (!e)
		return;
	data = new_content(&n);
	fd = open_for_edit(e);
	if (pwrite(fd, data, n, (off_t)below((size_t)e->st.st_size + 1)) != (ssize_t)n)
		die("edit", e->path);
	close(fd);
	free(data);
}

static void op_append(void)
{
	const struct entry *e = pick(S_IFREG);
	int fd;

	if (!e)
		return;
	fd = open_for_edit(e);
	if (pwrite(fd, "one more line\n", 14, e->st.st_size) != 14)
		die("append to", e->path);
	close(fd);
}

static void op_truncate(void)
{
	const struct entry *e = pick(S_IFREG);
	int fd;

	if (!e)
		return;
	fd = open_for_edit(e);
	if (ftruncate(fd, (off_t)below((size_t)e->st.st_size + 1)) < 0)
		die("truncate", e->path);
	close(fd);
}

/* As an editor saves: a new file takes the place of the old. */
static void op_replace(void)
{
	const struct entry *e = pick(S_IFREG);
	char temp[PATH_SIZE];
	size_t n;
	char *data;

	if (!e || strlen(e->path) > 2000)
		return;
	if (snprintf(temp, sizeof(temp), "%s.new~", e->path) < 0 ||
	    strlen(strrchr(temp, '/') ? strrchr(temp, '/') : temp) > 250)
		return;
	data = new_content(&n);
	put_file(temp, data, n, below(2) ? e->st.st_mode & 07777 : new_mode());
	if (rename(temp, e->path) < 0)
		die("rename", temp);
	free(data);
}

static void op_rename(void)
{
	const struct entry *e = pick(below(5) ? S_IFREG : S_IFLNK);
	char to[PATH_SIZE];

	if (e && new_path(to, NULL) && rename(e->path, to) < 0)
		die("rename", e->path);
}

static void op_rename_over(void)
{
	const struct entry *a = pick(S_IFREG), *b = pick(S_IFREG);

	if (a && b && rename(a->path, b->path) < 0)
		die("rename", a->path);
}

/* Overlays refuse to rename a directory of the lower layer; mv(1) then copies. */
static void op_rename_dir(void)
{
	const struct entry *e = pick(S_IFDIR);
	char to[PATH_SIZE];

	if (!e || has_hard_links(e->path) || !new_path(to, e->path))
		return;
	if (rename(e->path, to) == 0)
		return;
	if (errno != EXDEV)
		die("rename", e->path);
	copy_tree(e->path, to);
	remove_tree(e->path);
}

static void op_delete(void)
{
	const struct entry *e = pick(below(6) ? S_IFREG : S_IFLNK);

	if (e)
		remove_tree(e->path);
}

static void op_delete_dir(void)
{
	const struct entry *e = pick(S_IFDIR);

	if (e)
		remove_tree(e->path);
}

/* Deleted and made again: an opaque directory in an upper layer. */
static void op_remake_dir(void)
{
	const struct entry *e = pick(S_IFDIR);

	if (!e)
		return;
	remove_tree(e->path);
	fill_dir(e->path);
}

static void op_chmod(void)
{
	const struct entry *e = pick(S_IFREG);

	if (e && chmod(e->path, new_mode()) < 0)
		die("chmod", e->path);
}

static void op_chmod_dir(void)
{
	static const mode_t modes[] = {0755, 0750, 0700, 0775};
	const struct entry *e = pick(S_IFDIR);

	if (e && chmod(e->path, modes[below(4)]) < 0)
		die("chmod", e->path);
}

/* The name of a file, or one that is not there; never `path` itself. */
static void link_target(char *out, size_t size, const char *path)
{
	const struct entry *e = below(3) ? pick(S_IFREG) : NULL;
	const char *base = e ? strrchr(e->path, '/') : NULL;

	if (e && path && strcmp(e->path, path) == 0)
		e = NULL;
	snprintf(out, size, "%.250s", !e ? "missing" : base ? base + 1 : e->path);
}

static void op_symlink(void)
{
	char target[256], path[PATH_SIZE];

	link_target(target, sizeof(target), NULL);
	if (new_path(path, NULL) && symlink(target, path) < 0)
		die("symlink", path);
}

static void op_retarget(void)
{
	const struct entry *e = pick(S_IFLNK);
	char target[256];

	link_target(target, sizeof(target), NULL);
	if (e && (unlink(e->path) < 0 || symlink(target, e->path) < 0))
		die("symlink", e->path);
}

static void op_hard_link(void)
{
	const struct entry *e = pick(S_IFREG);
	char to[PATH_SIZE];

	if (e && new_path(to, NULL) && link(e->path, to) < 0)
		die("link", e->path);
}

/* What is there becomes something of another type. */
static void op_retype(void)
{
	static const mode_t types[] = {S_IFREG, S_IFDIR, S_IFLNK};
	mode_t from = types[below(3)], to = types[below(3)];
	const struct entry *e = pick(from);
	char target[256];

	if (!e || from == to)
		return;
	remove_tree(e->path);
	link_target(target, sizeof(target), e->path);
	if (to == S_IFDIR)
		fill_dir(e->path);
	else if (to == S_IFREG)
		create_at(e->path);
	else if (symlink(target, e->path) < 0)
		die("symlink", e->path);
}

/* ---- scripts --------------------------------------------------------------------- */

static const struct {
	void (*run)(void);
	unsigned weight;
} ops[] = {
	{op_create,      10},
        {op_mkdir,       4 },
        {op_edit,        8 },
        {op_append,      5 },
	{op_truncate,    3 },
        {op_replace,     6 },
        {op_rename,      6 },
        {op_rename_over, 2 },
	{op_rename_dir,  3 },
        {op_delete,      6 },
        {op_retype,      5 },
        {op_delete_dir,  2 },
	{op_chmod,       4 },
        {op_remake_dir,  3 },
        {op_symlink,     3 },
        {op_retarget,    2 },
	{op_hard_link,   2 },
        {op_chmod_dir,   2 },
};

static void run_one(bool links)
{
	unsigned all = 0, at;

	for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++)
		all += ops[i].weight;
	at = (unsigned)below(all);
	for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
		if (at < ops[i].weight) {
			if (links || ops[i].run != op_hard_link)
				ops[i].run();
			return;
		}
		at -= ops[i].weight;
	}
}

int edit(uint64_t seed, unsigned long n, bool links)
{
	state = seed;
	made = 1000 + seed % 1000 * 1000; /* not the names of another script */
	for (unsigned long i = 0; i < n; i++) {
		tree_read(&now, ".");
		run_one(links);
		tree_free(&now);
	}
	return 0;
}

int make_tree(uint64_t seed, unsigned long files)
{
	state = seed ^ 0x5eed;
	for (unsigned long i = 0; i < files; i++) {
		tree_read(&now, ".");
		switch (below(10)) {
		case 0:
		case 1:
			op_mkdir();
			break;
		case 2:
			op_symlink();
			break;
		default:
			op_create();
		}
		tree_free(&now);
	}
	return 0;
}
