/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dns_serve - what a question is answered with.
 *
 * Theory of operation. Answers are synthetic addresses (names.h), so nothing that
 * upstream says reaches the sandbox but whether a name exists and for how long; and the
 * only thing that leaves is the question for the addresses of a name that a rule, or mode
 * open or learn, allows. If it takes more to allow it (somebody must be asked, or it
 * depends on who connects, which a datagram does not tell), the name gets its address
 * without a question, and the connect finds out. Types without a meaning here are never
 * asked upstream.
 *
 * Bounds: DNS_PENDING_MAX questions wait at once, a further one gets SERVFAIL; a turn
 * takes at most a batch from each socket, so a flood leaves time for connections; of
 * refusals DNS_DENIALS_A_SECOND are recorded by name.
 */
#include "egress/conn.h"
#include "egress/dns_impl.h"

#include "base/util.h"

#include <stdio.h>
#include <sys/random.h>

const struct dns_answer dns_busy = {.rcode = DNS_SERVFAIL,
				    .ede_text = "too many questions at once"};

struct dns_state *dns_state(struct egress *e)
{
	struct dns_state *s;

	if (e->dns)
		return e->dns;
	s = calloc(1, sizeof(*s));
	if (s && getrandom(s->key, sizeof(s->key), 0) != (ssize_t)sizeof(s->key)) {
		free(s);
		return NULL;
	}
	if (s)
		s->egress = e;
	e->dns = s;
	return s;
}

void dns_stop(struct egress *e)
{
	struct dns_state *s = e->dns;

	if (!s)
		return;
	timer_stop(e->loop, &s->second);
	for (unsigned i = 0; i < s->n_udp; i++)
		dns_udp_free(s->udp[i]);
	free(take_ptr(e->dns));
}

/* ---- refusals in the log --------------------------------------------------------- */

static void on_second(struct timer *t)
{
	struct dns_state *s = container_of(t, struct dns_state, second);
	char why[64];

	snprintf(why, sizeof(why), "%u more names in one second", s->not_recorded);
	if (s->not_recorded)
		egress_record(s->egress, &(struct record){.kind = "dns",
							  .verdict = "deny",
							  .name = "*",
							  .reason = why});
	s->recorded = s->not_recorded = 0;
}

/* Was this name's refusal recorded within the last minute? If not, it is now. */
static bool told_lately(struct dns_state *s, const char *name, int64_t now)
{
	uint64_t hash;
	size_t i;

	crypto_shorthash((uint8_t *)&hash, (const uint8_t *)name, strlen(name), s->key);
	i = hash % DNS_DENIALS;
	if (s->denied[i].hash == hash && now - s->denied[i].at_ms < DNS_DENIAL_MS)
		return true;
	s->denied[i].hash = hash;
	s->denied[i].at_ms = now;
	return false;
}

static void record_denial(struct egress *e, const char *name, const char *rule,
			  const char *reason)
{
	struct dns_state *s = dns_state(e);

	if (!s || told_lately(s, name, loop_now(e->loop)))
		return;
	if (!s->second.slot)
		timer_start(e->loop, &s->second, 1000, on_second);
	if (s->recorded >= DNS_DENIALS_A_SECOND) {
		s->not_recorded++;
		return;
	}
	s->recorded++;
	egress_record(e, &(struct record){.kind = "dns",
					  .verdict = "deny",
					  .rule = rule,
					  .reason = reason,
					  .name = *name ? name : "(no host name)"});
}

/* ---- decisions ------------------------------------------------------------------- */

static void say(struct dns_plan *p, unsigned rcode)
{
	p->answer = (struct dns_answer){.rcode = rcode};
}

static void refuse(struct egress *e, const char *name, const char *why,
		   struct dns_plan *p)
{
	struct policy_subject nobody = {.unknown = false};
	struct policy_decision d = {.verdict = VERDICT_ALLOW};

	if (!why) { /* in the policy's words, if it refuses the usual port */
		policy_connect(e->policy, &nobody, name, NULL, 443, &d);
		why = d.verdict == VERDICT_DENY && d.reason ? d.reason
							    : "no rule allows it";
	}
	p->answer = (struct dns_answer){
		.rcode = DNS_NXDOMAIN, .ede = DNS_EDE_BLOCKED, .ede_text = why};
	record_denial(e, name, d.verdict == VERDICT_DENY ? d.id : NULL, why);
}

/* One address of the family that was asked for; no data for other types. */
static void say_addr(const struct dns_question *q, struct dns_plan *p, uint32_t ttl)
{
	p->answer = (struct dns_answer){.addrs = &p->addr, .n = 1, .ttl = ttl};
	if (q->type != (addr_is_v4(&p->addr) ? DNS_A : DNS_AAAA))
		say(p, DNS_NOERROR);
}

static void say_synthetic(struct egress *e, const struct dns_question *q, uint32_t ttl,
			  struct dns_plan *p)
{
	const struct name *name = names_get(e->names, q->name, loop_now(e->loop));

