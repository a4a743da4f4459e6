/* SPDX-License-Identifier: Apache-2.0 */
#include "work/change.h"

#include "base/util.h"
#include "work/change_impl.h"
#include "work/content.h"

#include <fcntl.h>
#include <stdio.h>

void change_clear(struct change *c)
{
	free(c->path);
	free(c->from);
	free(c->old_target);
	free(c->new_target);
	*c = (struct change){0};
}

void changes_clear(struct changes *c)
{
	for (size_t i = 0; i < c->n; i++)
		change_clear(&c->v[i]);
	free(c->v);
	*c = (struct changes){0};
}

int changes_by_path(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	if (x->layer != y->layer)
		return x->layer < y->layer ? -1 : 1;
	return strcmp(x->path, y->path);
}

/* ---- gathering ------------------------------------------------------------------ */

struct gathering {
	struct changes list;
	size_t cap, layer;
	const struct ledger *ledger;
	struct selection *selection;
};

/* Takes c. */
static int gather(struct gathering *g, struct change *c, const char *path)
{
	c->layer = g->layer;
	c->path = strdup(path);
	if (!c->path)
		return -ENOMEM;
	if (g->list.n >= CHANGES_MAX)
		return -E2BIG;
	if (g->list.n == g->cap) {
		size_t cap = g->cap * 2 + 32;
		struct change *v = reallocarray(g->list.v, cap, sizeof(*v));

		if (!v)
			return -ENOMEM;
		g->list.v = v;
		g->cap = cap;
	}
	g->list.v[g->list.n++] = *c;
	return 0;
}

static int on_path(void *arg, const struct walk_entry *e)
{
	struct gathering *g = arg;
	struct change c;
	int r;

	if (!selection_has(g->selection, g->layer, e->path))
		return WALK_ON;
	r = change_look(&c, e, g->ledger);
	if (r <= 0)
		return r;
	r = gather(g, &c, e->path);
	if (r < 0)
		change_clear(&c);
	return r;
}

/* ---- deletions that only the ledger knows ---------------------------------------- */

static int gather_gone(struct gathering *g, const struct layer *l)
{
	size_t n = g->ledger ? ledger_count(g->ledger) : 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct ledger_entry *e = ledger_at(g->ledger, i);
		struct change c = {.kind = COVE_DELETED};

		if (!ledger_is_gone(e, l, &c.old) ||
		    !selection_has(g->selection, g->layer, e->path))
			continue;
		if (S_ISLNK(c.old.mode)) {
			const char *name;
			cleanup_fd int parent = open_parent(l->lower, e->path, &name);

			r = parent < 0 ? parent : link_read(parent, name, &c.old_target);
		}
		if (r == 0)
			r = gather(g, &c, e->path);
		if (r < 0)
			change_clear(&c);
	}
	return r;
}

/* A deleted directory above it may have brought the same path already. */
static void drop_twins(struct changes *c)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->n; i++) {
		if (kept && changes_by_path(&c->v[kept - 1], &c->v[i]) == 0)
			change_clear(&c->v[i]);
		else
			c->v[kept++] = c->v[i];
	}
	c->n = kept;
}

/* ---- directories that were only made to mount something on ----------------------- */

static bool is_above(const char *dir, const char *path)
{
	size_t n = strlen(dir);

	return strncmp(dir, path, n) == 0 && path[n] == '/';
}

static bool is_mount_parent(const struct layers *l, const struct change *c)
{
	const struct layer *y = &l->v[c->layer];

	if (c->kind != COVE_ADDED || !S_ISDIR(c->new.mode))
		return false;
	for (size_t i = 0; i < y->n_skip; i++)
		if (is_above(c->path, y->skip[i]))
			return true;
	return false;
}

