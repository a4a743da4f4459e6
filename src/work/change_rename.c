/* SPDX-License-Identifier: Apache-2.0 */
/*
 * change_rename - which deleted file is which new one.
 *
 * Only what is provable: overlayfs noted in the new file which file of the host it was
 * copied from; or both have the same content, and no other deleted or new file has it. A
 * rename is for the reader: what it does to the host is the same as before.
 */
#include "base/util.h"
#include "work/change_impl.h"
#include "work/content.h"

#include <fcntl.h>
#include <stdio.h>

#define READ_TOTAL_MAX ((uint64_t)512 << 20) /* content that is looked at, in all */

struct candidate {
	size_t at; /* in the list */
	bool is_new;
	uint64_t size;
	size_t n; /* of key; 0: none */
	uint8_t key[ORIGIN_MAX];
};

struct search {
	struct changes *list;
	const struct layers *layers;
	struct candidate *v;
	size_t n;
	size_t *pair; /* of a change: its other half, or NONE */
	uint64_t budget;
};

#define NONE SIZE_MAX

static const struct change *change_of(const struct search *s, const struct candidate *c)
{
	return &s->list->v[c->at];
}

static bool is_candidate(const struct search *s, size_t i)
{
	const struct change *c = &s->list->v[i];
	const struct ident *id = c->kind == COVE_ADDED ? &c->new : &c->old;

	return s->pair[i] == NONE && (c->kind == COVE_ADDED || c->kind == COVE_DELETED) &&
	       S_ISREG(id->mode) && !(c->what & COVE_WHAT_UNREADABLE);
}

/* Those of one layer that are not matched yet; false if a side has none. */
static bool gather(struct search *s, size_t layer)
{
	size_t new = 0;

	s->n = 0;
	for (size_t i = 0; i < s->list->n; i++) {
		const struct change *c = &s->list->v[i];

		if (c->layer != layer || !is_candidate(s, i))
			continue;
		s->v[s->n] = (struct candidate){.at = i, .is_new = c->kind == COVE_ADDED};
		s->v[s->n].size = s->v[s->n].is_new ? c->new.size : c->old.size;
		new += s->v[s->n++].is_new;
	}
	return new &&new < s->n;
}

static int by_key(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->n != y->n)
		return x->n < y->n ? -1 : 1;
	return x->n ? memcmp(x->key, y->key, x->n) : 0;
}

static int by_size(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return x->size < y->size ? -1 : x->size > y->size;
}

/* Exactly one deleted and one new file with the same key belong together. */
static void match(struct search *s)
{
	qsort(s->v, s->n, sizeof(*s->v), by_key);
	for (size_t i = 0, end; i < s->n; i = end) {
		for (end = i + 1; end < s->n && by_key(&s->v[i], &s->v[end]) == 0;)
			end++;
		if (s->v[i].n && end - i == 2 && s->v[i].is_new != s->v[i + 1].is_new) {
			s->pair[s->v[i].at] = s->v[i + 1].at;
			s->pair[s->v[i + 1].at] = s->v[i].at;
		}
	}
}

/* ---- by origin ------------------------------------------------------------------- */

static void read_origin(const struct search *s, struct candidate *c)
{
	const struct layer *l = &s->layers->v[change_of(s, c)->layer];
	const char *name;
	cleanup_fd int dir = open_parent(c->is_new ? l->upper : l->lower,
					 change_of(s, c)->path, &name);

	if (dir >= 0)
		c->n = c->is_new ? origin_noted(dir, name, c->key)
				 : origin_of(dir, name, c->key);
}

/* Those of the host are only asked for if there is a note that could name them. */
static void read_origins(const struct search *s)
{
	bool noted = false;

	for (size_t k = 0; k < s->n; k++) {
		if (s->v[k].is_new)
			read_origin(s, &s->v[k]);
		noted |= s->v[k].n != 0;
	}
	for (size_t k = 0; noted && k < s->n; k++)
		if (!s->v[k].is_new)
			read_origin(s, &s->v[k]);
}

/* ---- by content ------------------------------------------------------------------ */

