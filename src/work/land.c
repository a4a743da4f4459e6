/* SPDX-License-Identifier: Apache-2.0 */
#include "work/land.h"

#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>

#define FEW 64 /* up to here single files are synced, above the whole file system */

void stage_name(char out[16], uint32_t n)
{
	snprintf(out, 16, "%u", n);
}

int landing_open(struct landing *l, const struct journal *j, struct cove_error *err)
{
	*l = (struct landing){.j = j, .parent = -1};
	l->sites = calloc(j->n_layers + 1, sizeof(*l->sites));
	if (!l->sites)
		return fail_nomem(err);
	for (size_t i = 0; i < j->n_layers; i++)
		l->sites[i] = (struct land_site){-1, -1};
	for (size_t i = 0; i < j->n_layers; i++) {
		struct land_site *s = &l->sites[i];

		s->lower = open(j->layers[i].source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (s->lower < 0) {
			fail(err, COVE_EIO, errno, "%s", j->layers[i].source);
			landing_close(l);
			return err->code;
		}
		s->stage = openat(s->lower, j->stage,
				  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	return 0;
}

void landing_close(struct landing *l)
{
	for (size_t i = 0; l->sites && i < l->j->n_layers; i++) {
		close_fd(&l->sites[i].lower);
		close_fd(&l->sites[i].stage);
	}
	free(l->sites);
	free(l->parent_path);
	close_fd(&l->parent);
	*l = (struct landing){.parent = -1};
}

/* ---- where a step is ------------------------------------------------------------ */

/* The directory of a step's path (borrowed) and the name in it; -errno. */
static int parent_of(struct landing *l, const struct step *s, const char **ret_name)
{
	const char *slash = strrchr(s->path, '/');
	size_t n = slash ? (size_t)(slash - s->path) : 0;

	*ret_name = slash ? slash + 1 : s->path;
	if (n == 0)
		return l->sites[s->layer].lower;
	if (l->parent >= 0 && l->parent_layer == s->layer &&
	    strncmp(l->parent_path, s->path, n) == 0 && !l->parent_path[n])
		return l->parent;
	close_fd(&l->parent);
	free(l->parent_path);
	l->parent_path = strndup(s->path, n);
	if (!l->parent_path)
		return -ENOMEM;
	l->parent_layer = s->layer;
	l->parent = open_beneath(l->sites[s->layer].lower, l->parent_path,
				 O_RDONLY | O_DIRECTORY);
	return l->parent;
}

static void forget_parent(struct landing *l)
{
	close_fd(&l->parent);
}

enum where { BEFORE, AFTER, ALIEN };

struct seen {
	struct ident path, stage;
};

static int look(struct landing *l, const struct step *s, struct seen *ret)
{
	const char *name;
	char number[16];
	int dir = parent_of(l, s, &name), stage = l->sites[s->layer].stage, r = 0;

	*ret = (struct seen){0};
	if (dir >= 0)
		r = ident_at(dir, name, &ret->path);
	else if (dir != -ENOENT && dir != -ENOTDIR && dir != -ELOOP)
		return dir; /* a file or symlink in the way: not there */
	stage_name(number, s->stage);
	if (r == 0 && stage >= 0)
		r = ident_at(stage, number, &ret->stage);
	return r;
}

static enum where where_of(const struct step *s, const struct seen *at)
{
	const struct ident *p = &at->path, *st = &at->stage;
	bool dir = S_ISDIR(p->mode);

	switch (s->kind) {
	case STEP_NEW:
		if (st->mode && ident_same_file(st, &s->new))
			return p->mode && !dir ? ALIEN : BEFORE;
		return p->mode && ident_same_file(p, &s->new) ? AFTER : ALIEN;
	case STEP_EXCHANGE:
		if (st->mode && ident_same_file(st, &s->new))
			return p->mode && !dir ? BEFORE : ALIEN;
		return st->mode && p->mode && ident_same_file(p, &s->new) ? AFTER : ALIEN;
	case STEP_REMOVE:
		if (st->mode)
			return !p->mode || S_ISDIR(s->new.mode) ? AFTER : ALIEN;
		return p->mode && !dir ? BEFORE : ALIEN;
	case STEP_MKDIR:
		return dir ? AFTER : BEFORE;
	case STEP_RMDIR:
		return dir ? BEFORE : AFTER;
	case STEP_ATTRS:
		if (p->mode == s->new.mode &&
		    (geteuid() != 0 || (p->uid == s->new.uid && p->gid == s->new.gid)))
			return AFTER;
		return !s->old.mode || p->mode == s->old.mode ? BEFORE : ALIEN;
	case STEP_SAME:
		return AFTER;
	}
	return ALIEN;
}

/* ---- one step ------------------------------------------------------------------- */

/* mode, and as root the owner, of a directory; "." is the mount itself. */
static int set_attrs(int dir, const char *name, const struct ident *to)
{
	cleanup_fd int fd =
		openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (geteuid() == 0 && fchown(fd, to->uid, to->gid) < 0)
		return -errno;
	return fchmod(fd, to->mode & 07777) < 0 ? -errno : 0;
}

/* Moves path into the stage and checks what came: the look and the move are two calls,
 * and somebody may have put another file there in between. */
static int take(struct landing *l, const struct step *s, int dir, const char *name,
		const char *number, const struct ident *expected)
{
	int stage = l->sites[s->layer].stage;
	unsigned flags = s->kind == STEP_EXCHANGE ? RENAME_EXCHANGE : RENAME_NOREPLACE;
	struct ident got;
	int r = rename_at(dir, name, stage, number, flags);

	if (r < 0 || !expected)
		return r;
	r = ident_at(stage, number, &got);
	if (r == 0 &&
	    (l->copied ? ident_alike(&got, expected) : ident_same_file(&got, expected)))
		return 0;
	rename_at(stage, number, dir, name, flags);
	return r < 0 ? r : -ESTALE;
}

static int forward(struct landing *l, const struct step *s, int dir, const char *name)
{
	const struct ident *expected = l->fresh ? &s->old : NULL;
	int stage = l->sites[s->layer].stage;
	char number[16];

	stage_name(number, s->stage);
	switch (s->kind) {
	case STEP_NEW:
		return rename_at(stage, number, dir, name, RENAME_NOREPLACE);
	case STEP_REMOVE:
	case STEP_EXCHANGE:
		return take(l, s, dir, name, number, expected);
	case STEP_MKDIR:
		return mkdirat(dir, name, 0700) < 0 ? -errno : 0;
	case STEP_RMDIR:
		return unlinkat(dir, name, AT_REMOVEDIR) < 0 ? -errno : 0;
	case STEP_ATTRS:
		return set_attrs(dir, name, &s->new);
	case STEP_SAME:
		break;
	}
	return 0;
}

static int backward(struct landing *l, const struct step *s, int dir, const char *name)
{
	int stage = l->sites[s->layer].stage, r;
	char number[16];

	stage_name(number, s->stage);
	switch (s->kind) {
	case STEP_NEW:
	case STEP_EXCHANGE:
		return take(l, s, dir, name, number, &s->new);
	case STEP_REMOVE:
		return rename_at(stage, number, dir, name, RENAME_NOREPLACE);
	case STEP_MKDIR:
		if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
			return 0;
		if (errno != ENOTEMPTY || !l->left)
			return -errno;
		r = set_attrs(dir, name, &s->new); /* it stays: then as it was to be */
		return r < 0 ? r : -ENOTEMPTY;
	case STEP_RMDIR:
		r = mkdirat(dir, name, 0700) < 0 ? -errno : 0;
		return r < 0 ? r : set_attrs(dir, name, &s->old);
	case STEP_ATTRS:
		return s->old.mode ? set_attrs(dir, name, &s->old) : 0;
	case STEP_SAME:
		break;
	}
	return 0;
}

static int in_the_way(const struct landing *l, const struct step *s,
		      struct cove_error *err)
{
	if (l->left)
		return l->left(l->left_arg, s, err);
	return fail(err, COVE_ECONFLICT, 0, "%s/%s: somebody changed it meanwhile",
		    l->j->layers[s->layer].source, s->path);
}

/* Does the failure of a step mean that? Directories on the way to it may be gone, too. */
static bool is_in_the_way(const struct landing *l, int r)
{
	return r == -ESTALE || r == -EEXIST || r == -ENOTEMPTY ||
	       (l->left && (r == -ENOENT || r == -ENOTDIR || r == -ELOOP));
}

/* A directory that was made again, but killed before it got its mode. */
static bool half_made(const struct step *s, const struct seen *at)
{
	return s->kind == STEP_RMDIR && at->path.mode != s->old.mode;
}

static int run_step(struct landing *l, const struct step *s, bool onward,
		    struct cove_error *err)
{
	struct seen at;
	const char *name;
	int r = look(l, s, &at), dir;
	enum where where = r == 0 ? where_of(s, &at) : ALIEN;

	if (r == 0 && where == ALIEN)
		return in_the_way(l, s, err);
	dir = r == 0 ? parent_of(l, s, &name) : r;
	if (r == 0 && where == (onward ? AFTER : BEFORE)) {
		if (onward || dir < 0 || !half_made(s, &at))
			return 0;
		r = set_attrs(dir, name, &s->old);
	} else {
		if (r == 0)
			r = dir < 0  ? dir
			    : onward ? forward(l, s, dir, name)
				     : backward(l, s, dir, name);
		if (s->kind == STEP_RMDIR || s->kind == STEP_MKDIR ||
		    s->kind == STEP_REMOVE)
			forget_parent(l); /* it may be the directory that is open */
	}
	if (is_in_the_way(l, r))
		return in_the_way(l, s, err);
	return r < 0 ? fail(err, COVE_EIO, -r, "%s/%s", l->j->layers[s->layer].source,
			    s->path)
		     : 0;
}

int landing_run(struct landing *l, bool onward, struct cove_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < l->j->n; i++)
		r = run_step(l, &l->j->v[onward ? i : l->j->n - 1 - i], onward, err);
	forget_parent(l);
	return r;
}

int landing_check_done(struct landing *l,
		       void (*fn)(void *arg, const struct step *s, const char *why),
		       void *arg, size_t *ret_bad, struct cove_error *err)
{
	*ret_bad = 0;
	for (size_t i = 0; i < l->j->n; i++) {
		const struct step *s = &l->j->v[i];
		struct seen at;
		int r = look(l, s, &at);

		if (r < 0)
			return fail(err, COVE_EIO, -r, "%s", s->path);
		if (s->kind == STEP_SAME || where_of(s, &at) == AFTER)
			continue;
		(*ret_bad)++;
		if (fn)
			fn(arg, s, "changed on the host since the apply");
	}
	forget_parent(l);
	return 0;
}

/* ---- making it last ------------------------------------------------------------- */

static int sync_parents(struct landing *l)
{
	const char *name;

	for (size_t i = 0; i < l->j->n; i++) {
		const struct step *s = &l->j->v[i];
		int dir = parent_of(l, s, &name);

		if (dir >= 0 && fsync(dir) < 0)
			return -errno;
		if (s->kind != STEP_ATTRS || dir < 0)
			continue;
		/* its own mode and owner */
		cleanup_fd int fd = openat(
			dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && fsync(fd) < 0)
			return -errno;
	}
	for (size_t i = 0; i < l->j->n_layers; i++)
		if (l->sites[i].stage >= 0 && fsync(l->sites[i].stage) < 0)
			return -errno;
	forget_parent(l);
	return 0;
}

int landing_sync(struct landing *l, struct cove_error *err)
{
	int r = 0;

	if (l->j->n <= FEW)
		r = sync_parents(l);
	else
		for (size_t i = 0; r == 0 && i < l->j->n_layers; i++)
			if (syncfs(l->sites[i].lower) < 0)
				r = -errno;
	return r < 0 ? fail(err, COVE_EIO, -r, "sync") : 0;
}
