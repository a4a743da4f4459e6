/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explain - a decision with its reasons, rule by rule, for people.
 *
 * The verdict is that of policy_connect() or policy_request() itself; the steps say of
 * each rule what those looked at. Rules for other hosts are steps too while there are
 * few of them, else only counted.
 */
#include "policy/decide.h"

#include "base/util.h"

#define STEPS_ALL 64   /* up to so many rules, every one is a step */
#define STEPS_MAX 1000 /* a host with more rules than anybody will read */

static const char *const verdicts[] = {
	[VERDICT_DENY] = "deny",
	[VERDICT_ALLOW] = "allow",
	[VERDICT_INSPECT] = "inspect",
	[VERDICT_ASK] = "ask",
};

static const char *const misses[] = {
	[MISS_PORT] = "the port is not one of its ports",
	[MISS_AGENT] = "it is for other agents",
	[MISS_TOOL] = "it is for other tools",
	[MISS_EXEC] = "it is for other execs",
	[MISS_METHOD] = "the method is not one of its methods",
	[MISS_PATH] = "the path is not one of its paths",
};

struct story {
	const struct policy *p;
	const struct question *q;
	uint32_t decided; /* by which rule; POLICY_NO_RULE */
	json_t *steps;
	bool nomem;
};

static const char *why_matches(const struct story *s, uint32_t i, const struct rule *r)
{
	bool deny = r->flags & RULE_DENY;

	if (i > s->decided)
		return "a rule before it has decided";
	if (!s->q->request && (r->methods.n || r->paths.n))
		return deny ? "denies some requests: each one is judged"
			    : "allows some requests: each one is judged";
	if (r->flags & RULE_SECRET)
		return "a secret is for this host";
	return deny ? "denies it" : "allows it";
}

static void step(struct story *s, uint32_t i, bool host)
{
	const struct rule *r = &s->p->rules[i];
	enum miss miss = rule_misses(s->p, r, s->q);
	const char *why = "it is for other hosts";
	bool matches = host && miss == MISS_NOTHING;

	if (matches)
		why = why_matches(s, i, r);
	else if (host)
		why = misses[miss];
	if (json_array_append_new(s->steps,
				  json_pack("{s:s, s:b, s:s}", "rule", s->p->text + r->id,
					    "matches", matches, "why", why)) < 0)
		s->nomem = true;
}

/* Returns how many rules are for other hosts and no step. */
static uint32_t steps(struct story *s)
{
	bool all = s->p->n_rules <= STEPS_ALL;
	uint32_t next = 0, i, shown = 0;
	struct walk w;

	walk_start(&w, s->p, s->q->name, s->q->ip);
	while ((i = walk_next(&w)) != POLICY_NO_RULE) {
		for (; all && next < i; next++)
			step(s, next, false);
		next = i + 1;
		if (shown++ < STEPS_MAX)
			step(s, i, true);
	}
	for (; all && next < s->p->n_rules; next++)
		step(s, next, false);
	return all ? 0 : s->p->n_rules - shown;
}

json_t *policy_explain(const struct policy *p, const struct policy_subject *who,
		       const char *name, const struct addr *ip, uint16_t port,
		       const char *method, const char *path)
{
	static const struct policy_subject nobody;
	struct question q = {.who = who ? who : &nobody,
			     .name = name,
			     .ip = ip,
			     .port = port,
			     .request = method || path,
			     .method = method,
			     .path = path};
	struct story s = {.p = p, .q = &q, .steps = json_array()};
	struct policy_decision d;
	uint32_t others;

	if (!s.steps)
		return NULL;
	if (q.request)
		policy_request(p, who, name, ip, port, method, path, &d);
	else
		policy_connect(p, who, name, ip, port, &d);
	s.decided = d.rule;
	others = steps(&s);
	if (s.nomem) {
		json_decref(s.steps);
		return NULL;
	}
	return json_pack("{s:s, s:s, s:s?, s:I, s:b, s:I, s:o}", "verdict",
			 verdicts[d.verdict], "rule", d.id, "reason", d.reason,
			 "generation", (json_int_t)policy_generation(p), "secrets",
			 d.secrets, "otherRules", (json_int_t)others, "steps", s.steps);
}
