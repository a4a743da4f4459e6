/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules - from the tree of a rule file to struct rules.
 *
 * Loading is layered as in gitleaks: a file that extends the default set starts from the
 * built-in rules, and a rule of the same id changes the keys it names and adds to lists.
 */
#include "scan/rules.h"

#include "base/util.h"
#include "scan/toml.h"

#include <ctype.h>

#define MEMORY_MAX (64u << 20)

struct loader {
	struct rules *r;
	size_t cap;
	struct cove_error *err;
	bool built_in;
	const struct toml *disabled;
};

/* ---- leaves ----------------------------------------------------------------------- */

static int wrong(struct loader *l, const struct toml *t, const char *why)
{
	return fail(l->err, COVE_EINVAL, 0, "line %u: %s: %s", t->line,
		    t->key ? t->key : "", why);
}

static int get_text(struct loader *l, const struct toml *table, const char *key,
		    const char **ret, size_t *ret_len)
{
	const struct toml *t = toml_get(table, key);

	if (!t)
		return 0;
	if (t->type != TOML_STRING)
		return wrong(l, t, "not a text");
	*ret = pool_copy(&l->r->pool, t->text, t->len);
	if (ret_len)
		*ret_len = t->len;
	return *ret ? 0 : fail_nomem(l->err);
}

static const char *lower(struct pool *pool, const struct toml *t)
{
	char *s = pool_copy(pool, t->text, t->len);

	for (size_t i = 0; s && i < t->len; i++)
		s[i] = (char)tolower((unsigned char)s[i]);
	return s;
}

/* Appends a list of texts to *w; fold: in lower case. */
static int get_words(struct loader *l, const struct toml *table, const char *key,
		     struct words *w, bool fold)
{
	const struct toml *t = toml_get(table, key);
	struct pool *pool = &l->r->pool;
	const char **v;

	if (!t)
		return 0;
	if (t->type != TOML_ARRAY)
		return wrong(l, t, "not a list");
	v = pool_alloc(pool, (w->n + t->n) * sizeof(*v));
	if (!v)
		return fail_nomem(l->err);
	if (w->n)
		memcpy(v, w->v, w->n * sizeof(*v));
	w->v = v;
	for (const struct toml *c = t->first; c; c = c->next) {
		if (c->type != TOML_STRING)
			return wrong(l, t, "not a list of texts");
		v[w->n] = fold ? lower(pool, c) : pool_copy(pool, c->text, c->len);
		if (!v[w->n++])
			return fail_nomem(l->err);
	}
	return 0;
}

static int get_pattern(struct loader *l, const struct toml *t, struct pattern *p)
{
	if (t->type != TOML_STRING)
		return wrong(l, t, "not a text");
	p->source = pool_copy(&l->r->pool, t->text, t->len);
	p->len = t->len;
	if (!p->source)
		return fail_nomem(l->err);
	/* The built-in ones were checked when this program was built. */
	return l->built_in ? 0 : pattern_check(p, l->err);
}

static int get_patterns(struct loader *l, const struct toml *table, const char *key,
			struct patterns *p)
{
	const struct toml *t = toml_get(table, key);

	if (!t)
		return 0;
	if (t->type != TOML_ARRAY)
		return wrong(l, t, "not a list");
	p->v = pool_alloc(&l->r->pool, t->n * sizeof(*p->v));
	if (!p->v)
		return fail_nomem(l->err);
	for (const struct toml *c = t->first; c; c = c->next)
		if (get_pattern(l, c, &p->v[p->n++]) < 0)
			return wrap(l->err, "line %u: %s", c->line, key);
	return 0;
}

/* ---- allowlists ------------------------------------------------------------------- */

static int get_choice(struct loader *l, const struct toml *table, const char *key,
		      const char *const *names, size_t n, int *ret)
{
	const struct toml *t = toml_get(table, key);

	if (!t)
		return 0;
	if (t->type == TOML_STRING)
		for (size_t i = 0; i < n; i++)
			if (strcasecmp(t->text, names[i]) == 0) {
				*ret = (int)i;
				return 0;
			}
	return wrong(l, t, "not one of the values it can have");
}

