/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config - configuration files: defaults, profiles, agents, providers.
 *
 * A file is checked as a whole when it is read. Its node tree is kept: applying
 * `defaults` or a profile binds those nodes over the spec, exactly as a spec file would
 * be, so that a key written with its default value still wins over an earlier file.
 *
 * A project's own file may have been written by the agent it is meant to confine. Even
 * when the user trusts its content it may not name anything that runs on the host: no
 * `target: host`, no secret `from: command`, no provider command.
 */
#include "base/util.h"
#include "spec/bind.h"
#include "spec/check.h"

struct config {
	struct tree tree;
	char *file;
	bool project;
	const struct node *defaults, *profiles; /* in tree; NULL: none */
	json_t *agents, *providers;
};

static const char own_config[] =
	"is not allowed in a project's file, because it would run on "
	"the host; put it into your own configuration";

/* ---- defaults and profiles ------------------------------------------------------ */

/* Checks a body by binding it into a spec that is thrown away. */
static void body_check(struct bind *b, const struct node *n)
{
	const struct node *name = n->type == NODE_MAP ? node_get(n, "name") : NULL;
	struct spec scratch;

	spec_init(&scratch);
	bind_object(b, &spec_object, &scratch, n);
	spec_clear(&scratch);
	if (name)
		complain(b, name, "name: only a sandbox has one; remove it here");
}

static void body_bind(struct bind *b, const struct field *f, void *base,
		      const struct node *n)
{
	struct config *c = base;

	(void)f;
	body_check(b, n);
	c->defaults = n;
}

static void profiles_bind(struct bind *b, const struct field *f, void *base,
			  const struct node *n)
{
	struct config *c = base;
	char show[SHOWN_MAX];

	(void)f;
	if (n->type != NODE_MAP) {
		if (n->type != NODE_NULL)
			complain(b, n,
				 "expected names and their specs, such as "
				 "{strict: {network: {mode: none}}}");
		return;
	}
	for (const struct node *e = n->first; e; e = e->next) {
		const char *why = check_name(e->key);
		size_t saved;

		if (why)
			complain(b, e, "'%s' %s", shown(show, e->key), why);
		saved = path_push(b, e->key);
		body_check(b, e);
		path_pop(b, saved);
	}
	c->profiles = n;
}

const struct kind kind_body = {.bind = body_bind};
static const struct kind kind_profiles = {.bind = profiles_bind};

/* ---- agents --------------------------------------------------------------------- */

static void target_bind(struct bind *b, const struct field *f, void *base,
			const struct node *n)
{
	static const char *const targets[] = {"host", NULL};
	int v = bind_enum(b, n, targets);

	if (v == 0 && b->project)
		complain(b, n, "host %s", own_config);
	else if (v == 0)
		json_put(b, base, f->key, json_string("host"));
}

/* A key of a spec, inside an agent or a route: checked and written as a spec would be. */
static void part_bind(struct bind *b, const struct field *f, void *base,
		      const struct node *n)
{
	struct spec scratch;

	spec_init(&scratch);
	for (size_t i = 0; i < spec_object.n; i++) {
		const struct field *g = &spec_object.fields[i];

		if (strcmp(g->key, f->key) != 0)
			continue;
		g->kind->bind(b, g, &scratch, n);
		json_put(b, base, f->key, g->kind->dump(g, &scratch, true));
	}
	spec_clear(&scratch);
}

static const struct kind item_target = {.bind = target_bind};
static const struct kind item_part = {.bind = part_bind};
static const struct text_rule name_rule = {check_name, "a name", false};
static const struct text_rule tool_rule = {check_words, "the name of a tool", false};
static const struct text_rule prefix_rule = {check_words, "the first words of a command",
					     false};

static const struct field route_fields[] = {
	ITEM("tool", item_text, &tool_rule), ITEM("command", item_text, &prefix_rule),
	ITEM("target", item_target, NULL),   ITEM("profile", item_text, &name_rule),
	ITEM("backend", item_part, NULL),    ITEM("network", item_part, NULL),
};

/* What is on the host is in no sandbox: the other keys would be silently without effect.
 */
