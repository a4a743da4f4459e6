/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile - from a spec's JSON, live rules and the text of a policy file to an image:
 * rules in their order, live ones first.
 */
#include "policy/compiler.h"

#include "base/util.h"

static void compiler_clear(struct compiler *c)
{
	builder_clear(&c->build);
	values_clear(&c->values);
}
#define cleanup_compiler __attribute__((cleanup(compiler_clear)))

/* ---- rules ------------------------------------------------------------------------ */

static int add_rule(struct compiler *c, const struct value *v, const char *what, size_t i)
{
	size_t hosts = c->hosts;
	int r = rule_begin(c);

	if (r == 0 && v->type != VALUE_MAP)
		r = fail(c->err, COVE_EINVAL, 0, "is not a rule");
	for (v = value_first(v); v && r == 0; v = v->next)
		r = rule_key(c, v);
	if (r == 0 && c->hosts == hosts)
		r = fail(c->err, COVE_EINVAL, 0, "needs a host");
	return r < 0 ? r : rule_end(c, what, NULL, i);
}

static int add_rules(struct compiler *c, const struct value *list, const char *what)
{
	size_t i = 0;

	if (list && list->type != VALUE_LIST)
		return fail(c->err, COVE_EINVAL, 0, "%s is not a list", what);
	for (const struct value *v = value_first(list); v; v = v->next, i++)
		if (add_rule(c, v, what, i) < 0)
			return wrap(c->err, "%s[%zu]", what, i);
	return 0;
}

/* No two rules from number `from` on have the same id. */
static int check_ids(struct compiler *c, uint32_t from)
{
	const struct rule *rules = c->build.section[SECTION_RULES].data;
	const char *text = c->build.section[SECTION_TEXT].data;
	uint32_t n = build_at(&c->build, SECTION_RULES), size = 8;
	cleanup_free uint32_t *slots = NULL; /* rule number + 1 */

	while (size < (n - from) * 2)
		size *= 2;
	slots = calloc(size, sizeof(*slots));
	if (!slots)
		return fail_nomem(c->err);
	for (uint32_t i = from; i < n; i++) {
		const char *id = text + rules[i].id;
		uint32_t h = HASH_START, k;

		for (const char *s = id; *s; s++)
			h = hash_byte(h, *s);
		for (k = hash_end(h) & (size - 1); slots[k]; k = (k + 1) & (size - 1))
			if (strcmp(text + rules[slots[k] - 1].id, id) == 0)
				return wrong(c, "id", id, "is given twice");
		slots[k] = i + 1;
	}
	return 0;
}

static int add_addresses(struct compiler *c)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(c->addresses) && r == 0; i++)
		if (c->addresses[i] && c->addresses[i]->type != VALUE_NULL)
			r = rule_addresses(c, c->addresses[i]);
	return r;
}

static int add_secret(struct compiler *c, const struct value *o, size_t i)
{
	const struct value *hosts = value_get(o, "hosts"), *inject;
	const char *name = value_text(value_get(o, "name"));
	uint32_t any = build_at(&c->build, SECTION_ANY);
	int r;

	if (!hosts || hosts->type != VALUE_LIST || !hosts->first)
		return 0;
	r = rule_begin(c);
	if (r < 0)
		return r;
	/* What is injected is in the program's hands: there is nothing to swap. */
	inject = value_get(o, "inject");
	c->secret = !inject || inject->type == VALUE_NULL;
	c->rule.flags = RULE_SECRET;
	c->rule.protocol = PROTO_TLS;
	r = rule_port(c, 443);
	if (r == 0)
		r = rule_hosts(c, hosts);
	if (r == 0 && build_at(&c->build, SECTION_ANY) != any)
		r = fail(c->err, COVE_EINVAL, 0, "a secret cannot be for every host");
	if (r == 0)
		r = add_addresses(c);
	return r < 0 ? r : rule_end(c, "secret", name ? name : "?", i);
}

static int add_secrets(struct compiler *c, const json_t *list)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const struct value *v =
			value_of_json(&c->values, json_array_get(list, i));

		if (!v)
			return fail_nomem(c->err);
		if (add_secret(c, v, i) < 0)
			return wrap(c->err, "secrets[%zu]", i);
	}
	return 0;
}

/* ---- allowedHosts ----------------------------------------------------------------- */

/* HOST, HOST:PORT or [HOST]:PORT; the host goes to out, *ret_port is 0 without one. */
static int split_port(const char *text, char *out, size_t size, uint16_t *ret_port)
{
	const char *colon = strrchr(text, ':');
	char name[HOST_MAX + 1];
	enum host_kind kind;
	size_t n = colon ? (size_t)(colon - text) : strlen(text);

	*ret_port = 0;
	if (colon && host_pattern(text, &kind, name) == 0) { /* an IPv6 address */
		n = strlen(text);
	} else if (colon) {
		*ret_port = port_number(colon + 1, strlen(colon + 1));
		if (*ret_port == 0)
			return -EINVAL;
		if (n > 2 && text[0] == '[' && text[n - 1] == ']') {
			text++;
			n -= 2;
		}
	}
	if (n >= size)
		return -EINVAL;
	memcpy(out, text, n);
	out[n] = '\0';
	return 0;
}

static int add_allowed(struct compiler *c, const char *text, const char *what, size_t i)
{
	char host[1100]; /* UTF-8 may be longer than what it becomes */
	uint16_t port;
	int r = rule_begin(c);

	if (r < 0)
		return r;
	if (!text || split_port(text, host, sizeof(host), &port) < 0)
		return wrong(c, "host", text, "is not a host");
	if (strcmp(host, "*") == 0)
		return fail(c->err, COVE_EINVAL, 0, "'*' is every host; use mode open");
	c->rule.ports = c->ports;
	if (port)
		r = rule_port(c, port);
	if (r == 0)
		r = rule_host(c, host);
	if (r == 0)
		r = add_addresses(c);
	return r < 0 ? r : rule_end(c, what, NULL, i);
}