	if (!name) {
		p->answer = (struct dns_answer){.rcode = DNS_SERVFAIL,
						.ede_text = "too many names in use"};
		return;
	}
	names_addr(name, q->type == DNS_AAAA, &p->addr);
	say_addr(q, p, ttl);
}

/* What the message itself rules out. */
static bool decide_form(int parsed, const struct dns_question *q, struct dns_plan *p)
{
	if (parsed < 0)
		say(p, parsed == -ENOTSUP ? DNS_NOTIMP : DNS_FORMERR);
	else if (q->edns_version > 0)
		say(p, DNS_BADVERS);
	else if (q->class != DNS_IN || q->type == DNS_AXFR || q->type == DNS_IXFR ||
		 q->type == DNS_OPT)
		say(p, DNS_REFUSED);
	else
		return false;
	return true;
}

static bool below(const char *name, const char *top)
{
	size_t n = strlen(name), m = strlen(top);

	return n >= m && strcmp(name + n - m, top) == 0 &&
	       (n == m || name[n - m - 1] == '.');
}

/* Names that mean something to us alone: addresses backwards, and this sandbox. */
static bool decide_own(struct egress *e, const struct dns_question *q, struct dns_plan *p)
{
	const struct name *name = NULL;
	struct addr a;

	if (below(q->name, "localhost")) {
		addr_parse(q->type == DNS_AAAA ? "::1" : "127.0.0.1", &p->addr);
		say_addr(q, p, NAMES_TTL);
		return true;
	}
	if (!below(q->name, "in-addr.arpa") && !below(q->name, "ip6.arpa"))
		return false;
	if (dns_reverse(q->name, &a) == 0)
		name = names_by_addr(e->names, &a, loop_now(e->loop));
	say(p, name ? DNS_NOERROR : DNS_NXDOMAIN);
	if (name && q->type == DNS_PTR) {
		p->answer.ptr = name->text;
		p->answer.ttl = NAMES_TTL;
	}
	return true;
}

static bool mode_allows(const struct policy *p)
{
	enum policy_mode mode = policy_get_mode(p);

	return mode == POLICY_OPEN || mode == POLICY_LEARN;
}

static void decide_name(struct egress *e, const struct dns_question *q,
			struct dns_plan *p)
{
	bool allowed = policy_rule_resolves(e->policy, q->name) || mode_allows(e->policy);

	if (!policy_may_resolve(e->policy, q->name))
		refuse(e, q->name, NULL, p);
	else if (!allowed && !strchr(q->name, '.'))
		refuse(e, q->name, "a name without a dot, and no rule names it", p);
	else if (q->type != DNS_A && q->type != DNS_AAAA)
		say(p, DNS_NOERROR);
	else if (!allowed || strcmp(q->name, HOST_INTERNAL) == 0 || e->who_always ||
		 policy_scoped(e->policy))
		say_synthetic(e, q, NAMES_TTL, p);
	else
		p->lookup = true;
}

void dns_decide(struct egress *e, int parsed, const struct dns_question *q,
		struct dns_plan *ret)
{
	ret->lookup = false;
	if (decide_form(parsed, q, ret))
		return;
	if (q->bad_name)
		refuse(e, q->name, "not a host name", ret);
	else if (!decide_own(e, q, ret))
		decide_name(e, q, ret);
}

/* ---- questions that go upstream -------------------------------------------------- */

static void on_lookup(struct lookup_wait *w, const struct lookup_result *r)
{
	struct dns_query *dq = container_of(w, struct dns_query, wait);
	struct dns_plan p = {.lookup = false};

	dq->egress->dns->pending--;
	switch (r->status) {
	case LOOKUP_OK:
		say(&p, DNS_NOERROR);
		if (r->n)
			say_synthetic(dq->egress, &dq->q,
				      r->ttl < NAMES_TTL ? r->ttl : NAMES_TTL, &p);
		break;
	case LOOKUP_NXDOMAIN:
		say(&p, DNS_NXDOMAIN);
		break;
	case LOOKUP_FAILED:
		control_stale(dq->egress);
		/* fall through */
	case LOOKUP_BUSY:
		p.answer = (struct dns_answer){.rcode = DNS_SERVFAIL,
					       .ede = DNS_EDE_NETWORK,
					       .ede_text = r->why};
		break;
	}
	dq->done(dq, &p.answer);
}

bool dns_query_room(const struct egress *e)
{
	return e->dns && e->dns->pending < DNS_PENDING_MAX;
}

void dns_query_start(struct egress *e, struct dns_query *dq, const struct dns_question *q,
		     void (*done)(struct dns_query *, const struct dns_answer *))
{
	dq->egress = e;
	dq->q = *q;
	dq->done = done;
	dq->q.question_len = min_size(q->question_len, sizeof(dq->wire));
	memcpy(dq->wire, q->question, dq->q.question_len);
	dq->q.question = dq->wire;
	e->dns->pending++;
	lookup_start(e->lookup, dq->q.name, &dq->wait, on_lookup);
}

void dns_query_cancel(struct dns_query *dq)
{
	lookup_cancel(&dq->wait);
	dq->egress->dns->pending--;
}