static void place_finish(struct bind *b, json_t *o, const struct node *n)
{
	static const char *const others[] = {"profile", "backend", "network"};

	if (!json_object_get(o, "target"))
		return;
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (json_object_get(o, others[i]))
			complain(b, n, "target: host and %s exclude each other",
				 others[i]);
}

static void route_finish(struct bind *b, json_t *o, const struct node *n)
{
	if (!json_object_get(o, "tool") == !json_object_get(o, "command"))
		complain(b, n, "needs either tool or command");
	place_finish(b, o, n);
}

const struct object route_object = {
	.fields = route_fields,
	.n = ARRAY_LEN(route_fields),
	.finish = route_finish,
	.example = "{command: gh, profile: online}",
};

static void routes_bind(struct bind *b, const struct field *f, void *base,
			const struct node *n)
{
	struct field inner = {.key = f->key, .arg = &route_object};
	json_t *list = NULL;

	/* A list kind fills a json_t * at an offset: give it ours. */
	kind_list.bind(b, &inner, &list, n);
	if (list)
		json_put(b, base, f->key, list);
}

static const struct kind item_routes = {.bind = routes_bind};

static const struct field agent_fields[] = {
	REQUIRED("id", item_text, &name_rule),
	ITEM("target", item_target, NULL),
	ITEM("profile", item_text, &name_rule),
	ITEM("backend", item_part, NULL),
	ITEM("network", item_part, NULL),
	ITEM("routes", item_routes, &route_object),
};
const struct object agent_object = {
	.fields = agent_fields,
	.n = ARRAY_LEN(agent_fields),
	.unique = "id",
	.finish = place_finish,
	.example = "{id: coding, backend: vm}",
};

static void agents_bind(struct bind *b, const struct field *f, void *base,
			const struct node *n)
{
	struct field inner = {.key = f->key, .arg = f->arg};
	struct config *c = base;

	kind_list.bind(b, &inner, &c->agents, n);
}

static const struct kind kind_agents = {.bind = agents_bind};

/* ---- providers ------------------------------------------------------------------ */

static void provider_command_bind(struct bind *b, const struct field *f, void *base,
				  const struct node *n)
{
	if (b->project)
		complain(b, n, "a command %s", own_config);
	else
		item_command.bind(b, f, base, n);
}

static const struct kind item_provider_command = {.bind = provider_command_bind};
static const struct text_rule reach_rule = {check_words, "a host or container", false};
static const struct field provider_fields[] = {
	REQUIRED("command", item_provider_command, NULL),
	ITEM("target", item_text, &reach_rule),
};
const struct object provider_object = {
	.fields = provider_fields,
	.n = ARRAY_LEN(provider_fields),
	.example = "{command: [ssh, \"{target}\", cove-guest, --stdio]}",
};

static void providers_bind(struct bind *b, const struct field *f, void *base,
			   const struct node *n)
{
	struct config *c = base;
	char show[SHOWN_MAX];

	(void)f;
	if (n->type != NODE_MAP) {
		if (n->type != NODE_NULL)
			complain(b, n, "expected names and commands, such as {build: %s}",
				 provider_object.example);
		return;
	}
	json_decref(c->providers); /* a key given twice is a problem, but bound all the
				      same */
	c->providers = json_object();
	if (!c->providers)
		b->p->nomem = true;
	for (const struct node *e = n->first; e && c->providers; e = e->next) {
		const char *why = check_name(e->key);
		size_t saved = path_push(b, e->key);
		json_t *v;

		if (why)
			complain(b, e, "'%s' %s", shown(show, e->key), why);
		v = bind_element(b, &provider_object, e);
		path_pop(b, saved);
		if (v)
			json_put(b, c->providers, e->key, v);
	}
}

static const struct kind kind_providers = {.bind = providers_bind};

/* ---- the file ------------------------------------------------------------------- */

static const struct field config_fields[] = {
	ITEM("defaults", kind_body, &spec_object),
	ITEM("profiles", kind_profiles, NULL),
	ITEM("agents", kind_agents, &agent_object),
	ITEM("providers", kind_providers, &provider_object),
};
const struct object config_object = {
	.fields = config_fields,
	.n = ARRAY_LEN(config_fields),
	.example = "defaults: {network: {mode: none}}",
};

