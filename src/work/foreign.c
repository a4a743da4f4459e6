/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign - what somebody put into directories that an apply made: an undo would have to
 * remove them, and may not.
 */
#include "work/land.h"

#include "base/util.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

/* The steps that put something into a directory, by layer and path. */
struct made {
	const struct step **v;
	size_t n;
};

static int by_place(const void *a, const void *b)
{
	const struct step *const *x = a, *const *y = b;

	if ((*x)->layer != (*y)->layer)
		return (*x)->layer < (*y)->layer ? -1 : 1;
	return strcmp((*x)->path, (*y)->path);
}

static int made_list(struct made *m, const struct journal *j)
{
	m->n = 0;
	m->v = calloc(j->n + 1, sizeof(*m->v));
	if (!m->v)
		return -ENOMEM;
	for (size_t i = 0; i < j->n; i++)
		if (j->v[i].kind == STEP_MKDIR || j->v[i].kind == STEP_NEW)
			m->v[m->n++] = &j->v[i];
	qsort(m->v, m->n, sizeof(*m->v), by_place);
	return 0;
}

static bool is_made(const struct made *m, uint32_t layer, char *path)
{
	const struct step probe = {.layer = layer, .path = path}, *key = &probe;

	return bsearch(&key, m->v, m->n, sizeof(*m->v), by_place) != NULL;
}

/* 1: there is something in the directory of s that no step put there; ret gets its name.
 */
static int find_foreign(int lower, const struct step *s, const struct made *m, char *ret,
			size_t size)
{
	int fd = open_beneath(lower, s->path, O_RDONLY | O_DIRECTORY), found = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	char path[PATH_MAX + NAME_MAX + 2];
	struct dirent *e;

	if (!d) {
		found = fd < 0 ? fd : -errno;
		close_fd(&fd);
		return found == -ENOENT || found == -ENOTDIR || found == -ELOOP ? 0
										: found;
	}
	while (!found && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", s->path, e->d_name);
		found = !is_made(m, s->layer, path);
		if (found)
			snprintf(ret, size, "%s", e->d_name);
	}
	closedir(d);
	return found;
}

int landing_check_foreign(const struct landing *l,
			  void (*fn)(void *arg, const struct step *s, const char *why),
			  void *arg, size_t *ret_bad, struct cove_error *err)
{
	struct made m;
	int r = made_list(&m, l->j);

	for (size_t i = 0; r >= 0 && i < l->j->n; i++) {
		const struct step *s = &l->j->v[i];
		char name[NAME_MAX + 1], why[NAME_MAX + 80];

		if (s->kind != STEP_MKDIR)
			continue;
		r = find_foreign(l->sites[s->layer].lower, s, &m, name, sizeof(name));
		if (r <= 0)
			continue;
		(*ret_bad)++;
		snprintf(why, sizeof(why), "the host put %s into it since the apply",
			 name);
		if (fn)
			fn(arg, s, why);
	}
	free(m.v);
	return r < 0 ? fail(err, COVE_EIO, -r, "look into the directories that were made")
		     : 0;
}
