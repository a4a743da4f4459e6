/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: directories wait on a stack until they are listed. Those near its
 * top keep their descriptors; the others are opened again by their path, so the number of
 * descriptors is bounded whatever tree the sandbox made. What vanishes in between was
 * removed by the sandbox and is passed over.
 */
#include "work/walk.h"

#include "base/buf.h"
#include "base/util.h"
#include "work/change.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>

#define HELD_MAX 64 /* descriptors that waiting directories keep */
#define PATH_BYTES_MAX ((CHANGE_DEPTH_MAX + 2) * 256)

struct pending {
	char *path;
	int up, low; /* -1: to be opened again, if has_* says there is one */
	bool has_up, has_low, hidden;
	unsigned depth;
};

struct walk {
	const struct layer *layer;
	int (*fn)(void *arg, const struct walk_entry *e);
	void *arg;
	uint32_t flags;
	struct pending *v;
	size_t n, cap, held;
	struct buf path;
};

/* ---- the stack ------------------------------------------------------------------ */

static void pending_clear(struct pending *p)
{
	free(p->path);
	close_fd(&p->up);
	close_fd(&p->low);
}

static void let_go(struct walk *w, struct pending *p)
{
	w->held -= (size_t)(p->up >= 0) + (size_t)(p->low >= 0);
	close_fd(&p->up);
	close_fd(&p->low);
}

/* Takes both descriptors, also on failure. */
static int push(struct walk *w, int up, int low, bool hidden, unsigned depth)
{
	struct pending p = {.path = strdup(w->path.data),
			    .up = up,
			    .low = low,
			    .has_up = up >= 0,
			    .has_low = low >= 0,
			    .hidden = hidden,
			    .depth = depth};
	struct pending *bigger = w->v;

	if (w->n == w->cap)
		bigger = reallocarray(w->v, w->cap * 2 + 64, sizeof(*w->v));
	if (!bigger || !p.path || w->n >= CHANGES_MAX) {
		pending_clear(&p);
		if (bigger)
			w->v = bigger;
		return w->n >= CHANGES_MAX ? -E2BIG : -ENOMEM;
	}
	if (w->n == w->cap)
		w->cap = w->cap * 2 + 64;
	w->v = bigger;
	w->held += (size_t)p.has_up + (size_t)p.has_low;
	if (w->held > HELD_MAX)
		let_go(w, &p);
	w->v[w->n++] = p;
	return 0;
}

static bool is_gone(int r)
{
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -ESTALE;
}

static int open_dir(int dir, const char *path)
{
	return open_beneath(dir, path, O_RDONLY | O_DIRECTORY);
}

/* The directory that is next, with its descriptors. -ENOENT: it vanished. */
static int pop(struct walk *w, struct pending *ret)
{
	struct pending *p = &w->v[--w->n];
	int r = 0;

	w->held -= (size_t)(p->up >= 0) + (size_t)(p->low >= 0);
	if (p->has_up && p->up < 0)
		r = p->up = open_dir(w->layer->upper, p->path);
	if (p->has_low && p->low < 0 && r >= 0) {
		r = p->low = open_dir(w->layer->lower, p->path);
		if (is_gone(r) && p->has_up)
			r = 0; /* the host's went away: then all of the upper is new */
	}
	if (r < 0) {
		pending_clear(p);
		return is_gone(r) || r == -EACCES ? -ENOENT : r;
	}
	*ret = *p;
	return 0;
}

/* ---- names in a directory ------------------------------------------------------- */

struct names {
	struct buf text; /* one after the other, each with its NUL */
	const char **v;  /* sorted */
	size_t n;
};

static void names_clear(struct names *n)
{
	buf_clear(&n->text);
	free(n->v);
}
#define cleanup_names __attribute__((cleanup(names_clear)))

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int names_fill(struct names *n, DIR *d)
{
	const struct dirent *e;

	while ((errno = 0, e = readdir(d))) {
		int r;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		r = n->n >= CHANGES_MAX
			    ? -E2BIG
			    : buf_append(&n->text, e->d_name, strlen(e->d_name) + 1);
		if (r < 0)
			return r;
		n->n++;
	}
	return errno ? -errno : 0;
}

