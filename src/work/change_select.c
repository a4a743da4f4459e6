/* SPDX-License-Identifier: Apache-2.0 */
/* change_select - the paths that a user names: below a layer, absolute, or globs. */
#include "base/util.h"
#include "work/change_impl.h"

#include <stdio.h>

int selection_init(struct selection *s, const struct layers *l, const char *const *paths)
{
	size_t n = 0;

	while (paths && paths[n])
		n++;
	*s = (struct selection){.layers = l, .paths = n ? paths : NULL};
	if (n == 0)
		return 0;
	s->hit = calloc(n, sizeof(*s->hit));
	return s->hit ? 0 : -ENOMEM;
}

void selection_clear(struct selection *s)
{
	free(s->hit);
}

/* What is left of path below dir; NULL if it is not there. "": dir itself. */
static const char *below(const char *dir, const char *path)
{
	size_t n = strlen(dir);

	while (n && dir[n - 1] == '/')
		n--;
	if (strncmp(dir, path, n) != 0 || (path[n] && path[n] != '/'))
		return NULL;
	path += n;
	while (*path == '/')
		path++;
	return path;
}

/* The pattern as it reads below this layer; NULL: it is about another one. */
static const char *in_layer(const struct layer *l, const char *pattern)
{
	const char *rest;

	if (*pattern == '/') {
		rest = below(l->source, pattern);
		return rest ? rest : l->target ? below(l->target, pattern) : NULL;
	}
	while (pattern[0] == '.' && pattern[1] == '/') {
		pattern += 2;
		while (*pattern == '/')
			pattern++;
	}
	return strcmp(pattern, ".") == 0 ? "" : pattern;
}

static bool is_glob(const char *pattern)
{
	return strpbrk(pattern, "*?[") != NULL;
}

/* A name is that very path, or a directory with everything in it. */
static bool names(const char *pattern, const char *path)
{
	size_t n = strlen(pattern);

	while (n && pattern[n - 1] == '/')
		n--;
	return n == 0 ||
	       (strncmp(pattern, path, n) == 0 && (path[n] == '\0' || path[n] == '/'));
}

static bool fits(const struct layer *l, const char *pattern, const char *path)
{
	const char *local = in_layer(l, pattern);

	if (!local)
		return false;
	if (names(local, path))
		return true;
	if (!is_glob(local))
		return false;
	/* with its slash in front an absolute glob means that place only */
	if (*pattern == '/' && *local)
		local--;
	return path_match(local, path);
}

bool selection_has(struct selection *s, size_t layer, const char *path)
{
	const struct layer *l = &s->layers->v[layer];
	bool has = !s->paths;

	for (size_t i = 0; s->paths && s->paths[i]; i++) {
		if (has && s->hit[i])
			continue;
		if (!fits(l, s->paths[i], path))
			continue;
		has = s->hit[i] = true;
	}
	return has;
}

static bool exists(const struct layer *l, const char *pattern)
{
	const char *local = in_layer(l, pattern);
	cleanup_free char *path = local ? strdup(local) : NULL;
	struct ident id;

	if (!path)
		return false;
	for (size_t n = strlen(path); n && path[n - 1] == '/';)
		path[--n] = '\0';
	if (!*path)
		return true;
	return (ident_at(l->lower, path, &id) == 0 && id.mode) ||
	       (l->upper >= 0 && ident_at(l->upper, path, &id) == 0 && id.mode);
}

int selection_check(const struct selection *s, struct cove_error *err)
{
	for (size_t i = 0; s->paths && s->paths[i]; i++) {
		bool found = s->hit[i];

		for (size_t k = 0; !found && k < s->layers->n; k++)
			found = exists(&s->layers->v[k], s->paths[i]);
		if (!found)
			return fail(err, COVE_ENOENT, 0,
				    "%.300s: no such path, and no change matches",
				    s->paths[i]);
	}
	return 0;
}
