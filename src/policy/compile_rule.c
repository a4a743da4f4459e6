/* SPDX-License-Identifier: Apache-2.0 */
/* compile_rule - the keys of one rule. */
#include "policy/compiler.h"
#include "policy/glob.h"

#include "base/util.h"

#define ID_MAX 100
#define SUBJECT_MAX 255 /* an agent, a tool, an exec */
#define METHOD_MAX 20

int wrong(struct compiler *c, const char *what, const char *text, const char *why)
{
	return fail(c->err, COVE_EINVAL, 0, "%s '%.80s' %s", what, text ? text : "?",
		    why);
}

static int checked(struct compiler *c, int r)
{
	return r < 0 ? fail_nomem(c->err) : 0;
}

/* Something, of at most max bytes, without spaces and control characters. */
static bool plain(const char *text, size_t max)
{
	size_t n = 0;

	if (!text)
		return false;
	for (; (unsigned char)text[n] > 0x20 && text[n] != 0x7f; n++)
		if (n >= max)
			return false;
	return n > 0 && !text[n];
}

/* A value, or each of a list of them. An empty list would be no condition at all, which
 * its author hardly meant. */
static int each(struct compiler *c, const struct value *v,
		int (*take)(struct compiler *c, const struct value *v))
{
	int r = 0;

	if (v->type != VALUE_LIST)
		return take(c, v);
	if (!v->first)
		return fail(c->err, COVE_EINVAL, 0, "an empty list");
	for (v = v->first; v && r == 0; v = v->next)
		r = take(c, v);
	return r;
}

/* ---- hosts ---------------------------------------------------------------------- */

int rule_host(struct compiler *c, const char *text)
{
	uint32_t rule = build_at(&c->build, SECTION_RULES);
	char name[HOST_MAX + 1];
	enum host_kind kind;
	struct prefix p;

	if (!text || host_pattern(text, &kind, name) < 0)
		return wrong(c, "host", text, "is not a host");
	if (++c->hosts > POLICY_HOSTS_MAX)
		return fail(c->err, COVE_EINVAL, 0, "more than %u hosts",
			    POLICY_HOSTS_MAX);
	if (kind == HOST_ANY)
		return checked(c, build_any(&c->build, rule));
	if (kind != HOST_IP && kind != HOST_CIDR) {
		if (kind == HOST_EXACT && strcmp(name, HOST_INTERNAL) == 0)
			c->rule.flags |= RULE_INTERNAL;
		return checked(c, build_name(&c->build, rule, kind, name, c->secret));
	}
	if (prefix_parse(name, &p) < 0)
		return wrong(c, "host", text, "is not a host");
	if (build_range(&c->build, rule, &p, c->secret) < 0)
		return fail_nomem(c->err);
	/* a rule that names an address means it */
	return checked(c, build_prefix(&c->build, &p));
}

static int take_host(struct compiler *c, const struct value *v)
{
	return rule_host(c, value_text(v));
}

int rule_hosts(struct compiler *c, const struct value *v)
{
	return each(c, v, take_host);
}

/* ---- ports ---------------------------------------------------------------------- */

uint16_t port_number(const char *s, size_t n)
{
	uint32_t v = 0;

	for (size_t i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9' || i >= 5)
			return 0;
		v = v * 10 + (uint32_t)(s[i] - '0');
	}
	return v <= 65535 ? (uint16_t)v : 0;
}

static int one_port(struct compiler *c, const struct value *v)
{
	const char *text = value_text(v);
	const char *dash = text ? strchr(text, '-') : NULL;
	uint16_t low = 0, high;

	if (dash)
		low = port_number(text, (size_t)(dash - text));
	else if (text)
		low = port_number(text, strlen(text));
	else if (v->type == VALUE_NUMBER && v->number > 0 && v->number <= 65535)
		low = (uint16_t)v->number;
	high = dash ? port_number(dash + 1, strlen(dash + 1)) : low;
	if (low == 0 || high < low)
		return wrong(c, "port", text, "is not a port or a range");
	return checked(c, build_port(&c->build, low, high));
}

