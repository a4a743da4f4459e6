/* SPDX-License-Identifier: Apache-2.0 */
#include "os/treewalk.h"

#include "base/util.h"
#include "os/reach.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/syscall.h>

#define KEEP_OPEN 24
#define LISTING_MAX (1u << 30)
#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* ---- a way down ----------------------------------------------------------------- */

struct dirlevel {
	int fd; /* -1: closed for now */
	dev_t dev;
	ino_t ino;
};

void dirstack_clear(struct dirstack *s)
{
	for (size_t i = 0; i < s->n; i++)
		close_fd(&s->v[i].fd);
	free(s->v);
	*s = (struct dirstack){0};
}

int dirstack_push(struct dirstack *s, int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0) {
		int r = -errno;

		close(fd);
		return r;
	}
	if (s->n == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 32;
		struct dirlevel *v = realloc(s->v, cap * sizeof(*v));

		if (!v) {
			close(fd);
			return -ENOMEM;
		}
		s->v = v;
		s->cap = cap;
	}
	s->v[s->n++] = (struct dirlevel){fd, st.st_dev, st.st_ino};
	/* The first stays open: it is the caller's way in. */
	if (s->n > KEEP_OPEN + 1)
		close_fd(&s->v[s->n - KEEP_OPEN].fd);
	return 0;
}

static int reopen(struct dirlevel *up, int below)
{
	cleanup_fd int fd = reach_openat(below, "..", OPEN_DIR);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_dev != up->dev || st.st_ino != up->ino)
		return -ESTALE;
	up->fd = take_fd(&fd);
	return 0;
}

int dirstack_pop(struct dirstack *s)
{
	struct dirlevel *top = &s->v[--s->n];
	int r = 0;

	if (s->n && s->v[s->n - 1].fd < 0)
		r = reopen(&s->v[s->n - 1], top->fd);
	close_fd(&top->fd);
	return r;
}

int dirstack_top(const struct dirstack *s)
{
	return s->v[s->n - 1].fd;
}

/* ---- the walk ------------------------------------------------------------------- */

struct entry64 { /* what getdents64 gives */
	uint64_t ino;
	int64_t off;
	uint16_t len;
	uint8_t type;
	char name[];
};

/* A directory that was entered: its listing, read at once, and where we are in it. */
struct level {
	char *listing;
	size_t len, pos;
	size_t path_len, name_at; /* of the path of this directory */
	struct stat st;
};

struct walk {
	const struct tree_ops *ops;
	void *arg;
	struct dirstack dirs;
	struct level *v;
	size_t n, cap;
	struct buf *path, scratch;
	dev_t dev;
};

static int read_dir(int fd, struct buf *out)
{
	out->len = 0;
	for (;;) {
		int r = buf_reserve(out, 16384);
		long n;

		if (r < 0)
			return r;
		n = syscall(SYS_getdents64, fd, out->data + out->len,
			    out->cap - out->len - 1);
		if (n <= 0)
			return n < 0 ? -errno : 0;
		out->len += (size_t)n;
	}
}

/* Through a buffer that is used again: many listings may be held at a time, each no
 * larger than it must be. */
static int list_dir(struct walk *w, int fd, struct level *l)
{
	int r = read_dir(fd, &w->scratch);

	if (r < 0)
		return r;
	l->listing = malloc(w->scratch.len + 1);
	if (!l->listing)
		return -ENOMEM;
	memcpy(l->listing, w->scratch.data, w->scratch.len);
	l->len = w->scratch.len;
	return 0;
}

static const char *next_name(struct level *l)
{
	while (l->pos < l->len) {
		const struct entry64 *e = (const void *)(l->listing + l->pos);

		l->pos += e->len;
		if (strcmp(e->name, ".") != 0 && strcmp(e->name, "..") != 0)
			return e->name;
	}
	return NULL;
}

