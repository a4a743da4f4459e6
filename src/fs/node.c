/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util.h"
#include "fs/impl.h"
#include "fs/watch.h"

#include <fcntl.h>
#include <sys/stat.h>

#define SLOTS_FIRST 1024u

/* ---- slots: numbers that are never given out twice -------------------------------- */

static uint64_t number_of(uint32_t slot, uint32_t generation)
{
	return (uint64_t)generation << 32 | slot;
}

struct node *node_find(struct fs *fs, uint64_t id)
{
	const struct nodes *all = &fs->nodes;
	uint32_t slot = (uint32_t)id;

	if (id == FUSE_ROOT_ID)
		return all->root;
	if (slot >= all->n_slots || !all->slot[slot].node ||
	    all->slot[slot].node->id != id)
		return NULL;
	return all->slot[slot].node;
}

uint64_t node_number(const struct fs *fs, const struct node *n)
{
	return n == fs->nodes.root ? FUSE_ROOT_ID : n->id;
}

static bool more_slots(struct nodes *all)
{
	uint32_t n = all->n_slots ? all->n_slots * 2 : SLOTS_FIRST;
	struct slot *larger;

	if (n > all->max)
		n = all->max;
	if (n <= all->n_slots)
		return false;
	larger = realloc(all->slot, n * sizeof(*larger));
	if (!larger)
		return false;
	all->slot = larger;
	/* Slots 0 and 1 stay empty: 0 ends the list, and 1 is the root's number. */
	for (uint32_t i = n; i-- > all->n_slots;) {
		all->slot[i] = (struct slot){.next_free = all->free};
		all->free = i > 1 ? i : all->free;
	}
	all->n_slots = n;
	return true;
}

static bool slot_take(struct nodes *all, struct node *n)
{
	struct slot *s;
	uint32_t i;

	if (!all->free && !more_slots(all))
		return false;
	i = all->free;
	s = &all->slot[i];
	all->free = s->next_free;
	s->node = n;
	n->id = number_of(i, ++s->generation);
	all->n++;
	return true;
}

/* A slot whose generations are used up is never used again. */
static void slot_give(struct nodes *all, const struct node *n)
{
	uint32_t i = (uint32_t)n->id;
	struct slot *s = &all->slot[i];

	s->node = NULL;
	all->n--;
	if (s->generation == UINT32_MAX)
		return;
	s->next_free = all->free;
	all->free = i;
}

/* ---- keys ---------------------------------------------------------------------------
 */

static uint64_t ident_hash(const struct fs_ident *id)
{
	return table_mix(id->ino ^ table_mix(id->dev));
}

uint64_t node_name_hash(const struct node *dir, const char *name)
{
	uint64_t h = table_mix(dir->id);

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 0x100000001b3u;
	return h ^ (h >> 29);
}

struct node *node_child(struct fs *fs, const struct node *dir, const char *name)
{
	uint64_t h = node_name_hash(dir, name);

	for (struct entry *e = NULL; (e = table_next(&fs->nodes.by_name, e, h));) {
		struct node *n = container_of(e, struct node, by_name);

		if (n->parent == dir && strcmp(n->name, name) == 0)
			return n;
	}
	return NULL;
}

/* One node for all names of a file, but one for each where a link may be broken. */
static bool per_name(const struct device *d, const struct fs_stat *st)
{
	return d->overlay && st->nlink > 1 && !S_ISDIR(st->mode);
}

static struct node *by_identity(struct fs *fs, const struct node *dir, const char *name,
				const struct fs_stat *st, bool named)
{
	uint64_t h = ident_hash(&st->id);

	for (struct entry *e = NULL; (e = table_next(&fs->nodes.by_ident, e, h));) {
		struct node *n = container_of(e, struct node, by_ident);

		if (!fs_ident_equal(&n->ident, &st->id) || n->type != (st->mode & S_IFMT))
			continue;
		if (!named || n->whole ||
		    (n->parent == dir && strcmp(n->name, name) == 0))
			return n;
	}
	return NULL;
}

/* The same file under another mount, or under another name where names are apart. */
static bool same_file(const struct fs_ident *a, const struct fs_ident *b)
{
	return a->dev == b->dev && a->ino == b->ino && fs_time_equal(a->birth, b->birth);
}

struct node *node_alias(struct fs *fs, const struct node *n, const struct node *after)
{
	const struct entry *e = after ? &after->by_ident : NULL;
	struct entry *next;

	while ((next = table_next(&fs->nodes.by_ident, e, n->by_ident.hash))) {
		struct node *other = container_of(next, struct node, by_ident);

		if (other != n && same_file(&other->ident, &n->ident))
			return other;
		e = next;
	}
	return NULL;
}

/* ---- names --------------------------------------------------------------------------
 */