int take_port(struct compiler *c, const struct value *v)
{
	return each(c, v, one_port);
}

int rule_port(struct compiler *c, uint16_t port)
{
	c->rule.ports = (struct span){build_at(&c->build, SECTION_PORTS), 1};
	return checked(c, build_port(&c->build, port, port));
}

static int take_ports(struct compiler *c, const struct value *v)
{
	uint32_t at = build_at(&c->build, SECTION_PORTS);
	int r = take_port(c, v);

	c->rule.ports = (struct span){at, build_at(&c->build, SECTION_PORTS) - at};
	return r;
}

/* ---- words ---------------------------------------------------------------------- */

static int words(struct compiler *c, const struct value *v, struct span *ret,
		 int (*take)(struct compiler *c, const struct value *v))
{
	uint32_t at = build_at(&c->build, SECTION_WORDS);
	int r = each(c, v, take);

	*ret = (struct span){at, build_at(&c->build, SECTION_WORDS) - at};
	return r;
}

static int take_method(struct compiler *c, const struct value *v)
{
	const char *text = value_text(v);

	for (const char *s = text; s && *s; s++)
		if ((*s < 'A' || *s > 'Z') && *s != '-')
			text = NULL;
	if (!plain(text, METHOD_MAX))
		return wrong(c, "method", value_text(v), "is not one");
	return checked(c, build_word(&c->build, text));
}

static int take_methods(struct compiler *c, const struct value *v)
{
	return words(c, v, &c->rule.methods, take_method);
}

static int take_path(struct compiler *c, const struct value *v)
{
	const char *text = value_text(v);

	if (!plain(text, GLOB_MAX) || text[0] != '/')
		return wrong(c, "path", text, "is not the path of a request");
	return checked(c, build_word(&c->build, text));
}

static int take_paths(struct compiler *c, const struct value *v)
{
	return words(c, v, &c->rule.paths, take_path);
}

static int take_subject(struct compiler *c, const struct value *v)
{
	const char *text = value_text(v);

	if (!plain(text, SUBJECT_MAX))
		return wrong(c, "scope", text, "is not the name of anybody");
	return checked(c, build_word(&c->build, text));
}

static int take_scope(struct compiler *c, const struct value *v)
{
	int r = 0;

	c->build.head.scoped = true;
	if (v->type != VALUE_MAP)
		return words(c, v, &c->rule.tools, take_subject);
	if (!v->first)
		return fail(c->err, COVE_EINVAL, 0, "scope says nothing");
	for (v = v->first; v && r == 0; v = v->next) {
		struct span *to = strcmp(v->key, "agent") == 0  ? &c->rule.agents
				  : strcmp(v->key, "tool") == 0 ? &c->rule.tools
				  : strcmp(v->key, "exec") == 0 ? &c->rule.execs
								: NULL;

		r = to ? words(c, v, to, take_subject)
		       : wrong(c, "scope", v->key, "is not agent, tool or exec");
	}
	return r;
}

/* ---- the rest of a rule --------------------------------------------------------- */

static int take_address(struct compiler *c, const struct value *v)
{
	const char *text = value_text(v);
	struct prefix p;

	for (unsigned k = ADDR_PUBLIC; text && k <= ADDR_SELF; k++)
		if (strcmp(text, addr_class_name(k)) == 0) {
			c->rule.classes |= (uint16_t)(1u << k);
			return 0;
		}
	if (!text || prefix_parse(text, &p) < 0)
		return wrong(c, "address", text, "is neither a prefix nor a class");
	return checked(c, build_prefix(&c->build, &p));
}

int rule_addresses(struct compiler *c, const struct value *v)
{
	return v->type == VALUE_LIST && !v->first ? 0 : each(c, v, take_address);
}

int one_of(struct compiler *c, const char *what, const struct value *v,
	   const char *const *names, uint8_t *ret)
{
	const char *text = value_text(v);

	for (uint8_t i = 0; text && names[i]; i++)
		if (strcmp(names[i], text) == 0) {
			*ret = i;
			return 0;
		}
	return wrong(c, what, text, "is not known");
}

