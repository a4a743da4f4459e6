/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate_view - the host as it would be after the apply: what lands, over what is there.
 *
 * Every path that is touched and every directory above one is a node, found by a keyed
 * hash (names are hostile). What is no node is looked up on the host, beneath the layer's
 * directory and without following anything.
 */
#include "work/gate_impl.h"

#include "base/util.h"

#include <fcntl.h>
#include <limits.h>
#include <sodium.h>

#define HOPS_MAX 40 /* symlinks on one way, as in the kernel */
#define WALK_MAX (256u << 10)

_Static_assert(crypto_shorthash_KEYBYTES == sizeof(((struct view *)0)->key), "key size");

/* ---- the table ------------------------------------------------------------------ */

static size_t hash_path(const struct view *v, size_t layer, const char *path, size_t n)
{
	uint64_t h;

	crypto_shorthash((unsigned char *)&h, (const unsigned char *)path, n, v->key);
	return (size_t)(h + layer * 0x9e3779b97f4a7c15u);
}

static uint32_t *slot_of(const struct view *v, size_t layer, const char *path, size_t n)
{
	size_t at = hash_path(v, layer, path, n) & (v->n_slots - 1);

	for (;; at = (at + 1) & (v->n_slots - 1)) {
		const struct node *d = &v->nodes[v->slots[at] ? v->slots[at] - 1 : 0];

		if (v->slots[at] == 0 ||
		    (d->layer == layer && strncmp(d->path, path, n) == 0 &&
		     d->path[n] == '\0'))
			return &v->slots[at];
	}
}

static struct node *find(const struct view *v, size_t layer, const char *path, size_t n)
{
	uint32_t *slot = v->n_slots ? slot_of(v, layer, path, n) : NULL;

	return slot && *slot ? &v->nodes[*slot - 1] : NULL;
}

const struct node *view_find(const struct view *v, size_t layer, const char *path)
{
	return find(v, layer, path, strlen(path));
}

static int grow(struct view *v)
{
	size_t slots = v->n_slots ? v->n_slots * 2 : 256;
	size_t room = slots / 2;
	struct node *nodes = reallocarray(v->nodes, room, sizeof(*nodes));

	if (!nodes)
		return -ENOMEM;
	v->nodes = nodes;
	uint32_t *table = calloc(slots, sizeof(*table));
	if (!table)
		return -ENOMEM;
	free(v->slots);
	v->slots = table;
	v->n_slots = slots;
	v->room = room;
	for (size_t i = 0; i < v->n; i++)
		*slot_of(v, v->nodes[i].layer, v->nodes[i].path,
			 strlen(v->nodes[i].path)) = (uint32_t)i + 1;
	return 0;
}

/* path must not be a node yet. */
static int add(struct view *v, size_t layer, const char *path, size_t n, size_t item,
	       uint32_t mode, bool fresh)
{
	char *copy;

	if (v->n == v->room && grow(v) < 0)
		return -ENOMEM;
	copy = strndup(path, n);
	if (!copy)
		return -ENOMEM;
	v->nodes[v->n] = (struct node){copy, layer, item, mode, fresh};
	*slot_of(v, layer, path, n) = (uint32_t)++v->n;
	return 0;
}

void view_clear(struct view *v)
{
	for (size_t i = 0; i < v->n; i++)
		free(v->nodes[i].path);
	free(v->nodes);
	free(v->slots);
	*v = (struct view){0};
}

/* ---- building ------------------------------------------------------------------- */

static int host_mode(const struct layer *l, const char *path, uint32_t *ret)
{
	struct ident id;
	int r = ident_at(l->lower, path, &id);

	if (r == 0)
		*ret = id.mode;
	return r;
}

/* Adds the directories above a path, the outermost first. */
static int add_above(struct gate *g, size_t item, const char *path, bool lands,
		     struct cove_error *err)
{
	struct view *v = &g->view;
	size_t layer = g->items[item].change->layer;
	const char *slash = strrchr(path, '/');

