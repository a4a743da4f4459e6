/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steps - from the changes that are to land to the journal: what is in the way goes
 * first, deepest first; then directories; then files and symlinks; then the modes of
 * directories.
 */
#include "work/apply_impl.h"

#include "base/util.h"

static int add(struct apply *a, enum step_kind kind, size_t i, struct cove_error *err)
{
	const struct change *c = &a->changes.v[i];
	const struct item *it = &a->items[i];
	struct step *s = &a->j.v[a->j.n];

	*s = (struct step){
		.kind = kind,
		.layer = (uint32_t)c->layer,
		.stage = (uint32_t)i,
		.whole = it->whole,
		.old = it->now,
		.new = it->landed,
		.upper = c->new,
		.path = strdup(c->path),
	};
	if (!s->path)
		return fail_nomem(err);
	a->j.n++;
	return 0;
}

static bool lands(const struct apply *a, size_t i)
{
	return a->items[i].take && a->items[i].verdict != VERDICT_SAME;
}

/* A path that is a directory before, or after. */
static bool old_dir(const struct apply *a, size_t i)
{
	return S_ISDIR(a->items[i].now.mode);
}

static bool new_dir(const struct apply *a, size_t i)
{
	return S_ISDIR(a->changes.v[i].new.mode);
}

static bool goes_away(const struct apply *a, size_t i)
{
	return a->items[i].now.mode &&
	       (!a->changes.v[i].new.mode || old_dir(a, i) != new_dir(a, i));
}

static int add_removals(struct apply *a, struct cove_error *err)
{
	int r = 0;

	for (size_t i = a->changes.n; r == 0 && i-- > 0;) {
		if (!lands(a, i) || !goes_away(a, i))
			continue;
		/* What goes away goes into the stage, even if nothing was copied there.
		 */
		r = stage_make(&a->landing, a->changes.v[i].layer, err);
		if (r == 0)
			r = add(a, old_dir(a, i) ? STEP_RMDIR : STEP_REMOVE, i, err);
	}
	return r;
}

static int add_dirs(struct apply *a, struct cove_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < a->changes.n; i++)
		if (lands(a, i) && new_dir(a, i) && !old_dir(a, i))
			r = add(a, STEP_MKDIR, i, err);
	return r;
}

static int add_files(struct apply *a, struct cove_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < a->changes.n; i++) {
		if (!lands(a, i) || !a->items[i].staged)
			continue;
		r = add(a,
			a->items[i].now.mode && !old_dir(a, i) ? STEP_EXCHANGE : STEP_NEW,
			i, err);
	}
	return r;
}

static int add_modes(struct apply *a, struct cove_error *err)
{
	int r = 0;

	for (size_t i = a->changes.n; r == 0 && i-- > 0;) {
		if (!lands(a, i) || !new_dir(a, i))
			continue;
		r = add(a, STEP_ATTRS, i, err);
		if (r == 0 && !old_dir(a, i)) /* it was made a moment before */
			a->j.v[a->j.n - 1].old.mode = 0;
	}
	return r;
}

static int add_same(struct apply *a, struct cove_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < a->changes.n; i++)
		if (a->items[i].take && a->items[i].verdict == VERDICT_SAME)
			r = add(a, STEP_SAME, i, err);
	return r;
}

int steps_build(struct apply *a, struct cove_error *err)
{
	/* a change is at most: remove, mkdir, attributes */
	a->j.v = calloc(a->changes.n * 3 + 1, sizeof(*a->j.v));
	if (!a->j.v)
		return fail_nomem(err);
	if (add_removals(a, err) < 0 || add_dirs(a, err) < 0 || add_files(a, err) < 0 ||
	    add_modes(a, err) < 0)
		return err->code;
	return add_same(a, err);
}