static int take_protocol(struct compiler *c, const struct value *v)
{
	static const char *const names[] = {
		[PROTO_ANY] = "any",
		[PROTO_TCP] = "tcp",
		[PROTO_TLS] = "tls",
		[PROTO_HTTP] = "http",
		NULL,
	};

	return one_of(c, "protocol", v, names, &c->rule.protocol);
}

static int take_action(struct compiler *c, const struct value *v)
{
	static const char *const names[] = {"allow", "deny", NULL};
	uint8_t deny = 0;
	int r = one_of(c, "action", v, names, &deny);

	if (deny)
		c->rule.flags |= RULE_DENY;
	return r;
}

static int take_id(struct compiler *c, const struct value *v)
{
	const char *text = value_text(v);

	return plain(text, ID_MAX) ? checked(c, build_text(&c->build, text, &c->rule.id))
				   : wrong(c, "id", text, "is not a name");
}

int rule_key(struct compiler *c, const struct value *v)
{
	static const struct {
		const char *key;
		int (*take)(struct compiler *c, const struct value *v);
	} keys[] = {
		{"host",      rule_hosts    },
                {"port",      take_ports    },
		{"action",    take_action   },
                {"id",        take_id       },
		{"protocol",  take_protocol },
                {"methods",   take_methods  },
		{"paths",     take_paths    },
                {"scope",     take_scope    },
		{"addresses", rule_addresses},
	};

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (strcmp(keys[i].key, v->key) == 0)
			return v->type == VALUE_NULL ? 0 : keys[i].take(c, v);
	return wrong(c, "key", v->key, "is not known");
}

/* ---- a rule as a whole ----------------------------------------------------------- */

int rule_begin(struct compiler *c)
{
	if (build_at(&c->build, SECTION_RULES) >= POLICY_RULES_MAX)
		return fail(c->err, COVE_EINVAL, 0, "more than %d rules",
			    POLICY_RULES_MAX);
	c->secret = false;
	c->rule = (struct rule){.id = UINT32_MAX,
				.prefixes.at = build_at(&c->build, SECTION_PREFIXES)};
	return 0;
}

/* "what[i]" by hand: with thousands of rules, snprintf is a third of a reload. */
static void number_id(char *out, size_t size, const char *what, size_t i)
{
	char tail[24];
	size_t n = strnlen(what, size - sizeof(tail)), at = sizeof(tail) - 2;

	memcpy(out, what, n);
	tail[at] = ']';
	tail[at + 1] = '\0';
	do
		tail[--at] = (char)('0' + i % 10);
	while (i /= 10);
	tail[--at] = '[';
	memcpy(out + n, tail + at, sizeof(tail) - at);
}

static int give_id(struct compiler *c, const char *what, const char *word, size_t i)
{
	char id[160];

	if (word)
		snprintf(id, sizeof(id), "%s:%.*s", what, ID_MAX, word);
	else
		number_id(id, sizeof(id), what, i);
	return checked(c, build_text(&c->build, id, &c->rule.id));
}

int rule_end(struct compiler *c, const char *what, const char *word, size_t i)
{
	struct rule *r = &c->rule;

	r->prefixes.n = build_at(&c->build, SECTION_PREFIXES) - r->prefixes.at;
	if (r->methods.n || r->paths.n) {
		if (r->protocol != PROTO_ANY && r->protocol != PROTO_HTTP)
			return fail(c->err, COVE_EINVAL, 0,
				    "methods and paths need protocol: http");
		r->protocol = PROTO_HTTP;
	}
	if ((r->flags & (RULE_INTERNAL | RULE_DENY)) == RULE_INTERNAL && !r->ports.n)
		return fail(c->err, COVE_EINVAL, 0,
			    HOST_INTERNAL " needs a port: every one of the host's own "
					  "servers would be reachable");
	if (r->id == UINT32_MAX && give_id(c, what, word, i) < 0)
		return c->err->code;
	return checked(c, build_rule(&c->build, r));
}
