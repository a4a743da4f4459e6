/* SPDX-License-Identifier: Apache-2.0 */
#include "core/guard.h"

#include "base/util.h"
#include "core/quarantine.h"
#include "work/gate.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/syscall.h>

#define REPOS_MAX 32     /* nested repositories that are guarded */
#define ENTRIES_MAX 4000 /* directory entries looked at to find them */
#define LINKS_MAX 8      /* symlinks on the way to one path */

enum state { ABSENT, HELD, LOOSE };

struct watch {
	char *path; /* below the mount */
	enum state state;
	struct ident id;
};

struct guard_mount {
	size_t index; /* in spec.mounts */
	int dir;
	char *source;
	const struct spec_strings *unprotect; /* during the making only */
	struct watch *v;
	size_t n;
	struct place_guard *guards;
	size_t n_guards;
};

struct guards {
	struct guard_mount v[SPEC_LIST_MAX];
	size_t n;
};

/* ---- the two lists of a mount --------------------------------------------------- */

static int add_watch(struct guard_mount *m, const char *path, enum state state,
		     const struct stat *st)
{
	struct watch *v;
	char *copy;

	for (size_t i = 0; i < m->n; i++)
		if (strcmp(m->v[i].path, path) == 0)
			return 0;
	v = reallocarray(m->v, m->n + 1, sizeof(*v));
	copy = v ? strdup(path) : NULL;
	if (v)
		m->v = v;
	if (!copy)
		return -ENOMEM;
	v[m->n] = (struct watch){.path = copy, .state = state};
	if (st)
		ident_from(&v[m->n].id, st);
	m->n++;
	return 0;
}

/* Held wins over pinned. Takes n bytes of path. */
static int add_guard(struct guard_mount *m, const char *path, size_t n, bool pin)
{
	struct place_guard *v;
	char *copy = strndup(path, n);

	for (size_t i = 0; copy && i < m->n_guards; i++)
		if (strcmp(m->guards[i].path, copy) == 0) {
			m->guards[i].pin &= pin;
			free(copy);
			return 0;
		}
	v = reallocarray(m->guards, m->n_guards + 1, sizeof(*v));
	if (v)
		m->guards = v;
	if (!v || !copy) {
		free(copy);
		return -ENOMEM;
	}
	v[m->n_guards++] = (struct place_guard){copy, pin};
	return 0;
}

static int hold(struct guard_mount *m, const char *path, const struct stat *st)
{
	/* A file with other names could be written by one of those. */
	bool loose = S_ISREG(st->st_mode) && st->st_nlink > 1;
	int r = add_watch(m, path, loose ? LOOSE : HELD, st);

	for (const char *s = strchr(path, '/'); s && r == 0; s = strchr(s + 1, '/'))
		r = add_guard(m, path, (size_t)(s - path), true);
	return r < 0 ? r : add_guard(m, path, strlen(path), false);
}

/* ---- looking at the start ------------------------------------------------------- */

/* Where it leads, if that is within the mount: -EXDEV if it is not. */
static int resolve_within(const struct guard_mount *m, const char *path, char *out,
			  size_t size)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC,
			       .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
	char proc[64], base[PATH_MAX], full[PATH_MAX];
	cleanup_fd int fd = (int)syscall(SYS_openat2, m->dir, path, &how, sizeof(how));
	ssize_t nb, nf;

	if (fd < 0)
		return -errno;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", m->dir);
	nb = readlink(proc, base, sizeof(base) - 1);
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	nf = readlink(proc, full, sizeof(full) - 1);
	if (nb <= 0 || nf <= 0)
		return -errno;
	base[nb] = full[nf] = '\0';
	if (!spec_path_below(full, base) || nf <= nb + 1)
		return -EXDEV;
	return snprintf(out, size, "%s", full + nb + 1) < (int)size ? 0 : -ENAMETOOLONG;
}

static int refuse(const struct guard_mount *m, const char *path, int e, const char *why,
		  struct cove_error *err)
{
	fail(err, COVE_EDENIED, e, "mounts: %s/%s %s", m->source, path, why);
	return hint(err, "name it in unprotect, or mount it as overlay");
}

static int look(struct guard_mount *m, const char *path, int links,
		struct cove_error *err);

/* The first n bytes of path are a symlink. It stays as it is and is watched; what it
 * leads to is guarded in its own place. */
static int look_behind(struct guard_mount *m, const char *path, size_t n,
		       const struct stat *st, int links, struct cove_error *err)
{
	char link[PATH_MAX], real[PATH_MAX], full[2 * PATH_MAX];
	int r;

	snprintf(link, sizeof(link), "%.*s", (int)n, path);
	if (add_watch(m, link, LOOSE, st) < 0)
		return fail_nomem(err);
	r = resolve_within(m, link, real, sizeof(real));
	if (r == -ENOENT)
		return 0; /* it leads nowhere, and what appears there changes nothing */
	if (r < 0 || links >= LINKS_MAX)
		return refuse(m, link, 0, "is a symlink that leaves the mount", err);
	snprintf(full, sizeof(full), "%s%s", real, path + n);
	return look(m, full, links + 1, err);
}

