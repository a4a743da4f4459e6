/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decide - the first rule that matches, or else the mode.
 *
 * By name and port alone, a rule with methods or paths is one that may match; such a
 * connection is opened, and each request is judged with all conditions.
 */
#include "policy/decide.h"

#include "base/util.h"
#include "policy/glob.h"

static bool has_word(const struct policy *p, struct span list, const char *word)
{
	for (uint32_t i = 0; word && i < list.n; i++)
		if (strcmp(p->text + p->words[list.at + i], word) == 0)
			return true;
	return false;
}

static bool has_port(const struct policy *p, struct span list, uint16_t port)
{
	for (uint32_t i = 0; i < list.n; i++)
		if (port >= p->ports[list.at + i].low &&
		    port <= p->ports[list.at + i].high)
			return true;
	return false;
}

static bool has_path(const struct policy *p, struct span list, const char *path)
{
	for (uint32_t i = 0; path && i < list.n; i++)
		if (glob_matches(p->text + p->words[list.at + i], path))
			return true;
	return false;
}

enum miss rule_misses(const struct policy *p, const struct rule *r,
		      const struct question *q)
{
	if (r->ports.n && !has_port(p, r->ports, q->port))
		return MISS_PORT;
	if (r->agents.n && !has_word(p, r->agents, q->who->agent))
		return MISS_AGENT;
	if (r->tools.n && !has_word(p, r->tools, q->who->tool))
		return MISS_TOOL;
	if (r->execs.n && !has_word(p, r->execs, q->who->exec))
		return MISS_EXEC;
	if (!q->request)
		return MISS_NOTHING;
	if (r->methods.n && !has_word(p, r->methods, q->method))
		return MISS_METHOD;
	if (r->paths.n && !has_path(p, r->paths, q->path))
		return MISS_PATH;
	return MISS_NOTHING;
}

/* Is it only known for sure once there is a request? */
static bool conditional(const struct rule *r)
{
	return r->methods.n || r->paths.n;
}

static uint32_t next_match(const struct policy *p, struct walk *w,
			   const struct question *q)
{
	uint32_t i;

	do {
		i = walk_next(w);
	} while (i != POLICY_NO_RULE && rule_misses(p, &p->rules[i], q) != MISS_NOTHING);
	return i;
}

/* ---- verdicts ------------------------------------------------------------------- */

static void set(struct policy_decision *d, enum policy_verdict verdict, const char *id,
		const char *reason)
{
	*d = (struct policy_decision){
		.verdict = verdict, .rule = POLICY_NO_RULE, .id = id, .reason = reason};
}

/* Whoever has no network at all, and whoever cannot be told from others. */
static bool refused_subject(const struct policy *p, const struct policy_subject *who,
			    struct policy_decision *d)
{
	if (who->offline)
		set(d, VERDICT_DENY, "exec:offline", "it was started without network");
	else if (who->unknown && p->image->scoped)
		set(d, VERDICT_DENY, "exec:unknown",
		    "rules depend on who connects, and this could not be found");
	else
		return false;
	return true;
}

/* No rule matches. */
static void by_mode(const struct policy *p, const struct question *q,
		    struct policy_decision *d)
{
	static const char *const ids[] = {"mode:none", "mode:allowlist", "mode:open",
					  "mode:learn"};
	enum policy_mode mode = p->image->mode;
	const char *id = ids[mode];

	if (q->name && strcmp(q->name, HOST_INTERNAL) == 0)
		set(d, VERDICT_DENY, id, "the host is reached only by a rule for it");
	else if (!q->name && (!q->ip || addr_classify(q->ip) != ADDR_PUBLIC))
		set(d, VERDICT_DENY, id,
		    "it is not a public address, and no rule names it");
	else if (mode == POLICY_OPEN || mode == POLICY_LEARN)
		set(d, VERDICT_ALLOW, id, NULL);
	else
		set(d, p->image->ask ? VERDICT_ASK : VERDICT_DENY, id,
		    q->request            ? "no rule allows this request"
		    : mode == POLICY_NONE ? "the network is off"
					  : "no rule allows it");
	d->learn = d->verdict == VERDICT_ALLOW && mode == POLICY_LEARN;
}

static void by_rule(const struct policy *p, uint32_t i, struct policy_decision *d)
{
	const struct rule *r = &p->rules[i];
	bool deny = r->flags & RULE_DENY;

	set(d, deny ? VERDICT_DENY : VERDICT_ALLOW, p->text + r->id,
	    deny ? "a rule denies it" : NULL);
	d->rule = i;
	d->protocol = r->protocol;
}

/* The first match denies some requests. Is there anything that allows others? */
static bool others_allowed(const struct policy *p, struct walk *w,
			   const struct question *q)
{
	struct policy_decision d;
	uint32_t i;

	while ((i = next_match(p, w, q)) != POLICY_NO_RULE) {
		if (!(p->rules[i].flags & RULE_DENY))
			return true;
		if (!conditional(&p->rules[i]))
			return false;
	}
	by_mode(p, q, &d);
	return d.verdict == VERDICT_ALLOW;
}

static const struct policy_subject nobody;