static int add_all_allowed(struct compiler *c, const struct value *list, const char *what)
{
	size_t i = 0;

	if (list && list->type != VALUE_LIST)
		return fail(c->err, COVE_EINVAL, 0, "%s is not a list", what);
	for (const struct value *v = value_first(list); v; v = v->next, i++)
		if (add_allowed(c, value_text(v), what, i) < 0)
			return wrap(c->err, "%s[%zu]", what, i);
	return 0;
}

/* ---- sources ---------------------------------------------------------------------- */

/* The network of a spec or of a file, key by key. */
struct network {
	const struct value *mode, *ask, *rules, *hosts, *ports, *addresses;
};

static const struct {
	const char *key;
	size_t at;
} network_keys[] = {
	{"mode",         offsetof(struct network, mode)     },
	{"ask",          offsetof(struct network, ask)      },
	{"rules",        offsetof(struct network, rules)    },
	{"allowedHosts", offsetof(struct network, hosts)    },
	{"allowedPorts", offsetof(struct network, ports)    },
	{"addresses",    offsetof(struct network, addresses)},
};

static const struct value **network_key(struct network *n, size_t i)
{
	return (const struct value **)(void *)((char *)n + network_keys[i].at);
}

static int spec_network(struct compiler *c, const json_t *json, struct network *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(network_keys); i++) {
		json_t *from = json_object_get(json, network_keys[i].key);

		if (!from || json_is_null(from))
			continue;
		*network_key(ret, i) = value_of_json(&c->values, from);
		if (!*network_key(ret, i))
			return fail_nomem(c->err);
	}
	return 0;
}

/* A file is a network object, one in an object, or just its rules. */
static int file_network(struct compiler *c, const struct policy_source *src,
			struct network *ret)
{
	const char *name = src->file_name ? src->file_name : "policy file";
	const struct value *root;
	int r;

	if (!src->file)
		return 0;
	r = value_read(&c->values, src->file, src->file_len, name, &root, c->err);
	if (r < 0)
		return r;
	if (root->n == 1 && value_get(root, "network"))
		root = root->first;
	if (root->type == VALUE_LIST)
		ret->rules = root;
	else if (root->type != VALUE_MAP)
		return fail(c->err, COVE_EINVAL, 0, "%s: not a network", name);
	else
		root = root->first;
	for (; !ret->rules && root; root = root->next) {
		size_t i = 0;

		while (i < ARRAY_LEN(network_keys) &&
		       strcmp(network_keys[i].key, root->key) != 0)
			i++;
		if (i == ARRAY_LEN(network_keys))
			return fail(c->err, COVE_EINVAL, 0, "%s: unknown key '%.40s'",
				    name, root->key);
		if (root->type != VALUE_NULL)
			*network_key(ret, i) = root;
	}
	return 0;
}

/* What is true of all: the mode (the file's wins) and the ports and addresses (of both).
 */
static int take_head(struct compiler *c, const struct network *n)
{
	struct image *head = &c->build.head;
	int r = 0;

	for (size_t i = 0; i < 2 && r == 0; i++, n++) {
		if (n->mode)
			r = one_of(c, "mode", n->mode, policy_modes, &head->mode);
		if (n->ask)
			head->ask = n->ask->type == VALUE_BOOL && n->ask->number;
		if (r == 0 && n->ports && (n->ports->type != VALUE_LIST || n->ports->n))
			r = take_port(c, n->ports);
		c->addresses[i] = n->addresses;
	}
	c->ports = (struct span){0, build_at(&c->build, SECTION_PORTS)};
	return r;
}

static int add_live(struct compiler *c, const json_t *live)
{
	for (size_t i = 0; i < json_array_size(live); i++) {
		const struct value *v =
			value_of_json(&c->values, json_array_get(live, i));

		if (!v)
			return fail_nomem(c->err);
		if (add_rule(c, v, "live", i) < 0)
			return wrap(c->err, "live[%zu]", i);
	}
	return 0;
}

static int add_all(struct compiler *c, const struct policy_source *src)
{
	struct network n[2] = {0}; /* the spec's and the file's */
	uint32_t at;
	int r = spec_network(c, src->network, &n[0]);

	if (r == 0)
		r = file_network(c, src, &n[1]);
	if (r == 0)
		r = take_head(c, n);
	if (r == 0)
		r = add_live(c, src->live);
	if (r == 0)
		r = add_rules(c, n[0].rules, "rules");
	at = build_at(&c->build, SECTION_RULES);
	if (r == 0)
		r = add_rules(c, n[1].rules, "file.rules");
	if (r == 0)
		r = check_ids(c, at);
	if (r == 0)
		r = add_secrets(c, src->secrets);
	if (r == 0)
		r = add_all_allowed(c, n[0].hosts, "allowedHosts");
	if (r == 0)
		r = add_all_allowed(c, n[1].hosts, "file.allowedHosts");
	return r;
}

int policy_compile(const struct policy_source *src, struct buf *image,
		   struct cove_error *err)
{
	cleanup_compiler struct compiler c = {.err = err};

	c.build.head.magic = IMAGE_MAGIC;
	c.build.head.version = IMAGE_VERSION;
	c.build.head.generation = src->generation;
	if (add_all(&c, src) < 0)
		return wrap(err, "network");
	return build_image(&c.build, image, err);
}