static int get_allowlist(struct loader *l, const struct toml *t, struct allowlist *a)
{
	static const char *const conditions[] = {"or", "||", "", "and", "&&"};
	static const char *const targets[] = {"secret", "match", "line", ""};
	int condition = 0, target = 0;

	if (t->type != TOML_TABLE)
		return wrong(l, t, "not a table");
	if (get_choice(l, t, "condition", conditions, ARRAY_LEN(conditions), &condition) <
		    0 ||
	    get_choice(l, t, "regexTarget", targets, ARRAY_LEN(targets), &target) < 0 ||
	    get_patterns(l, t, "regexes", &a->regexes) < 0 ||
	    get_patterns(l, t, "paths", &a->paths) < 0 ||
	    get_words(l, t, "stopwords", &a->stopwords, true) < 0 ||
	    get_words(l, t, "targetRules", &a->rules, false) < 0)
		return l->err->code;
	a->all = condition >= 3;
	a->target = target == 3 ? TARGET_SECRET : (enum target)target;
	return 0;
}

/* Both spellings: a table `one`, a list of tables `many`. */
static int get_allowlists(struct loader *l, const struct toml *table,
			  struct allowlists *ret)
{
	const struct toml *one = toml_get(table, "allowlist");
	const struct toml *many = toml_get(table, "allowlists");
	size_t n = ret->n + (one ? 1u : 0) + (many ? many->n : 0);
	struct allowlist *v = pool_alloc(&l->r->pool, n * sizeof(*v));

	if (!v)
		return fail_nomem(l->err);
	if (many && many->type != TOML_ARRAY)
		return wrong(l, many, "not a list of tables");
	if (ret->n)
		memcpy(v, ret->v, ret->n * sizeof(*v));
	ret->v = v;
	if (one && get_allowlist(l, one, &v[ret->n++]) < 0)
		return l->err->code;
	for (const struct toml *t = many ? many->first : NULL; t; t = t->next)
		if (get_allowlist(l, t, &v[ret->n++]) < 0)
			return l->err->code;
	return 0;
}

/* ---- rules ------------------------------------------------------------------------ */

static struct rule *find_rule(const struct rules *r, const char *id)
{
	for (size_t i = 0; i < r->n; i++)
		if (strcmp(r->rule[i].id, id) == 0)
			return &r->rule[i];
	return NULL;
}

static int get_number(struct loader *l, const struct toml *table, const char *key,
		      double max, double *ret)
{
	const struct toml *t = toml_get(table, key);

	if (!t)
		return 0;
	if ((t->type != TOML_INT && t->type != TOML_FLOAT) || !(t->real >= 0) ||
	    t->real > max)
		return wrong(l, t, "not a number it can have");
	if (t->real != 0)
		*ret = t->real;
	return 0;
}

static int get_one(struct loader *l, const struct toml *table, const char *key,
		   struct pattern *p)
{
	const struct toml *t = toml_get(table, key);

	if (!t || (t->type == TOML_STRING && t->len == 0))
		return 0;
	pattern_clear(p);
	return get_pattern(l, t, p) < 0 ? wrap(l->err, "line %u: %s", t->line, key) : 0;
}

static int fill_rule(struct loader *l, const struct toml *t, struct rule *r)
{
	const struct toml *skip = toml_get(t, "skipReport");
	const struct toml *regex = toml_get(t, "regex");
	double group = r->group;

	if (get_text(l, t, "description", &r->what, NULL) < 0 ||
	    get_one(l, t, "regex", &r->regex) < 0 ||
	    get_one(l, t, "path", &r->path) < 0 ||
	    get_words(l, t, "keywords", &r->keywords, true) < 0 ||
	    get_number(l, t, "entropy", 8, &r->entropy) < 0 ||
	    get_number(l, t, "secretGroup", PATTERN_GROUPS - 1, &group) < 0 ||
	    get_allowlists(l, t, &r->allow) < 0)
		return l->err->code;
	r->group = (uint32_t)group;
	if (skip && skip->type == TOML_BOOL)
		r->off = skip->yes;
	if (regex && !l->built_in)
		r->built_in = -1;
	if (!r->regex.source && !r->path.source)
		return fail(l->err, COVE_EINVAL, 0, "it has neither regex nor path");
	if (r->regex.checked > 0 && r->group > r->regex.re.groups)
		return fail(l->err, COVE_EINVAL, 0, "secretGroup %u, but %u groups",
			    r->group, r->regex.re.groups);
	return 0;
}

static struct rule *new_rule(struct loader *l)
{
	struct rules *r = l->r;

	if (r->n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 128;
		struct rule *v = cap <= RULES_MAX * 2
					 ? reallocarray(r->rule, cap, sizeof(*v))
					 : NULL;

		if (!v) {
			fail(l->err, COVE_EINVAL, 0, "too many rules");
			return NULL;
		}
		r->rule = v;
		l->cap = cap;
	}
	r->rule[r->n] = (struct rule){.id = "", .what = "", .built_in = -1};
	return &r->rule[r->n];
}