	if (!slash || find(v, layer, path, (size_t)(slash - path)))
		return 0; /* and so are those above that one */
	for (const char *p = strchr(path, '/'); p; p = strchr(p + 1, '/')) {
		cleanup_free char *dir = NULL;
		uint32_t mode = 0;
		int r;

		if (find(v, layer, path, (size_t)(p - path)))
			continue;
		dir = strndup(path, (size_t)(p - path));
		if (!dir)
			return fail_nomem(err);
		r = host_mode(&g->layers->v[layer], dir, &mode);
		if (r < 0 &&
		    gate_found(g, RULE_UNCHECKED, item, dir, strerror(-r), err) < 0)
			return err->code;
		if (r == 0 && lands && mode && !S_ISDIR(mode) &&
		    gate_found(g, RULE_PATH_BLOCKED, item, dir, NULL, err) < 0)
			return err->code;
		if (add(v, layer, path, (size_t)(p - path), NO_ITEM,
			S_ISDIR(mode) ? mode : S_IFDIR, mode == 0) < 0)
			return fail_nomem(err);
	}
	return 0;
}

static bool is_fresh(const struct change *c)
{
	return c->kind == COVE_ADDED || c->kind == COVE_RENAMED;
}

static int add_item(struct gate *g, size_t i, struct cove_error *err)
{
	const struct gate_item *it = &g->items[i];
	const struct change *c = it->change;
	const struct node *old = view_find(&g->view, c->layer, c->path);

	if (old)
		return gate_found(g, RULE_PATH_TWICE, i, NULL, NULL, err);
	if (add(&g->view, c->layer, c->path, strlen(c->path), i, it->mode, is_fresh(c)) <
	    0)
		return fail_nomem(err);
	return 0;
}

/* The old path of a rename is gone, unless something else lands there. */
static int add_from(struct gate *g, size_t i, struct cove_error *err)
{
	const struct change *c = g->items[i].change;

	if (c->kind != COVE_RENAMED || !c->from || view_find(&g->view, c->layer, c->from))
		return 0;
	if (gate_path_problem(c->from, strlen(g->layers->v[c->layer].source)) >= 0)
		return gate_found(g, RULE_PATH_OUTSIDE, i, c->from, NULL, err);
	if (add(&g->view, c->layer, c->from, strlen(c->from), NO_ITEM, 0, false) < 0)
		return fail_nomem(err);
	return add_above(g, i, c->from, false, err);
}

int view_build(struct gate *g, struct cove_error *err)
{
	g->view.layers = g->layers;
	g->view.items = g->items;
	randombytes_buf(g->view.key, sizeof(g->view.key));
	for (size_t i = 0; i < g->n; i++)
		if (!g->barred[i] && add_item(g, i, err) < 0)
			return err->code;
	for (size_t i = 0; i < g->n; i++) {
		const struct gate_item *it = &g->items[i];

		if (g->barred[i])
			continue;
		if (add_from(g, i, err) < 0 ||
		    add_above(g, i, it->change->path, item_lands(it), err) < 0)
			return err->code;
	}
	return 0;
}

/* ---- looking -------------------------------------------------------------------- */

static int host_lookup(const struct layer *l, const char *path, uint32_t *ret_mode,
		       struct buf *target)
{
	char text[PATH_MAX];
	const char *name;
	struct stat st;
	ssize_t n;
	cleanup_fd int dir = open_parent(l->lower, path, &name);

	*ret_mode = 0;
	if (dir == -ENOENT || dir == -ENOTDIR || dir == -ELOOP)
		return 0; /* ELOOP: a symlink that makes way for a directory */
	if (dir < 0)
		return dir;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	*ret_mode = st.st_mode;
	if (!S_ISLNK(st.st_mode))
		return 0;
	n = readlinkat(dir, name, text, sizeof(text));
	if (n < 0 || n == (ssize_t)sizeof(text))
		return n < 0 ? -errno : -ENAMETOOLONG;
	return buf_append(target, text, (size_t)n);
}