static int grow(struct walk *w)
{
	size_t cap = w->cap ? w->cap * 2 : 32;
	struct level *v;

	if (w->n < w->cap)
		return 0;
	v = realloc(w->v, cap * sizeof(*v));
	if (!v)
		return -ENOMEM;
	w->v = v;
	w->cap = cap;
	return 0;
}

/* Takes fd. dir: where it is; name_at: of the last part of w->path. */
static int enter(struct walk *w, int dir, int fd, const struct stat *st, size_t name_at)
{
	struct tree_entry e = {.dir = dir,
			       .name = w->path->data + name_at,
			       .path = w->path->data,
			       .path_len = w->path->len,
			       .st = st,
			       .fd = fd};
	struct level *l;
	bool hollow;
	int r = grow(w);

	if (r == 0)
		r = w->ops->enter(w->arg, &e);
	if (r != 0 && r != TREE_HOLLOW) {
		close(fd);
		return r;
	}
	hollow = r == TREE_HOLLOW;
	r = dirstack_push(&w->dirs, fd);
	if (r < 0)
		return r;
	l = &w->v[w->n++];
	*l = (struct level){.path_len = w->path->len, .name_at = name_at, .st = *st};
	return hollow ? 0 : list_dir(w, fd, l);
}

static int leave(struct walk *w)
{
	struct level *l = &w->v[w->n - 1];
	size_t up = w->n > 1 ? w->v[w->n - 2].path_len : 0;
	struct tree_entry e = {.dir = -1, .st = &l->st, .fd = dirstack_top(&w->dirs)};
	int r;

	w->path->len = l->path_len;
	w->path->data[l->path_len] = '\0';
	e.name = w->path->data + l->name_at;
	e.path = w->path->data;
	e.path_len = l->path_len;
	r = w->ops->leave(w->arg, &e);
	free(l->listing);
	w->n--;
	if (r == 0)
		r = dirstack_pop(&w->dirs);
	if (r == 0) {
		w->path->len = up;
		w->path->data[up] = '\0';
	}
	return r;
}

static int visit(struct walk *w, const char *name)
{
	size_t up = w->v[w->n - 1].path_len, name_at = up ? up + 1 : 0;
	int dir = dirstack_top(&w->dirs), fd, r;
	struct tree_entry e = {.dir = dir, .fd = -1};
	struct stat st;

	w->path->len = up;
	r = up ? buf_append(w->path, "/", 1) : 0;
	if (r == 0)
		r = buf_puts(w->path, name);
	if (r < 0)
		return r == -ENOBUFS ? -ENAMETOOLONG : r;
	r = reach_lstat(dir, name, &st);
	if (r < 0)
		return r;
	if (st.st_dev != w->dev)
		return -EXDEV;
	if (S_ISDIR(st.st_mode)) {
		fd = reach_openat(dir, name, OPEN_DIR);
		return fd < 0 ? fd : enter(w, dir, fd, &st, name_at);
	}
	e.name = name;
	e.path = w->path->data;
	e.path_len = w->path->len;
	e.st = &st;
	return w->ops->file(w->arg, &e);
}

static int run(struct walk *w, int start)
{
	struct stat st;
	int fd = openat(start, ".", OPEN_DIR);
	int r = fd < 0 || fstat(fd, &st) < 0 ? -errno : buf_puts(w->path, "");

	if (r < 0) {
		closep(&fd);
		return r;
	}
	w->dev = st.st_dev;
	r = enter(w, start, fd, &st, 0);
	while (r == 0 && w->n) {
		const char *name = next_name(&w->v[w->n - 1]);

		r = name ? visit(w, name) : leave(w);
	}
	return r;
}

int tree_walk(int start, const struct tree_ops *ops, void *arg, struct buf *where)
{
	struct walk w = {.ops = ops, .arg = arg, .path = where};
	int r;

	buf_init(&w.scratch, LISTING_MAX);
	r = run(&w, start);
	while (w.n)
		free(w.v[--w.n].listing);
	buf_clear(&w.scratch);
	free(w.v);
	dirstack_clear(&w.dirs);
	return r;
}