static int names_read(struct names *n, int dir)
{
	int fd = fcntl(dir, F_DUPFD_CLOEXEC, 3), r;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const char *at;

	if (!d) {
		r = -errno;
		closep(&fd);
		return r;
	}
	r = names_fill(n, d);
	closedir(d);
	if (r < 0)
		return r == -ENOENT ? 0 : r; /* removed while it was open */
	n->v = calloc(n->n + 1, sizeof(*n->v));
	if (!n->v)
		return -ENOMEM;
	at = n->text.data;
	for (size_t i = 0; i < n->n; i++, at += strlen(at) + 1)
		n->v[i] = at;
	qsort(n->v, n->n, sizeof(*n->v), by_name);
	return 0;
}

static bool names_have(const struct names *n, const char *name)
{
	return n->n && bsearch(&name, n->v, n->n, sizeof(*n->v), by_name);
}

/* ---- one path ------------------------------------------------------------------- */

static int set_path(struct walk *w, const char *dir, const char *name)
{
	w->path.len = 0;
	if (strcmp(dir, ".") == 0)
		return buf_puts(&w->path, name);
	return buf_printf(&w->path, "%s/%s", dir, name);
}

static bool is_skipped(const struct walk *w)
{
	const char *path = w->path.data;

	return w->layer->n_skip && bsearch(&path, w->layer->skip, w->layer->n_skip,
					   sizeof(*w->layer->skip), by_name);
}