void policy_connect(const struct policy *p, const struct policy_subject *who,
		    const char *name, const struct addr *ip, uint16_t port,
		    struct policy_decision *ret)
{
	struct question q = {
		.who = who ? who : &nobody, .name = name, .ip = ip, .port = port};
	const struct rule *r;
	struct walk w;
	uint32_t i;

	if (refused_subject(p, q.who, ret))
		return;
	walk_start(&w, p, name, ip);
	i = next_match(p, &w, &q);
	if (i == POLICY_NO_RULE) {
		by_mode(p, &q, ret);
		ret->secrets = w.secret;
		if (w.secret && ret->verdict == VERDICT_ALLOW)
			ret->verdict = VERDICT_INSPECT;
		return;
	}
	r = &p->rules[i];
	by_rule(p, i, ret);
	if (ret->verdict == VERDICT_DENY) {
		if (!conditional(r) || !others_allowed(p, &w, &q))
			return;
		ret->verdict = VERDICT_INSPECT;
		ret->reason = NULL;
	} else if (r->protocol == PROTO_TCP && !conditional(r)) {
		return; /* bytes, whatever they are */
	} else if (conditional(r) || r->protocol == PROTO_HTTP || w.secret) {
		ret->verdict = VERDICT_INSPECT;
	}
	ret->secrets = w.secret;
}

void policy_request(const struct policy *p, const struct policy_subject *who,
		    const char *name, const struct addr *ip, uint16_t port,
		    const char *method, const char *path, struct policy_decision *ret)
{
	struct question q = {.who = who ? who : &nobody,
			     .name = name,
			     .ip = ip,
			     .port = port,
			     .request = true,
			     .method = method,
			     .path = path};
	struct walk w;
	uint32_t i;

	if (refused_subject(p, q.who, ret))
		return;
	walk_start(&w, p, name, ip);
	i = next_match(p, &w, &q);
	if (i == POLICY_NO_RULE)
		by_mode(p, &q, ret);
	else
		by_rule(p, i, ret);
	ret->secrets = w.secret;
}

/* Do the rules let this name be asked for: 1 yes, -1 never, 0 none of them says. */
static int rules_resolve(const struct policy *p, const char *name)
{
	struct walk w;
	uint32_t i;

	walk_start(&w, p, name, NULL);
	while ((i = walk_next(&w)) != POLICY_NO_RULE) {
		const struct rule *r = &p->rules[i];

		if (!(r->flags & RULE_DENY))
			return 1;
		if (!conditional(r) && !r->ports.n && !r->agents.n && !r->tools.n &&
		    !r->execs.n)
			return -1;
	}
	return 0;
}

bool policy_rule_resolves(const struct policy *p, const char *name)
{
	return rules_resolve(p, name) > 0;
}

bool policy_may_resolve(const struct policy *p, const char *name)
{
	enum policy_mode mode = p->image->mode;
	int r = rules_resolve(p, name);

	if (r)
		return r > 0;
	return strcmp(name, HOST_INTERNAL) != 0 &&
	       (mode == POLICY_OPEN || mode == POLICY_LEARN || p->image->ask);
}

/* ---- addresses ------------------------------------------------------------------ */

/* A prefix names what is not public only if all of it is of that class: 0.0.0.0/0 does
 * not mean the metadata service. */
static bool names_class(const struct prefix *p, enum addr_class c)
{
	struct addr last = p->addr;

	for (unsigned i = p->bits; i < 128; i++)
		last.b[i / 8] |= (uint8_t)(0x80u >> (i % 8));
	return addr_classify(&p->addr) == c && addr_classify(&last) == c;
}

static bool is_self(const struct addr *a, const struct addr *self, size_t n_self)
{
	struct addr inner[ADDR_INNER_MAX];
	size_t n = addr_inner(a, inner);

	for (size_t i = 0; i < n_self; i++) {
		if (addr_equal(a, &self[i]))
			return true;
		for (size_t k = 0; k < n; k++)
			if (addr_equal(&inner[k], &self[i]))
				return true;
	}
	return false;
}

enum addr_class policy_address(const struct policy *p, uint32_t rule, const char *name,
			       const struct addr *a, const struct addr *self,
			       size_t n_self)
{
	const struct rule *r = rule < p->n_rules ? &p->rules[rule] : NULL;
	enum addr_class c = addr_classify(a);

	if (name && strcmp(name, HOST_INTERNAL) == 0) {
		if (!r || !(r->flags & RULE_INTERNAL))
			return ADDR_SELF;
		if (c == ADDR_LOOPBACK)
			return ADDR_PUBLIC;
		return c == ADDR_PUBLIC ? ADDR_RESERVED : c;
	}
	if (c != ADDR_LOOPBACK && is_self(a, self, n_self))
		c = ADDR_SELF;
	if (c == ADDR_PUBLIC || (r && r->classes >> c & 1))
		return ADDR_PUBLIC;
	for (uint32_t i = 0; r && i < r->prefixes.n; i++) {
		const struct prefix *x = &p->prefixes[r->prefixes.at + i];

		if (prefix_has(x, a) && (x->bits == 128 || names_class(x, c)))
			return ADDR_PUBLIC;
	}
	return c;
}