static int add_rule(struct loader *l, const struct toml *t)
{
	const char *id = "";
	struct rule *r;

	if (get_text(l, t, "id", &id, NULL) < 0)
		return l->err->code;
	if (!*id)
		return fail(l->err, COVE_EINVAL, 0, "line %u: a rule without id",
			    t->line);
	r = find_rule(l->r, id);
	if (!r) {
		r = new_rule(l);
		if (!r)
			return l->err->code;
		r->id = id;
		if (l->built_in)
			r->built_in = (int32_t)l->r->n;
		l->r->n++;
	}
	return fill_rule(l, t, r) < 0 ? wrap(l->err, "rule %s", id) : 0;
}

static int add_file(struct loader *l, const struct toml *root)
{
	const struct toml *list = toml_get(root, "rules");

	if (list && list->type != TOML_ARRAY)
		return wrong(l, list, "not a list of tables");
	for (const struct toml *t = list ? list->first : NULL; t; t = t->next)
		if (t->type != TOML_TABLE || add_rule(l, t) < 0)
			return t->type == TOML_TABLE
				       ? l->err->code
				       : wrong(l, list, "not a list of tables");
	return get_allowlists(l, root, &l->r->allow);
}

/* ---- the file --------------------------------------------------------------------- */

static int load_built_in(struct loader *l, const char *text, size_t len)
{
	cleanup_pool struct pool pool = POOL_INIT(MEMORY_MAX);
	struct toml *root;

	l->built_in = true;
	if (toml_parse(&root, &pool, text, len, l->err) < 0 || add_file(l, root) < 0)
		return wrap(l->err, "built-in rules");
	l->built_in = false;
	return 0;
}

/* [extend]: *ret is whether the built-in rules are the base. */
static int read_extend(struct loader *l, const struct toml *root, bool *ret)
{
	const struct toml *e = toml_get(root, "extend"), *t;

	if (toml_get(e, "path") || toml_get(e, "url"))
		return wrong(l, e, "only useDefault is supported; join the files");
	t = toml_get(e, "useDefault");
	*ret = t && t->type == TOML_BOOL && t->yes;
	l->disabled = toml_get(e, "disabledRules");
	return 0;
}

static void disable(struct loader *l)
{
	const struct toml *d = l->disabled;

	for (const struct toml *t = d && d->type == TOML_ARRAY ? d->first : NULL; t;
	     t = t->next) {
		struct rule *r = t->type == TOML_STRING ? find_rule(l->r, t->text) : NULL;

		if (r)
			r->off = true;
	}
}

static int load_user(struct loader *l, const char *text, size_t len, const char *built_in,
		     size_t built_in_len)
{
	cleanup_pool struct pool pool = POOL_INIT(MEMORY_MAX);
	struct toml *root;
	bool base = false;

	if (toml_parse(&root, &pool, text, len, l->err) < 0 ||
	    read_extend(l, root, &base) < 0 ||
	    (base && load_built_in(l, built_in, built_in_len) < 0))
		return l->err->code;
	disable(l);
	if (add_file(l, root) < 0)
		return l->err->code;
	return l->r->n ? 0 : fail(l->err, COVE_EINVAL, 0, "there is no rule in it");
}

int rules_load(struct rules *ret, const char *text, size_t len, const char *built_in,
	       size_t built_in_len, struct cove_error *err)
{
	struct rules r = {.pool = POOL_INIT(MEMORY_MAX)};
	struct loader l = {.r = &r, .err = err};
	int rc;

	if (text)
		rc = load_user(&l, text, len, built_in, built_in_len);
	else
		rc = load_built_in(&l, built_in, built_in_len);
	if (rc < 0) {
		rules_clear(&r);
		return rc;
	}
	*ret = r;
	return 0;
}

static void clear_lists(struct allowlists *a)
{
	for (size_t i = 0; i < a->n; i++) {
		for (size_t j = 0; j < a->v[i].regexes.n; j++)
			pattern_clear(&a->v[i].regexes.v[j]);
		for (size_t j = 0; j < a->v[i].paths.n; j++)
			pattern_clear(&a->v[i].paths.v[j]);
	}
}

void rules_clear(struct rules *r)
{
	for (size_t i = 0; i < r->n; i++) {
		pattern_clear(&r->rule[i].regex);
		pattern_clear(&r->rule[i].path);
		clear_lists(&r->rule[i].allow);
	}
	clear_lists(&r->allow);
	free(r->rule);
	pool_clear(&r->pool);
	*r = (struct rules){0};
}
