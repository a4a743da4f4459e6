/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate_twin - names that are new on the host: what they hold, and whether another name in
 * the same directory is the same to some file system.
 *
 * Names that the host has already are its own business. Of each directory that gets a new
 * name, what lands is put into a table by folded name, and the host's own names are read
 * past it once.
 */
#include "work/gate_impl.h"

#include "base/util.h"

#include <dirent.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>

static const char *last(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int check_name(struct gate *g, const struct node *d, struct cove_error *err)
{
	const char *name = last(d->path);
	int rule;

	if (!d->fresh || d->mode == 0)
		return 0;
	rule = gate_name_problem(name, strlen(name));
	if (rule < 0)
		return 0;
	return gate_found(g, (enum gate_rule_id)rule, d->item, d->path, NULL, err);
}

/* ---- one directory -------------------------------------------------------------- */

struct entry {
	const struct node *node;
	size_t key, len; /* in keys */
};

struct dir {
	struct gate *g;
	const struct node **v; /* its nodes */
	size_t n;
	struct entry *table;
	size_t slots;
	struct buf keys;
};

static void dir_clear(struct dir *d)
{
	free(d->table);
	buf_clear(&d->keys);
}

static struct entry *entry_of(const struct dir *d, const char *key, size_t len)
{
	uint64_t h;
	size_t at;

	crypto_shorthash((unsigned char *)&h, (const unsigned char *)key, len,
			 d->g->view.key);
	for (at = h & (d->slots - 1);; at = (at + 1) & (d->slots - 1)) {
		struct entry *e = &d->table[at];

		if (!e->node ||
		    (e->len == len && memcmp(d->keys.data + e->key, key, len) == 0))
			return e;
	}
}

static int twins(struct gate *g, const struct node *d, const char *other,
		 struct cove_error *err)
{
	return gate_found(g, RULE_NAME_TWIN, d->item, d->path,
			  gate_name_problem(other, strlen(other)) < 0 ? other : NULL,
			  err);
}

/* What lands, against itself. */
static int fill(struct dir *d, struct cove_error *err)
{
	d->slots = 16;
	while (d->slots < d->n * 2)
		d->slots *= 2;
	d->table = calloc(d->slots, sizeof(*d->table));
	if (!d->table)
		return fail_nomem(err);
	for (size_t i = 0; i < d->n; i++) {
		const char *name = last(d->v[i]->path);
		size_t at = d->keys.len;
		struct entry *e;

		if (d->v[i]->mode == 0)
			continue;
		if (gate_fold(&d->keys, name, strlen(name)) < 0)
			return fail_nomem(err);
		e = entry_of(d, d->keys.data + at, d->keys.len - at);
		if (!e->node) {
			*e = (struct entry){d->v[i], at, d->keys.len - at};
			continue;
		}
		d->keys.len = at;
		if ((e->node->fresh || d->v[i]->fresh) &&
		    twins(d->g, d->v[i]->fresh ? d->v[i] : e->node,
			  last(d->v[i]->fresh ? e->node->path : d->v[i]->path), err) < 0)
			return err->code;
	}
	return 0;
}

static int against(struct dir *d, const char *above, const char *name,
		   struct cove_error *err)
{
	size_t at = d->keys.len;
	cleanup_free char *path = NULL;
	const struct node *same;
	struct entry *e;

	if (gate_fold(&d->keys, name, strlen(name)) < 0)
		return fail_nomem(err);
	e = entry_of(d, d->keys.data + at, d->keys.len - at);
	d->keys.len = at;
	if (!e->node || !e->node->fresh || strcmp(last(e->node->path), name) == 0)
		return 0;
	if (asprintf(&path, "%s%s%s", above, *above ? "/" : "", name) < 0)
		return fail_nomem(err);
	/* One that is deleted makes way; one that lands was compared before. */
	same = view_find(&d->g->view, e->node->layer, path);
	return same ? 0 : twins(d->g, e->node, name, err);
}

/* What lands, against what the host has. */
static int read_host(struct dir *d, const char *above, struct cove_error *err)
{
	size_t layer = d->v[0]->layer;
	int fd = open_beneath(d->g->layers->v[layer].lower, *above ? above : ".",
			      O_RDONLY | O_DIRECTORY);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	int r = 0;

	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
		return 0; /* it is made, or replaced, by what lands: see view_build() */
	if (!dir) {
		r = fd < 0 ? -fd : errno;
		closep(&fd);
		return gate_found(d->g, RULE_UNCHECKED, d->v[0]->item, above, strerror(r),
				  err);
	}
	while (r == 0 && (errno = 0, e = readdir(dir)) != NULL)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = against(d, above, e->d_name, err);
	if (r == 0 && errno)
		r = gate_found(d->g, RULE_UNCHECKED, d->v[0]->item, above,
			       strerror(errno), err);
	closedir(dir);
	return r;
}

static int check_dir(struct gate *g, const struct node **v, size_t n,
		     struct cove_error *err)
{
	struct dir d = {.g = g, .v = v, .n = n, .keys = BUF_INIT((size_t)-1 / 2)};
	const char *name = last(v[0]->path);
	cleanup_free char *above =
		name == v[0]->path ? strdup("")
				   : strndup(v[0]->path, (size_t)(name - v[0]->path) - 1);
	const struct node *up =
		above && *above ? view_find(&g->view, v[0]->layer, above) : NULL;
	bool fresh = false;
	int r = 0;

	if (!above)
		return fail_nomem(err);
	for (size_t i = 0; i < n; i++)
		fresh |= v[i]->fresh && v[i]->mode;
	if (!fresh)
		return 0;
	r = fill(&d, err);
	if (r == 0 && !(up && up->fresh))
		r = read_host(&d, above, err);
	dir_clear(&d);
	return r;
}

/* ---- directory by directory ----------------------------------------------------- */

static int compare_dirs(const struct node *a, const struct node *b)
{
	size_t na = (size_t)(last(a->path) - a->path);
	size_t nb = (size_t)(last(b->path) - b->path);
	int r;

	if (a->layer != b->layer)
		return a->layer < b->layer ? -1 : 1;
	r = memcmp(a->path, b->path, min_size(na, nb));
	return r ? r : (na > nb) - (na < nb);
}

static int compare(const void *pa, const void *pb)
{
	const struct node *a = *(const struct node *const *)pa;
	const struct node *b = *(const struct node *const *)pb;
	int r = compare_dirs(a, b);

	return r ? r : strcmp(a->path, b->path);
}

int gate_check_names(struct gate *g, struct cove_error *err)
{
	size_t n = g->view.n;
	cleanup_free const struct node **v = calloc(n + 1, sizeof(*v));

	if (!v)
		return fail_nomem(err);
	for (size_t i = 0; i < n; i++) {
		v[i] = &g->view.nodes[i];
		if (check_name(g, v[i], err) < 0)
			return err->code;
	}
	if (n)
		qsort(v, n, sizeof(*v), compare);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && compare_dirs(v[i], v[end]) == 0; end++)
			;
		if (check_dir(g, v + i, end - i, err) < 0)
			return err->code;
	}
	return 0;
}