static void drop_name(struct fs *fs, struct node *n)
{
	if (!n->parent)
		return;
	table_remove(&fs->nodes.by_name, &n->by_name);
	n->parent->children--;
	n->parent = NULL;
	free(n->name);
	n->name = NULL;
}

static bool set_name(struct fs *fs, struct node *n, struct node *dir, const char *name)
{
	char *copy = strdup(name);

	if (!copy)
		return false;
	drop_name(fs, n);
	n->parent = dir;
	n->name = copy;
	dir->children++;
	desc_unpin(&fs->descs, &n->desc); /* it can be opened by name again */
	table_add(&fs->nodes.by_name, &n->by_name, node_name_hash(dir, name));
	return true;
}

void node_detach(struct fs *fs, struct node *n)
{
	struct node *parent = n->parent;

	drop_name(fs, n);
	if (parent)
		node_release(fs, parent);
}

/* The host may have turned a tree upside down, of which we know the old half: what was
 * below n and now has n below it loses its name. */
static void break_circle(struct fs *fs, const struct node *n, struct node *dir)
{
	while (n->children && dir && dir->parent != n)
		dir = dir->parent;
	if (n->children && dir)
		drop_name(fs, dir);
}

void node_move(struct fs *fs, struct node *n, struct node *dir, const char *name)
{
	struct node *was = node_child(fs, dir, name), *parent = n->parent;

	if (was == n || n == dir)
		return;
	/* Any of them may be another of them's directory, and live for that alone. */
	node_hold(dir);
	if (was)
		drop_name(fs, node_hold(was)); /* not node_detach() */
	if (parent)
		node_hold(parent);
	if (parent != dir)
		break_circle(fs, n, dir);
	if (!set_name(fs, n, dir, name))
		drop_name(fs, n); /* no memory: it is stale from now on */
	if (was)
		node_drop(fs, was);
	if (parent)
		node_drop(fs, parent);
	node_drop(fs, dir);
}

void node_identify(struct fs *fs, struct node *n, const struct fs_ident *id)
{
	table_remove(&fs->nodes.by_ident, &n->by_ident);
	n->ident = *id;
	table_add(&fs->nodes.by_ident, &n->by_ident, ident_hash(id));
}

/* ---- lives --------------------------------------------------------------------------
 */

/* Near the bound, and not for each new node: it costs the guest its cache. */
static void press(struct fs *fs)
{
	struct nodes *all = &fs->nodes;

	if (++all->fresh < all->max / 32 || all->n <= all->max / 8 * 7)
		return;
	all->fresh = 0;
	notice_shrink(fs);
}

static void node_fill(struct fs *fs, struct node *n, const struct fs_stat *st,
		      const struct device *d)
{
	n->ident = st->id;
	n->type = st->mode & S_IFMT;
	n->device = d;
	n->desc.fd = -1;
	n->watch = WATCH_NONE;
	table_add(&fs->nodes.by_ident, &n->by_ident, ident_hash(&n->ident));
}

static int node_new(struct fs *fs, const struct fs_stat *st, const struct device *d,
		    struct node **ret)
{
	struct node *n = calloc(1, sizeof(*n));

	if (!n)
		return -ENOMEM;
	press(fs);
	if (!slot_take(&fs->nodes, n)) {
		free(n);
		return -ENFILE;
	}
	node_fill(fs, n, st, d);
	*ret = n;
	return 0;
}

static void node_free(struct fs *fs, struct node *n)
{
	drop_name(fs, n);
	table_remove(&fs->nodes.by_ident, &n->by_ident);
	desc_close(&fs->descs, &n->desc);
	if (node_is_dir(n)) {
		watch_stop(fs, n);
		streams_forget(fs, n->id);
	}
	slot_give(&fs->nodes, n);
	free(n);
}

void node_release(struct fs *fs, struct node *n)
{
	while (n && !n->lookups && !n->children && !n->holds && n != fs->nodes.root) {
		struct node *parent = n->parent;

		node_free(fs, n);
		n = parent;
	}
}

void node_drop(struct fs *fs, struct node *n)
{
	n->holds--;
	node_release(fs, n);
}

void node_forget(struct fs *fs, struct node *n, uint64_t lookups)
{
	n->lookups -= lookups < n->lookups ? lookups : n->lookups;
	node_release(fs, n);
}

bool node_same_dir(const struct node *n, const struct fs_stat *st)
{
	return n->device->overlay && node_is_dir(n) && S_ISDIR(st->mode) &&
	       st->id.dev == n->device->dev && st->id.mount == n->ident.mount;
}

/* The node that an overlay gave another identity, by copying it up or by itself. */
static struct node *by_name(struct fs *fs, const struct node *dir, const char *name,
			    const struct fs_stat *st)
{
	struct node *n = node_child(fs, dir, name);

	if (!n || !node_same_dir(n, st))
		return NULL;
	node_identify(fs, n, &st->id);
	return n;
}