/* From the end, so that what is in a directory is decided before the directory. */
static void drop_mount_parents(struct changes *c, const struct layers *l)
{
	for (size_t i = c->n; i-- > 0;) {
		bool used = false;

		if (!is_mount_parent(l, &c->v[i]))
			continue;
		for (size_t k = i + 1; !used && k < c->n; k++) {
			if (c->v[k].layer != c->v[i].layer)
				break;
			used = is_above(c->v[i].path, c->v[k].path);
		}
		if (used)
			continue;
		change_clear(&c->v[i]);
		c->n--;
		memmove(&c->v[i], &c->v[i + 1], (c->n - i) * sizeof(*c->v));
	}
}

/* ---- the list ------------------------------------------------------------------- */

static int list_failed(struct cove_error *err, int r, const char *source)
{
	if (r == -ENOMEM)
		return fail_nomem(err);
	if (r == -E2BIG) {
		fail(err, COVE_EUNSUPPORTED, 0, "%s: more than %d changes", source,
		     CHANGES_MAX);
		return hint(err, "remove or mask what need not be looked at");
	}
	return fail(err, COVE_EIO, -r, "read the changes of %s", source);
}

static int gather_all(struct gathering *g, const struct layers *l,
		      struct ledger *const *ledgers, uint32_t flags,
		      struct cove_error *err)
{
	int r;

	for (size_t i = 0; i < l->n; i++) {
		g->layer = i;
		g->ledger = ledgers ? ledgers[i] : NULL;
		r = walk_layer(&l->v[i], on_path, g, WALK_ATTRS);
		if (r == 0)
			r = gather_gone(g, &l->v[i]);
		if (r < 0)
			return list_failed(err, r, l->v[i].source);
	}
	r = selection_check(g->selection, err);
	if (r < 0)
		return r;
	if (g->list.n > 1)
		qsort(g->list.v, g->list.n, sizeof(*g->list.v), changes_by_path);
	drop_twins(&g->list);
	drop_mount_parents(&g->list, l);
	if (flags & CHANGES_NO_RENAMES)
		return 0;
	r = changes_find_renames(&g->list, l);
	return r < 0 ? list_failed(err, r, "the workspace") : 0;
}

int changes_list(struct changes *ret, const struct layers *l,
		 struct ledger *const *ledgers, const char *const *paths, uint32_t flags,
		 struct cove_error *err)
{
	struct selection s = {0};
	struct gathering g = {.selection = &s};
	int r = selection_init(&s, l, paths);

	r = r < 0 ? fail_nomem(err) : gather_all(&g, l, ledgers, flags, err);
	selection_clear(&s);
	if (r < 0)
		changes_clear(&g.list);
	else
		*ret = g.list;
	return r;
}

/* ---- content -------------------------------------------------------------------- */

static int open_checked(int dir, const char *path, const struct ident *listed)
{
	struct ident now;
	struct stat st;
	cleanup_fd int fd = -1;

	if (dir < 0 || !S_ISREG(listed->mode))
		return -EINVAL;
	fd = open_beneath(dir, path, O_RDONLY | O_NONBLOCK);
	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP ? -ESTALE : fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	ident_from(&now, &st);
	return ident_same(&now, listed) ? take_fd(&fd) : -ESTALE;
}

int change_open_old(const struct layers *l, const struct change *c)
{
	return open_checked(l->v[c->layer].lower, c->from ? c->from : c->path, &c->old);
}

int change_open_new(const struct layers *l, const struct change *c)
{
	return open_checked(l->v[c->layer].upper, c->path, &c->new);
}

void change_export(const struct layers *l, const struct change *c,
		   struct cove_change *ret)
{
	*ret = (struct cove_change){
		.size = sizeof(*ret),
		.kind = c->kind,
		.what = c->what,
		.source = l->v[c->layer].source,
		.path = c->path,
		.from = c->from,
		.old_mode = c->old.mode,
		.new_mode = c->new.mode,
		.old_size = c->old.size,
		.new_size = c->new.size,
		.old_target = c->old_target,
		.new_target = c->new_target,
	};
}
