/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate - runs the checks and gathers what they find.
 *
 * Every check reports through gate_report(), which makes the finding's id: a hash of
 * rule, mount, path and what would land. An acceptance therefore holds for one offence of
 * one path with one content, and for nothing else.
 */
#include "work/gate_impl.h"

#include "base/util.h"

#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>

#define MIB (1024u * 1024u)
#define MAX_FILE_MIB 10
#define MAX_TOTAL_MIB 100

int gate_item_open(const struct gate_item *i)
{
	int fd;

	if (i->dir < 0)
		return -ENODATA;
	fd = openat(i->dir, i->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

bool item_lands(const struct gate_item *it)
{
	return it->mode != 0;
}

bool item_has_content(const struct gate_item *it)
{
	const struct change *c = it->change;

	return S_ISREG(it->mode) &&
	       !(c->kind == COVE_ATTRS && !(c->what & COVE_WHAT_CONTENT));
}

/* ---- findings ------------------------------------------------------------------- */

static void finding_clear(struct finding *f)
{
	free(f->path);
	free(f->inner);
	free(f->why);
	free(f->excerpt);
}

void findings_clear(struct findings *f)
{
	for (size_t i = 0; i < f->n; i++)
		finding_clear(&f->v[i]);
	free(f->v);
	*f = (struct findings){0};
}

static void hash_text(crypto_generichash_state *h, const char *text)
{
	crypto_generichash_update(h, (const unsigned char *)text, strlen(text) + 1);
}

static const char *source_of(const struct gate *g, size_t item)
{
	return item < g->n ? g->layers->v[g->items[item].change->layer].source : "";
}

static void make_id(const struct gate *g, const struct gate_report *r, char out[17])
{
	unsigned char hash[16];
	crypto_generichash_state h;

	crypto_generichash_init(&h, NULL, 0, sizeof(hash));
	hash_text(&h, r->rule);
	hash_text(&h, source_of(g, r->item));
	hash_text(&h, r->path);
	hash_text(&h, r->inner ? r->inner : "");
	crypto_generichash_update(&h, r->seal, r->seal_len);
	crypto_generichash_final(&h, hash, sizeof(hash));
	sodium_bin2hex(out, 17, hash, 8);
}

static struct finding *next_finding(struct gate *g)
{
	size_t room = g->room ? g->room * 2 : 64;
	struct finding *v;

	if (g->n_found == g->room) {
		v = reallocarray(g->found, room, sizeof(*v));
		if (!v)
			return NULL;
		g->found = v;
		g->room = room;
	}
	g->found[g->n_found] = (struct finding){0};
	return &g->found[g->n_found];
}

int gate_report(struct gate *g, const struct gate_report *r, struct cove_error *err)
{
	struct finding *f;

	if (g->n_found >= GATE_FINDINGS_MAX) {
		g->overflow = true;
		return 0;
	}
	f = next_finding(g);
	if (!f)
		return fail_nomem(err);
	make_id(g, r, f->id);
	snprintf(f->rule, sizeof(f->rule), "%s", r->rule);
	f->path = strdup(r->path);
	f->inner = strdup(r->inner ? r->inner : "");
	f->why = strdup(r->why);
	f->excerpt = strdup(r->excerpt ? r->excerpt : "");
	f->line = r->line;
	f->flags = r->flags & RULE_HARD ? COVE_FINDING_HARD : 0;
	f->item = r->item;
	if (!f->path || !f->inner || !f->why || !f->excerpt) {
		finding_clear(f);
		return fail_nomem(err);
	}
	g->n_found++;
	return 0;
}

int gate_found(struct gate *g, enum gate_rule_id rule, size_t i, const char *path,
	       const char *detail, struct cove_error *err)
{
	const struct gate_rule *r = &gate_rules[rule];
	unsigned char seal[GATE_DIGEST] = {0};
	char why[600];

	if (g->n_found >= GATE_FINDINGS_MAX) {
		g->overflow = true;
		return 0; /* before the cost of a digest */
	}
	/* What cannot be accepted needs no digest: nobody gives its id back. */
	if (!(r->flags & RULE_HARD) && i < g->n && gate_seal(g, i, seal, err) < 0)
		return err->code;
	snprintf(why, sizeof(why), detail ? "%s: %.500s" : "%s", r->why, detail);
	return gate_report(g,
			   &(struct gate_report){
				   .rule = r->id,
				   .path = path       ? path
					   : i < g->n ? g->items[i].change->path
						      : "",
				   .why = why,
				   .flags = r->flags,
				   .item = i,
				   .seal = seal,
				   .seal_len = sizeof(seal),
			   },
			   err);
}

/* ---- the result ----------------------------------------------------------------- */

static int compare(const void *pa, const void *pb)
{
	const struct finding *a = pa, *b = pb;
	int r = strcmp(a->path, b->path);

	if (r == 0)
		r = strcmp(a->rule, b->rule);
	if (r == 0)
		r = (a->line > b->line) - (a->line < b->line);
	if (r == 0)
		r = strcmp(a->inner, b->inner);
	return r ? r : strcmp(a->id, b->id);
}

static bool is_accepted(const struct gate_config *c, const char *id)
{
	for (const char *const *p = c->accept; p && *p; p++)
		if (strcmp(*p, id) == 0)
			return true;
	return false;
}

static int finish(struct gate *g, struct findings *ret, struct cove_error *err)
{
	struct findings f;

	if (g->overflow) {
		g->n_found--; /* its place */
		finding_clear(&g->found[g->n_found]);
		if (gate_found(g, RULE_TOO_MANY, NO_ITEM, "", NULL, err) < 0)
			return err->code;
	}
	if (g->n_found)
		qsort(g->found, g->n_found, sizeof(*g->found), compare);
	f = (struct findings){take_ptr(g->found), g->n_found, 0};
	g->n_found = 0;
	for (size_t i = 0; i < f.n; i++) {
		if (!(f.v[i].flags & COVE_FINDING_HARD) &&
		    is_accepted(g->config, f.v[i].id))
			f.v[i].flags |= COVE_FINDING_ACCEPTED;
		f.open += !(f.v[i].flags & COVE_FINDING_ACCEPTED);
	}
	*ret = f;
	return 0;
}

/* ---- the run -------------------------------------------------------------------- */

static uint64_t limit_of(const struct gate_config *c, const char *key, uint64_t usual)
{
	const json_t *v = c->spec ? json_object_get(c->spec, key) : NULL;
	json_int_t n = json_is_integer(v) ? json_integer_value(v) : (json_int_t)usual;

	return n < 0 ? 0 : (uint64_t)n * MIB;
}

/* Paths that are wrong as such are told apart first: nothing else looks at them. */
static int bar_paths(struct gate *g, struct cove_error *err)
{
	for (size_t i = 0; i < g->n; i++) {
		const struct change *c = g->items[i].change;
		int rule;

		if (c->layer >= g->layers->n)
			return fail(err, COVE_EINVAL, 0, "gate: no layer %zu", c->layer);
		rule = gate_path_problem(c->path, strlen(g->layers->v[c->layer].source));
		if (rule < 0)
			continue;
		g->barred[i] = true;
		if (gate_found(g, (enum gate_rule_id)rule, i, NULL, NULL, err) < 0)
			return err->code;
	}
	return 0;
}

static int run(struct gate *g, struct cove_error *err)
{
	g->barred = calloc(g->n + 1, sizeof(*g->barred));
	g->digests = calloc(g->n + 1, sizeof(*g->digests));
	g->digest_known = calloc(g->n + 1, 1);
	if (!g->barred || !g->digests || !g->digest_known)
		return fail_nomem(err);
	if (sodium_init() < 0)
		return fail(err, COVE_EIO, 0, "gate: libsodium");
	if (bar_paths(g, err) < 0 || view_build(g, err) < 0 ||
	    gate_check_items(g, err) < 0 || gate_check_names(g, err) < 0 ||
	    gate_check_executing(g, err) < 0 || gate_check_secrets(g, err) < 0)
		return err->code;
	return 0;
}

int gate_run(const struct layers *l, const struct gate_config *c,
	     const struct gate_item *items, size_t n, struct findings *ret,
	     struct cove_error *err)
{
	struct gate g = {
		.layers = l,
		.config = c,
		.items = items,
		.n = n,
		.max_file = limit_of(c, "maxFileMiB", MAX_FILE_MIB),
		.max_total = limit_of(c, "maxTotalMiB", MAX_TOTAL_MIB),
	};
	int r = run(&g, err);

	if (r == 0)
		r = finish(&g, ret, err);
	for (size_t i = 0; i < g.n_found; i++)
		finding_clear(&g.found[i]);
	free(g.found);
	free(g.barred);
	free(g.digests);
	free(g.digest_known);
	view_clear(&g.view);
	return r < 0 ? wrap(err, "gate") : 0;
}