int node_get(struct fs *fs, struct node *dir, const char *name, const struct fs_stat *st,
	     struct node **ret)
{
	const struct device *d = device_of(fs, -1, NULL, st->id.dev);
	struct node *n;
	int r;

	if (!d) {
		int at = open_dir(fs, dir);

		d = at < 0 ? NULL : device_of(fs, at, name, st->id.dev);
	}
	if (!d)
		return -ENFILE;
	if (d->hidden && !S_ISDIR(st->mode))
		return -ENOENT;
	n = by_identity(fs, dir, name, st, per_name(d, st));
	if (!n)
		n = by_name(fs, dir, name, st);
	if (!n) {
		r = node_new(fs, st, d, &n);
		if (r < 0)
			return r;
	}
	if (n != fs->nodes.root)
		node_move(fs, n, dir, name);
	*ret = n;
	return 0;
}

int node_get_nameless(struct fs *fs, const struct fs_stat *st, int *fd, struct node **ret)
{
	const struct device *d = device_of(fs, *fd, "", st->id.dev);
	int r = d ? node_new(fs, st, d, ret) : -ENFILE;

	if (r < 0)
		return r;
	desc_set(&fs->descs, &(*ret)->desc, take_fd(fd));
	(*ret)->reads = (*ret)->writes = true;
	if (desc_pin(&fs->descs, &(*ret)->desc))
		return 0;
	node_release(fs, *ret);
	return -ENFILE;
}

/* ---- a table from another life -------------------------------------------------------
 */

int nodes_set_generations(struct fs *fs, const uint32_t *generation, uint32_t n)
{
	struct nodes *all = &fs->nodes;

	if (n > all->max)
		return -EINVAL;
	while (all->n_slots < n)
		if (!more_slots(all))
			return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		if (all->slot[i].node && all->slot[i].generation != generation[i])
			return -EINVAL; /* the root has always the same */
	for (uint32_t i = 2; i < n; i++)
		all->slot[i].generation = generation[i];
	return 0;
}

struct node *node_place(struct fs *fs, uint64_t id, const struct fs_stat *st,
			const struct device *d)
{
	struct nodes *all = &fs->nodes;
	uint32_t i = (uint32_t)id;
	struct slot *s = i < all->n_slots ? &all->slot[i] : NULL;
	struct node *n;

	if (!s || i < 2 || s->node || s->generation != id >> 32)
		return NULL;
	n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	s->node = n;
	all->n++;
	n->id = id;
	node_fill(fs, n, st, d);
	return n;
}

void nodes_list_free(struct fs *fs)
{
	struct nodes *all = &fs->nodes;

	all->free = 0;
	for (uint32_t i = all->n_slots; i-- > 2;) {
		struct slot *s = &all->slot[i];

		if (s->node || s->generation == UINT32_MAX)
			continue;
		s->next_free = all->free;
		all->free = i;
	}
}

/* ---- the root ------------------------------------------------------------------------
 */

static int make_root(struct fs *fs, int root)
{
	struct fs_stat st;
	int r = fs_stat_at(root, "", &st);
	struct node *n;
	int fd;

	if (r < 0)
		return r;
	if (!S_ISDIR(st.mode))
		return -ENOTDIR;
	fd = fcntl(root, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return -errno;
	r = node_new(fs, &st, device_of(fs, root, "", st.id.dev), &n);
	if (r < 0) {
		close(fd);
		return r;
	}
	fs->nodes.root = n;
	desc_set(&fs->descs, &n->desc, fd);
	desc_pin(&fs->descs, &n->desc);
	return 0;
}

int nodes_init(struct fs *fs, uint32_t max, int root)
{
	struct nodes *all = &fs->nodes;

	all->max = max < SLOTS_FIRST ? SLOTS_FIRST : max;
	if (table_init(&all->by_ident) < 0 || table_init(&all->by_name) < 0)
		return -ENOMEM;
	return make_root(fs, root);
}

void nodes_forget_all(struct fs *fs)
{
	struct nodes *all = &fs->nodes;

	for (uint32_t i = 0; i < all->n_slots; i++)
		if (all->slot[i].node)
			drop_name(fs, all->slot[i].node);
	for (uint32_t i = 0; i < all->n_slots; i++)
		if (all->slot[i].node && all->slot[i].node != all->root)
			node_free(fs, all->slot[i].node);
}

void nodes_clear(struct fs *fs)
{
	struct nodes *all = &fs->nodes;

	nodes_forget_all(fs);
	if (all->root)
		node_free(fs, all->root);
	free(all->slot);
	table_clear(&all->by_ident);
	table_clear(&all->by_name);
	*all = (struct nodes){0};
}