/* 0: found; 1: not there */
static int stat_at(int dir, const char *name, struct stat *st)
{
	if (dir >= 0 && fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	*st = (struct stat){0};
	return dir < 0 || errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG
		       ? 1
		       : -errno;
}

static void say(struct walk_entry *e, const char *side, int r)
{
	snprintf(e->why, sizeof(e->why), "%s: %s", side,
		 r == -EXDEV ? "another file system is mounted there" : strerror(-r));
}

/* A directory to go into, or -1 with e->why set; other failures end the walk. The search
 * permission is tried too: without it there are names but nothing else. */
static int enter(int dir, const char *name, const char *side, struct walk_entry *e,
		 int *ret)
{
	int fd = open_dir(dir, name);
	int r = fd;

	*ret = -1;
	if (fd >= 0 && geteuid() != 0 && faccessat(fd, ".", F_OK, 0) < 0) {
		r = -errno;
		close(fd);
	}
	if (r >= 0) {
		*ret = fd;
		return 0;
	}
	if (r != -EACCES && r != -EPERM && r != -EXDEV && r != -EAGAIN)
		return r;
	say(e, side, r);
	return 0;
}

static void too_deep(struct walk_entry *e, unsigned depth)
{
	if (depth > CHANGE_DEPTH_MAX)
		snprintf(e->why, sizeof(e->why), "deeper than %d directories",
			 CHANGE_DEPTH_MAX);
}

/* Host's path that is hidden; e->low is known. */
static int visit_gone(struct walk *w, const struct pending *p, struct walk_entry *e)
{
	int low = -1, r;

	e->up = (struct stat){0};
	e->hidden = true;
	if (S_ISDIR(e->low.st_mode)) {
		r = enter(p->low, e->name, "on the host", e, &low);
		if (r < 0)
			return is_gone(r) ? 0 : r;
		too_deep(e, p->depth);
	}
	r = w->fn(w->arg, e);
	if (r != WALK_ON || low < 0 || *e->why) {
		closep(&low);
		return r < 0 ? r : 0;
	}
	return push(w, -1, low, true, p->depth + 1);
}

static int visit_file(struct walk *w, const struct pending *p, struct walk_entry *e)
{
	cleanup_fd int low = -1;
	int r = S_ISREG(e->up.st_mode) ? attrs_look(p->up, e->name, false, &e->up_attrs)
				       : 0;

	if (is_gone(r))
		return 0;
	if (r < 0)
		say(e, "its attributes", r);
	if (*e->up_attrs.forged)
		snprintf(e->why, sizeof(e->why), "forged: %s", e->up_attrs.forged);
	e->hidden = true;
	if (S_ISDIR(e->low.st_mode)) {
		r = enter(p->low, e->name, "on the host", e, &low);
		if (r < 0 && !is_gone(r))
			return r;
		too_deep(e, p->depth);
	}
	r = w->fn(w->arg, e);
	if (r != WALK_ON || low < 0 || p->depth > CHANGE_DEPTH_MAX)
		return r < 0 ? r : 0;
	return push(w, -1, take_fd(&low), true, p->depth + 1);
}

static int look_at_dir(struct walk_entry *e, int up, unsigned depth)
{
	int r = up < 0 ? 0 : attrs_look(up, NULL, true, &e->up_attrs);

	if (r < 0)
		return r;
	if (*e->up_attrs.forged)
		snprintf(e->why, sizeof(e->why), "forged: %s", e->up_attrs.forged);
	if (e->up_attrs.opaque)
		e->hidden = true;
	too_deep(e, depth);
	return 0;
}

static int visit_dir(struct walk *w, const struct pending *p, struct walk_entry *e)
{
	cleanup_fd int up = -1, low = -1;
	int r = enter(p->up, e->name, "in the sandbox", e, &up);

	if (r < 0)
		return is_gone(r) ? 0 : r;
	if (S_ISDIR(e->low.st_mode)) {
		r = enter(p->low, e->name, "on the host", e, &low);
		if (r < 0 && !is_gone(r))
			return r;
	}
	e->hidden = p->hidden;
	r = look_at_dir(e, up, p->depth);
	if (r < 0)
		return r;
	r = w->fn(w->arg, e);
	if (r != WALK_ON || up < 0 || p->depth > CHANGE_DEPTH_MAX ||
	    (S_ISDIR(e->low.st_mode) && low < 0))
		return r < 0 ? r : 0;
	return push(w, take_fd(&up), take_fd(&low), e->hidden, p->depth + 1);
}

static bool is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

/* name is in the upper directory, or (in_upper false) only in a host directory that is
 * hidden. */
static int visit(struct walk *w, const struct pending *p, const char *name, bool in_upper)
{
	struct walk_entry e = {.name = name, .up_dir = p->up, .low_dir = p->low};
	int r = set_path(w, p->path, name);

	if (r < 0)
		return r;
	if (is_skipped(w))
		return 0;
	e.path = w->path.data;
	if (in_upper) {
		r = stat_at(p->up, name, &e.up);
		if (r != 0)
			return r < 0 ? r : 0;
	}
	r = stat_at(p->low, name, &e.low);
	if (r < 0)
		say(&e, "on the host", r);
	if (!in_upper || is_whiteout(&e.up))
		return e.low.st_mode ? visit_gone(w, p, &e) : 0;
	return S_ISDIR(e.up.st_mode) ? visit_dir(w, p, &e) : visit_file(w, p, &e);
}

/* ---- the whole ------------------------------------------------------------------ */

static int list_one(struct walk *w, const struct pending *p)
{
	cleanup_names struct names up = {.text = BUF_INIT(CHANGES_MAX * (size_t)256)};
	cleanup_names struct names low = {.text = BUF_INIT(CHANGES_MAX * (size_t)256)};
	int r = p->up < 0 ? 0 : names_read(&up, p->up);

	for (size_t i = 0; r == 0 && i < up.n; i++)
		r = visit(w, p, up.v[i], true);
	if (r < 0 || !p->hidden || p->low < 0)
		return r;
	r = names_read(&low, p->low);
	for (size_t i = 0; r == 0 && i < low.n; i++)
		if (!names_have(&up, low.v[i]))
			r = visit(w, p, low.v[i], false);
	return r;
}

static int start(struct walk *w)
{
	const struct layer *l = w->layer;
	struct pending top = {.up = l->upper, .low = l->lower};
	struct walk_entry e = {
		.path = ".", .name = ".", .up_dir = l->upper, .low_dir = l->lower};
	int r = buf_puts(&w->path, ".");

	if (r < 0)
		return r;
	if (fstat(l->upper, &e.up) < 0 || fstat(l->lower, &e.low) < 0)
		return -errno;
	return visit_dir(w, &top, &e);
}

int walk_layer(const struct layer *l, int (*fn)(void *arg, const struct walk_entry *e),
	       void *arg, uint32_t flags)
{
	struct walk w = {.layer = l,
			 .fn = fn,
			 .arg = arg,
			 .flags = flags,
			 .path = BUF_INIT(PATH_BYTES_MAX)};
	int r = l->upper < 0 ? 0 : start(&w);

	while (r == 0 && w.n) {
		struct pending p;

		r = pop(&w, &p);
		if (r == -ENOENT) {
			r = 0;
			continue;
		}
		if (r < 0)
			break;
		r = list_one(&w, &p);
		pending_clear(&p);
	}
	while (w.n)
		pending_clear(&w.v[--w.n]);
	free(w.v);
	buf_clear(&w.path);
	return r;
}
