/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate_executing - paths that make the host run code, directories that git would take for
 * a repository, and where symlinks lead.
 */
#include "work/gate_impl.h"

#include "base/util.h"

#include <sodium.h>
#include <stdio.h>

/* ---- the table of paths --------------------------------------------------------- */

/* Files of one repository's own data, which make one finding. */
struct member {
	size_t item, prefix; /* path up to the repository's directory */
	const char *path;
	const struct gate_path *rule;
};

struct members {
	struct member *v;
	size_t n, room;
};

static int join(struct members *m, const struct member *add)
{
	size_t room = m->room ? m->room * 2 : 64;
	struct member *v;

	if (m->n == m->room) {
		v = reallocarray(m->v, room, sizeof(*v));
		if (!v)
			return -ENOMEM;
		m->v = v;
		m->room = room;
	}
	m->v[m->n++] = *add;
	return 0;
}

/* 1: it was found, 0: not. */
static int check_path(struct gate *g, size_t i, const char *path, bool partial,
		      struct members *m, struct cove_error *err)
{
	struct member found = {.item = i, .path = path};
	unsigned char seal[GATE_DIGEST] = {0};

	found.rule = gate_path_match(path, partial, &found.prefix);
	if (!found.rule)
		return 0;
	if (found.rule->flags & RULE_GROUP)
		return join(m, &found) < 0 ? fail_nomem(err) : 1;
	if (g->n_found < GATE_FINDINGS_MAX && gate_seal(g, i, seal, err) < 0)
		return err->code;
	const struct gate_report report = {
		.rule = found.rule->id,
		.path = path,
		.why = found.rule->why,
		.item = i,
		.seal = seal,
		.seal_len = sizeof(seal),
	};
	return gate_report(g, &report, err) < 0 ? err->code : 1;
}

/* Are they data of the same repository? */
static int compare_groups(const struct gate *g, const struct member *a,
			  const struct member *b)
{
	size_t la = g->items[a->item].change->layer, lb = g->items[b->item].change->layer;
	int r = la == lb ? memcmp(a->path, b->path, min_size(a->prefix, b->prefix))
			 : (la > lb) - (la < lb);

	return r ? r : (a->prefix > b->prefix) - (a->prefix < b->prefix);
}

static int compare_members(const void *pa, const void *pb, void *arg)
{
	const struct member *a = pa, *b = pb;
	int r = compare_groups(arg, a, b);

	return r ? r : strcmp(a->path, b->path);
}

/* One finding; its id covers every file. */
static int report_group(struct gate *g, const struct member *v, size_t n,
			struct cove_error *err)
{
	cleanup_free char *path = strndup(v->path, v->prefix);
	unsigned char seal[GATE_DIGEST];
	crypto_generichash_state h;
	char why[120];

	if (!path)
		return fail_nomem(err);
	crypto_generichash_init(&h, NULL, 0, GATE_DIGEST);
	for (size_t i = 0; i < n; i++) {
		if (gate_seal(g, v[i].item, seal, err) < 0)
			return err->code;
		crypto_generichash_update(&h, (const unsigned char *)v[i].path,
					  strlen(v[i].path) + 1);
		crypto_generichash_update(&h, seal, sizeof(seal));
	}
	crypto_generichash_final(&h, seal, sizeof(seal));
	snprintf(why, sizeof(why), "%s: %zu path%s", v->rule->why, n, n == 1 ? "" : "s");
	return gate_report(g,
			   &(struct gate_report){
				   .rule = v->rule->id,
				   .path = path,
				   .why = why,
				   .item = v->item,
				   .seal = seal,
				   .seal_len = sizeof(seal),
			   },
			   err);
}

static int report_groups(struct gate *g, struct members *m, struct cove_error *err)
{
	if (m->n)
		qsort_r(m->v, m->n, sizeof(*m->v), compare_members, g);
	for (size_t i = 0, end; i < m->n; i = end) {
		for (end = i + 1;
		     end < m->n && compare_groups(g, &m->v[i], &m->v[end]) == 0; end++)
			;
		if (report_group(g, m->v + i, end - i, err) < 0)
			return err->code;
	}
	return 0;
}

/* ---- repositories without .git -------------------------------------------------- */

/* git looks for these in the working directory and above; with the first, and the second
 * or the last two, it believes the settings beside them. */
enum { HEAD, COMMONDIR, OBJECTS, REFS, N_MARKS };
static const char *const marks[N_MARKS] = {"HEAD", "commondir", "objects", "refs"};
static const char *const parts[] = {"head", "commondir", "objects",
				    "refs", "config",    "hooks"};

