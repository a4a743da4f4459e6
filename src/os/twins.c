/* SPDX-License-Identifier: Apache-2.0 */
#include "os/twins.h"

#include "base/util.h"

struct twin {
	dev_t dev;
	ino_t ino;
	char *path; /* NULL: an empty slot */
};

void twins_clear(struct twins *t)
{
	for (size_t i = 0; i < t->cap; i++)
		free(t->v[i].path);
	free(t->v);
	*t = (struct twins){0};
}

static struct twin *slot_of(struct twin *v, size_t cap, dev_t dev, ino_t ino)
{
	size_t i = (size_t)(ino * 0x9e3779b97f4a7c15ull >> 32) & (cap - 1);

	while (v[i].path && (v[i].ino != ino || v[i].dev != dev))
		i = (i + 1) & (cap - 1);
	return &v[i];
}

static int grow(struct twins *t)
{
	size_t cap = t->cap ? t->cap * 2 : 64;
	struct twin *v;

	if (t->n * 2 < t->cap)
		return 0;
	v = calloc(cap, sizeof(*v));
	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < t->cap; i++)
		if (t->v[i].path)
			*slot_of(v, cap, t->v[i].dev, t->v[i].ino) = t->v[i];
	free(t->v);
	t->v = v;
	t->cap = cap;
	return 0;
}

const char *twins_find(struct twins *t, const struct stat *st, const char *path,
		       int *ret_error)
{
	struct twin *s;

	*ret_error = 0;
	if (st->st_nlink < 2)
		return NULL;
	*ret_error = grow(t);
	if (*ret_error < 0)
		return NULL;
	s = slot_of(t->v, t->cap, st->st_dev, st->st_ino);
	if (s->path)
		return s->path;
	s->path = strdup(path);
	if (s->path) {
		s->dev = st->st_dev;
		s->ino = st->st_ino;
		t->n++;
	} else {
		*ret_error = -ENOMEM;
	}
	return NULL;
}