static int look(struct guard_mount *m, const char *path, int links,
		struct cove_error *err)
{
	for (const char *end = path; end;) {
		char part[PATH_MAX];
		struct stat st;
		int r;

		end = strchr(end + 1, '/');
		snprintf(part, sizeof(part), "%.*s",
			 (int)(end ? (size_t)(end - path) : strlen(path)), path);
		cleanup_fd int fd = open_beneath(m->dir, part, O_PATH);
		if (fd == -ENOENT || fd == -ENOTDIR)
			return add_watch(m, path, ABSENT, NULL) < 0 ? fail_nomem(err) : 0;
		if (fd < 0 || fstat(fd, &st) < 0)
			return refuse(m, part, fd < 0 ? -fd : errno,
				      "cannot be protected", err);
		if (S_ISLNK(st.st_mode))
			return look_behind(m, path, strlen(part), &st, links, err);
		if (end && S_ISDIR(st.st_mode))
			continue;
		/* The path itself, or a file where it needs a directory (.git of a
		 * worktree): that is as good. */
		r = S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)
			    ? hold(m, part, &st)
			    : add_watch(m, part, LOOSE, &st);
		return r < 0 ? fail_nomem(err) : 0;
	}
	return 0;
}

static bool unprotected(const struct guard_mount *m, const char *path)
{
	for (size_t i = 0; i < m->unprotect->n; i++) {
		const char *name = m->unprotect->v[i];
		size_t n;

		while (strncmp(name, "./", 2) == 0)
			name += 2;
		n = strlen(name);
		while (n && name[n - 1] == '/')
			n--;
		if (strncmp(path, name, n) == 0 && (path[n] == '/' || path[n] == '\0'))
			return true;
	}
	return false;
}

/* Every fixed path below base ("" or "sub/"). */
static int look_all(struct guard_mount *m, const char *base, struct cove_error *err)
{
	char path[PATH_MAX];

	for (const char *const *f = gate_fixed_paths(); *f; f++) {
		if (snprintf(path, sizeof(path), "%s%s", base, *f) >= (int)sizeof(path))
			continue;
		if (!unprotected(m, path) && look(m, path, 0, err) < 0)
			return err->code;
	}
	return 0;
}

/* A mount of ".git" itself has ".git/hooks" as "hooks". */
static int look_inside(struct guard_mount *m, struct cove_error *err)
{
	const char *slash = strrchr(m->source, '/');
	const char *name = slash ? slash + 1 : m->source;
	size_t n = strlen(name);

	for (const char *const *f = gate_fixed_paths(); n && *f; f++)
		if (strncmp(*f, name, n) == 0 && (*f)[n] == '/' &&
		    !unprotected(m, *f + n + 1) && look(m, *f + n + 1, 0, err) < 0)
			return err->code;
	return 0;
}

/* ---- nested repositories -------------------------------------------------------- */

struct search {
	unsigned entries, repos;
};

static int find_repos(struct guard_mount *m, struct search *s, const char *base,
		      int depth, struct cove_error *err)
{
	int fd = open_beneath(m->dir, *base ? base : ".", O_RDONLY | O_DIRECTORY);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	int r = 0;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	while (r == 0 && s->entries < ENTRIES_MAX && (e = readdir(d))) {
		char path[PATH_MAX];
		struct stat st;

		s->entries++;
		if (e->d_name[0] == '.' || strcmp(e->d_name, "node_modules") == 0 ||
		    (e->d_type != DT_DIR && e->d_type != DT_UNKNOWN) ||
		    snprintf(path, sizeof(path), "%s%s/.git", base, e->d_name) >=
			    (int)sizeof(path))
			continue;
		bool repo = fstatat(dirfd(d), path + strlen(base), &st,
				    AT_SYMLINK_NOFOLLOW) == 0;
		path[strlen(path) - 4] = '\0'; /* "x/" */
		if (repo && s->repos++ < REPOS_MAX)
			r = look_all(m, path, err);
		if (r == 0 && depth > 1)
			r = find_repos(m, s, path, depth - 1, err);
	}
	closedir(d);
	return r;
}

/* ---- making and releasing ------------------------------------------------------- */

static int by_path(const void *a, const void *b)
{
	const struct place_guard *x = a, *y = b;

	return strcmp(x->path, y->path);
}

static int make_one(struct guard_mount *m, size_t i, const struct spec_mount *sm,
		    struct cove_error *err)
{
	struct search s = {0};