static bool is_part(const char *name)
{
	cleanup_buf struct buf key = BUF_INIT(1u << 16);

	if (gate_fold(&key, name, strlen(name)) < 0)
		return true;
	for (size_t k = 0; k < ARRAY_LEN(parts); k++)
		if (key.data && strcmp(key.data, parts[k]) == 0)
			return true;
	return false;
}

static int check_repository(struct gate *g, size_t i, struct cove_error *err)
{
	const struct change *c = g->items[i].change;
	const char *slash = strrchr(c->path, '/');
	int above = slash ? (int)(slash - c->path) + 1 : 0;
	bool there[N_MARKS];

	if (!item_lands(&g->items[i]) || !is_part(c->path + above))
		return 0;
	for (size_t k = 0; k < N_MARKS; k++) {
		cleanup_buf struct buf target = BUF_INIT(1u << 16);
		cleanup_free char *path = NULL;
		uint32_t mode = 0;

		if (asprintf(&path, "%.*s%s", above, c->path, marks[k]) < 0)
			return fail_nomem(err);
		/* What cannot be told counts as there. */
		there[k] = view_lookup(&g->view, c->layer, path, &mode, &target) < 0 ||
			   mode != 0;
	}
	if (!there[HEAD] || !(there[COMMONDIR] || (there[OBJECTS] && there[REFS])))
		return 0;
	return gate_found(g, RULE_BARE_REPOSITORY, i, NULL, NULL, err);
}

int gate_check_executing(struct gate *g, struct cove_error *err)
{
	struct members m = {0};
	int r = 0;

	for (size_t i = 0; r >= 0 && i < g->n; i++) {
		const struct gate_item *it = &g->items[i];
		const struct change *c = it->change;

		if (g->barred[i])
			continue;
		r = check_path(g, i, c->path, item_lands(it) && !S_ISDIR(it->mode), &m,
			       err);
		if (r == 0)
			r = check_repository(g, i, err);
		if (r >= 0 && c->from)
			r = check_path(g, i, c->from, false, &m, err);
	}
	if (r >= 0)
		r = report_groups(g, &m, err);
	free(m.v);
	return r;
}

/* ---- symlinks ------------------------------------------------------------------- */

/* "a/../b": what it means depends on what a is, which may change after this apply. */
static bool has_detour(const char *target)
{
	bool name = false;

	for (const char *p = target; *p;) {
		size_t n = strcspn(p, "/");
		bool up = n == 2 && p[0] == '.' && p[1] == '.';

		if (up && name)
			return true;
		name |= n > 0 && !up && !(n == 1 && p[0] == '.');
		p += n + (p[n] == '/');
	}
	return false;
}

static int check_way(struct gate *g, size_t i, const char *target, struct cove_error *err)
{
	static const int rules[] = {
		[WALK_LEAVES] = RULE_SYMLINK_LEAVES,
		[WALK_LOOPS] = RULE_SYMLINK_LOOP,
		[WALK_UNKNOWN] = RULE_UNCHECKED,
	};
	const struct change *c = g->items[i].change;
	cleanup_buf struct buf at = BUF_INIT(1u << 16);
	enum walk w = view_walk(&g->view, c->layer, c->path, target, &at);
	const char *why = NULL;

	if (w != WALK_STAYS)
		return gate_found(g, (enum gate_rule_id)rules[w], i, NULL, NULL, err);
	if (at.len && gate_executing_path(at.data, &why))
		return gate_found(g, RULE_SYMLINK_EXECUTING, i, NULL, why, err);
	return 0;
}

int gate_check_symlink(struct gate *g, size_t i, struct cove_error *err)
{
	const struct gate_item *it = &g->items[i];
	const char *target = it->target;
	int rule;

	if (!target || !*target)
		return gate_found(g, RULE_UNREADABLE, i, NULL, "no target", err);
	rule = gate_name_problem(target, strlen(target));
	if (rule >= 0 && gate_found(g, (enum gate_rule_id)rule, i, NULL,
				    "in the symlink's target", err) < 0)
		return err->code;
	if (S_ISDIR(it->change->old.mode) &&
	    gate_found(g, RULE_DIR_TO_SYMLINK, i, NULL, NULL, err) < 0)
		return err->code;
	if (target[0] == '/')
		return gate_found(g, RULE_SYMLINK_ABSOLUTE, i, NULL, NULL, err);
	if (has_detour(target) &&
	    gate_found(g, RULE_SYMLINK_DETOUR, i, NULL, NULL, err) < 0)
		return err->code;
	return check_way(g, i, target, err);
}