int view_lookup(const struct view *v, size_t layer, const char *path, uint32_t *ret_mode,
		struct buf *target)
{
	const struct node *d = view_find(v, layer, path);
	const char *slash = strrchr(path, '/');
	const struct node *above =
		slash ? find(v, layer, path, (size_t)(slash - path)) : NULL;

	target->len = 0;
	if (d) {
		*ret_mode = d->mode;
		if (!S_ISLNK(d->mode))
			return 0;
		return buf_puts(target, v->items[d->item].target
						? v->items[d->item].target
						: "/");
	}
	if (above && (above->fresh || !S_ISDIR(above->mode))) {
		*ret_mode = 0;
		return 0;
	}
	return host_lookup(&v->layers->v[layer], path, ret_mode, target);
}

/* ---- following ------------------------------------------------------------------ */

struct way {
	const struct view *v;
	size_t layer;
	struct buf *at;  /* where we are, without symlinks; "" is the mount */
	struct buf left; /* what is left to go */
	int hops;
};

static void up(struct buf *at)
{
	char *slash = at->len ? memrchr(at->data, '/', at->len) : NULL;

	at->len = slash ? (size_t)(slash - at->data) : 0;
	if (at->data)
		at->data[at->len] = '\0';
}

static enum walk follow(struct way *w, const struct buf *target)
{
	cleanup_buf struct buf next = BUF_INIT(WALK_MAX);

	if (++w->hops > HOPS_MAX)
		return WALK_LOOPS;
	if (target->len && target->data[0] == '/')
		return WALK_LEAVES;
	up(w->at);
	if (buf_append(&next, target->data, target->len) < 0 ||
	    buf_puts(&next, "/") < 0 ||
	    (w->left.len && buf_append(&next, w->left.data, w->left.len) < 0))
		return WALK_UNKNOWN;
	buf_clear(&w->left);
	w->left = next;
	next = (struct buf)BUF_INIT(WALK_MAX);
	return WALK_STAYS;
}

/* One component further. */
static enum walk step(struct way *w, const char *name, size_t n)
{
	cleanup_buf struct buf target = BUF_INIT(PATH_MAX + 1);
	uint32_t mode;

	if (n == 1 && name[0] == '.')
		return WALK_STAYS;
	if (n == 2 && name[0] == '.' && name[1] == '.') {
		if (w->at->len == 0)
			return WALK_LEAVES;
		up(w->at);
		return WALK_STAYS;
	}
	if ((w->at->len && buf_puts(w->at, "/") < 0) || buf_append(w->at, name, n) < 0 ||
	    view_lookup(w->v, w->layer, w->at->data, &mode, &target) < 0)
		return WALK_UNKNOWN;
	return S_ISLNK(mode) ? follow(w, &target) : WALK_STAYS;
}

enum walk view_walk(const struct view *v, size_t layer, const char *path,
		    const char *target, struct buf *at)
{
	struct way w = {v, layer, at, BUF_INIT(WALK_MAX), 0};
	cleanup_buf struct buf first = BUF_INIT(PATH_MAX + 1);
	enum walk r = WALK_UNKNOWN;

	at->len = 0;
	if (buf_puts(at, path) == 0 && buf_puts(&first, target) == 0)
		r = follow(&w, &first);
	while (r == WALK_STAYS && w.left.len) {
		cleanup_free char *name = NULL;
		size_t n = strspn(w.left.data, "/");

		buf_consume(&w.left, n);
		n = w.left.len ? strcspn(w.left.data, "/") : 0;
		if (n == 0)
			break;
		name = strndup(w.left.data, n);
		if (!name)
			r = WALK_UNKNOWN;
		else {
			buf_consume(&w.left, n);
			r = step(&w, name, n);
		}
	}
	buf_clear(&w.left);
	return r;
}