void config_free(struct config *c)
{
	if (!c)
		return;
	tree_clear(&c->tree);
	json_decref(c->agents);
	json_decref(c->providers);
	free(c->file);
	free(c);
}
DEFINE_CLEANUP(struct config, config_free)
#define cleanup_config __attribute__((cleanup(config_freep)))

int config_parse(struct config **ret, const char *text, size_t len, const char *name,
		 bool is_project, struct buf *problems, struct cove_error *err)
{
	cleanup_problems struct problems p = {.file = name};
	cleanup_config struct config *c = calloc(1, sizeof(*c));
	struct bind b = {.p = &p, .project = is_project};
	int r;

	if (!c || !(c->file = strdup(name)))
		return fail_nomem(err);
	c->project = is_project;
	if (tree_read(&c->tree, text, len, &p) && c->tree.root)
		bind_object(&b, &config_object, c, c->tree.root);
	r = problems_report(&p, problems, err);
	if (r < 0)
		return r;
	*ret = take_ptr(c);
	return 0;
}

/* A spec has none of the keys of a config file, and the other way round. */
static bool is_spec(const struct node *root)
{
	bool found = false;

	for (size_t i = 0; i < config_object.n; i++)
		if (node_get(root, config_object.fields[i].key))
			return false;
	for (size_t i = 0; i < spec_object.n; i++)
		found = found || node_get(root, spec_object.fields[i].key);
	return found;
}

int config_check(const char *text, size_t len, const char *name, bool is_project,
		 struct buf *problems, struct cove_error *err)
{
	cleanup_config struct config *c = NULL;
	cleanup_problems struct problems quiet = {.file = name};
	cleanup_tree struct tree tree;
	struct spec s;
	bool as_spec;
	int r;

	/* Which of the two it is; what is wrong with it is said by the one that fits. */
	tree_read(&tree, text, len, &quiet);
	as_spec = tree.root && is_spec(tree.root);
	if (!as_spec)
		return config_parse(&c, text, len, name, is_project, problems, err);
	spec_init(&s);
	r = spec_parse(&s, text, len, name, problems, err);
	spec_clear(&s);
	return r;
}

const json_t *config_agents(const struct config *c)
{
	return c->agents;
}

const json_t *config_providers(const struct config *c)
{
	return c->providers;
}

/* ---- applying ------------------------------------------------------------------- */

static int apply_body(const struct config *c, const struct node *body, struct spec *s,
		      struct cove_error *err)
{
	cleanup_problems struct problems p = {.file = c->file};
	struct bind b = {.p = &p, .file = c->project ? c->file : NULL};

	return body ? bind_spec(&b, s, body, NULL, err) : 0;
}

static int unknown_profile(const struct config *const *configs, size_t n,
			   const char *profile, struct cove_error *err)
{
	struct nearest near = {.word = profile};
	char show[SHOWN_MAX];

	fail(err, COVE_EINVAL, 0, "profile '%s': there is none of that name",
	     shown(show, profile));
	for (size_t i = 0; i < n; i++)
		for (const struct node *e =
			     configs[i]->profiles ? configs[i]->profiles->first : NULL;
		     e; e = e->next)
			nearest_try(&near, e->key);
	if (near.best)
		return hint(err, "did you mean '%s'?", near.best);
	return hint(err,
		    "profiles are defined under 'profiles' in the configuration file");
}

int config_apply(const struct config *const *configs, size_t n, const char *profile,
		 struct spec *s, struct cove_error *err)
{
	const struct config *owner = NULL;
	const struct node *body = NULL;
	struct spec copy;
	int r = 0;

	for (size_t i = 0; i < n && profile; i++)
		if (configs[i]->profiles && node_get(configs[i]->profiles, profile)) {
			owner = configs[i];
			body = node_get(owner->profiles, profile);
		}
	if (profile && !owner)
		return unknown_profile(configs, n, profile, err);
	if (spec_copy(&copy, s, err) < 0)
		return err->code;
	for (size_t i = 0; i < n && r == 0; i++)
		r = apply_body(configs[i], configs[i]->defaults, &copy, err);
	if (r == 0 && owner)
		r = apply_body(owner, body, &copy, err);
	if (r < 0) {
		spec_clear(&copy);
		return r;
	}
	spec_clear(s);
	*s = copy;
	return 0;
}