static void read_digest(struct search *s, struct candidate *c)
{
	const struct change *what = change_of(s, c);
	char hex[DIGEST_HEX];
	cleanup_fd int fd = -1;

	if (c->size > s->budget)
		return;
	s->budget -= c->size;
	fd = c->is_new ? change_open_new(s->layers, what)
		       : change_open_old(s->layers, what);
	if (fd < 0 || content_digest(fd, c->size, hex) < 0)
		return;
	memcpy(c->key, hex, DIGEST_HEX - 1);
	c->n = DIGEST_HEX - 1;
}

/* Only sizes that are on both sides are worth reading. An empty file proves nothing. */
static void read_digests(struct search *s)
{
	qsort(s->v, s->n, sizeof(*s->v), by_size);
	for (size_t i = 0, end; i < s->n; i = end) {
		bool new = false, old = false;

		for (end = i; end < s->n && s->v[end].size == s->v[i].size; end++) {
			new |= s->v[end].is_new;
			old |= !s->v[end].is_new;
		}
		for (size_t k = i; new &&old && s->v[i].size &&k < end; k++)
			read_digest(s, &s->v[k]);
	}
}

/* ---- the result ------------------------------------------------------------------ */

static int parents_of(const struct layers *l, const struct change *c, const char *from,
		      int ret[2], const char *ret_name[2])
{
	const struct layer *y = &l->v[c->layer];

	ret[0] = open_parent(y->upper, c->path, &ret_name[0]);
	if (ret[0] < 0)
		return ret[0];
	ret[1] = open_parent(y->lower, from, &ret_name[1]);
	if (ret[1] >= 0)
		return 0;
	close(ret[0]);
	return ret[1];
}

/* What else changed on the way. What cannot be compared counts as different. */
static uint32_t differences(const struct layers *l, const struct change *new,
			    const struct change *old)
{
	cleanup_fd int a = change_open_new(l, new), b = change_open_old(l, old);
	uint32_t what = 0;
	const char *name[2];
	int dir[2];

	if (a < 0 || b < 0 || new->new.size != old->old.size || content_same(a, b) != 1)
		what |= COVE_WHAT_CONTENT;
	if ((new->new.mode ^ old->old.mode) & 07777)
		what |= COVE_WHAT_MODE;
	if (new->new.uid != old->old.uid || new->new.gid != old->old.gid)
		what |= COVE_WHAT_OWNER;
	if (parents_of(l, new, old->path, dir, name) < 0)
		return what;
	if (attrs_same(dir[0], name[0], dir[1], name[1]) != 1)
		what |= COVE_WHAT_XATTR;
	close(dir[0]);
	close(dir[1]);
	return what;
}

static void join(struct change *new, struct change *old, const struct layers *l)
{
	new->what = differences(l, new, old);
	new->kind = COVE_RENAMED;
	new->old = old->old;
	new->from = take_ptr(old->path);
}

static void join_all(struct search *s)
{
	struct changes *c = s->list;
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++)
		if (s->pair[i] != NONE && c->v[i].kind == COVE_ADDED)
			join(&c->v[i], &c->v[s->pair[i]], s->layers);
	for (size_t i = 0; i < c->n; i++) {
		if (!c->v[i].path)
			change_clear(&c->v[i]);
		else if (n++ != i)
			c->v[n - 1] = c->v[i];
	}
	c->n = n;
}

int changes_find_renames(struct changes *c, const struct layers *l)
{
	cleanup_free struct candidate *v = calloc(c->n + 1, sizeof(*v));
	cleanup_free size_t *pair = calloc(c->n + 1, sizeof(*pair));
	struct search s = {
		.list = c, .layers = l, .v = v, .pair = pair, .budget = READ_TOTAL_MAX};

	if (!v || !pair)
		return -ENOMEM;
	for (size_t i = 0; i < c->n; i++)
		pair[i] = NONE;
	for (size_t i = 0; i < l->n; i++) {
		if (!gather(&s, i))
			continue;
		read_origins(&s);
		match(&s);
		if (!gather(&s, i))
			continue;
		read_digests(&s);
		match(&s);
	}
	join_all(&s);
	return 0;
}
