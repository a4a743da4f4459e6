/* SPDX-License-Identifier: Apache-2.0 */
/* change_list.h - the change list of a fixture, and what is in it. */
#ifndef COVE_CHANGE_LIST_H
#define COVE_CHANGE_LIST_H

#include "layer_fixture.h"
#include "tap.h"
#include "work/change.h"

static inline const struct change *find(const struct changes *c, const char *path)
{
	for (size_t i = 0; i < c->n; i++)
		if (strcmp(c->v[i].path, path) == 0)
			return &c->v[i];
	return NULL;
}

static inline bool is(const struct changes *c, const char *path, uint32_t kind,
		      uint32_t what)
{
	const struct change *f = find(c, path);

	if (f && f->kind == kind && f->what == what)
		return true;
	printf("# %s: kind %u what %x %s\n", path, f ? f->kind : 0, f ? f->what : 0,
	       f ? f->why : "");
	return false;
}

static inline struct changes list_of(const struct fixture *f, const char *const *paths,
				     uint32_t flags)
{
	struct cove_error err = {0};
	struct changes c = {0};

	OK(changes_list(&c, &f->layers, NULL, paths, flags, &err) == 0, "listed %s",
	   err.msg);
	return c;
}

#endif