	m->index = i;
	m->unprotect = &sm->unprotect;
	m->source = strdup(sm->source);
	if (!m->source)
		return fail_nomem(err);
	if (look_all(m, "", err) < 0 || look_inside(m, err) < 0 ||
	    find_repos(m, &s, "", 2, err) < 0)
		return err->code;
	if (m->n_guards)
		qsort(m->guards, m->n_guards, sizeof(*m->guards), by_path);
	return 0;
}

int guards_make(struct guards **ret, const struct spec *s, struct cove_error *err)
{
	struct guards *g = NULL;
	int r = 0;

	for (size_t i = 0; r == 0 && i < s->n_mounts; i++) {
		cleanup_fd int dir = -1;

		if (s->mounts[i].mode != MOUNT_RW)
			continue;
		dir = open(s->mounts[i].source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (dir < 0 && errno == ENOTDIR)
			continue; /* a single file */
		if (!g)
			g = calloc(1, sizeof(*g));
		if (dir < 0) {
			r = fail(err, COVE_EIO, errno, "mounts: %s", s->mounts[i].source);
		} else if (!g) {
			r = fail_nomem(err);
		} else {
			g->v[g->n].dir = take_fd(&dir);
			r = make_one(&g->v[g->n++], i, &s->mounts[i], err);
		}
	}
	if (r < 0)
		guards_free(g);
	else
		*ret = g;
	return r;
}

void guards_free(struct guards *g)
{
	for (size_t i = 0; g && i < g->n; i++) {
		struct guard_mount *m = &g->v[i];

		for (size_t k = 0; k < m->n; k++)
			free(m->v[k].path);
		for (size_t k = 0; k < m->n_guards; k++)
			free((char *)(uintptr_t)m->guards[k].path);
		free(m->v);
		free(m->guards);
		free(m->source);
		close_fd(&m->dir);
	}
	free(g);
}

const struct place_guard *guards_of(const struct guards *g, size_t i, size_t *ret_n)
{
	for (size_t k = 0; g && k < g->n; k++)
		if (g->v[k].index == i) {
			*ret_n = g->v[k].n_guards;
			return g->v[k].guards;
		}
	*ret_n = 0;
	return NULL;
}

/* ---- looking again -------------------------------------------------------------- */

struct check {
	struct store *st;
	const char *box;
	unsigned taken;
};

static void take(struct check *c, const struct guard_mount *m, const char *path,
		 const char *why)
{
	char full[2 * PATH_MAX];
	const char *name;
	cleanup_fd int dir = open_parent(m->dir, path, &name);

	snprintf(full, sizeof(full), "%s/%s", m->source, path);
	if (dir >= 0 && quarantine_take(c->st, c->box, m->dir, dir, name, full, why) == 0)
		c->taken++;
}

/* The first part of the path that is not a directory, or the path itself: that is what
 * appeared. A directory on the way is no harm by itself. */
static void check_absent(struct check *c, const struct guard_mount *m,
			 const struct watch *w)
{
	for (const char *end = w->path; end;) {
		char part[PATH_MAX];
		struct stat st;

		end = strchr(end + 1, '/');
		snprintf(part, sizeof(part), "%.*s",
			 (int)(end ? (size_t)(end - w->path) : strlen(w->path)), w->path);
		cleanup_fd int fd = open_beneath(m->dir, part, O_PATH);
		if (fd < 0 || fstat(fd, &st) < 0)
			return;
		if (end && S_ISDIR(st.st_mode))
			continue;
		take(c, m, part, "appeared where the host runs it");
		return;
	}
}

static void check_there(struct check *c, const struct guard_mount *m, struct watch *w)
{
	cleanup_fd int fd = open_beneath(m->dir, w->path, O_PATH);
	char full[2 * PATH_MAX];
	struct ident now;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0) {
		w->state = ABSENT; /* gone: what comes in its place is new */
		check_absent(c, m, w);
		return;
	}
	ident_from(&now, &st);
	if (w->state == LOOSE) {
		if (ident_same(&now, &w->id))
			return;
		take(c, m, w->path, "changed, and could not be protected");
		w->state = ABSENT;
	} else if (now.dev != w->id.dev || now.ino != w->id.ino) {
		/* Only the host can have done it, and since then it was not held. */
		snprintf(full, sizeof(full), "%s/%s", m->source, w->path);
		quarantine_note(c->st, c->box, full,
				"was replaced on the host while the sandbox ran, which "
				"ended its protection; look at it");
		w->id = now;
	}
}

unsigned guards_check(struct guards *g, struct store *st, const char *box)
{
	struct check c = {.st = st, .box = box};

	for (size_t i = 0; g && i < g->n; i++)
		for (size_t k = 0; k < g->v[i].n; k++) {
			struct watch *w = &g->v[i].v[k];

			if (w->state == ABSENT)
				check_absent(&c, &g->v[i], w);
			else
				check_there(&c, &g->v[i], w);
		}
	return c.taken;
}
