/* SPDX-License-Identifier: Apache-2.0 */
/* l7_judge - is the request for the host that was connected to, and may it be made? */
#include "egress/l7.h"

#include "base/util.h"

#include <stdio.h>

/* ---- authority --------------------------------------------------------------------- */

/* Splits "host:port" or "[v6]:port"; *ret_port 0: none. The text was checked. */
static size_t split(const char *text, uint16_t *ret_port)
{
	const char *end = *text == '[' ? strchr(text, ']') + 1 : strchrnul(text, ':');

	*ret_port = *end == ':' ? (uint16_t)strtoul(end + 1, NULL, 10) : 0;
	return (size_t)(end - text);
}

static bool same_address(const struct addr *ip, const char *text, size_t n)
{
	char copy[ADDR_TEXT];
	struct addr a;

	if (*text == '[') {
		text++;
		n -= 2;
	}
	if (n >= sizeof(copy))
		return false;
	memcpy(copy, text, n);
	copy[n] = '\0';
	return addr_parse(copy, &a) == 0 && addr_equal(&a, ip);
}

static bool same_name(const char *name, const char *text, size_t n)
{
	char normal[HOST_MAX + 1];

	return host_normalise(text, n, normal) == 0 && strcmp(normal, name) == 0;
}

/* One form of it goes on: ours. */
static int write_authority(const struct conn *c, struct http_head *req, uint16_t port)
{
	char text[ADDR_TEXT], out[HOST_MAX + 16];
	const char *host = conn_host(c, text);
	bool v6 = !c->name && !addr_is_v4(&c->ip);

	snprintf(out, sizeof(out), port ? "%s%s%s:%u" : "%s%s%s", v6 ? "[" : "", host,
		 v6 ? "]" : "", (unsigned)port);
	return http_authority_set(req, out);
}

const char *l7_check_authority(const struct l7 *l, struct http_head *req)
{
	const struct conn *c = l->c;
	uint16_t port = 0;
	size_t n;

	if (req->scheme && strcmp(req->scheme, l->tls ? "https" : "http") != 0)
		return "the URL in the request line has another scheme";
	if (req->authority) {
		n = split(req->authority, &port);
		if (c->name ? !same_name(c->name->text, req->authority, n)
			    : !same_address(&c->ip, req->authority, n))
			return "Host is not the host that was connected to";
		if (port && port != c->port)
			return "Host has another port than the one connected to";
	} else if (c->port != (l->tls ? 443 : 80)) {
		port = c->port;
	}
	return write_authority(c, req, port) < 0 ? "out of memory" : NULL;
}

/* ---- policy ------------------------------------------------------------------------ */

/* Bytes are passed on that conn.c allowed without a look at methods and paths. */
static bool needs_no_judge(const struct l7 *l)
{
	return !l->tls && l->c->decision.verdict == VERDICT_ALLOW;
}

/* The stricter of the two readings' decisions. */
static void decide(const struct exchange *x, struct policy_decision *ret)
{
	static const int severity[] = {[VERDICT_ALLOW] = 0,
				       [VERDICT_ASK] = 1,
				       [VERDICT_INSPECT] = 2,
				       [VERDICT_DENY] = 3};
	const struct conn *c = x->l7->c;

	for (int i = 0; i < 2; i++) {
		struct policy_decision d;

		if (i && strcmp(x->path[0], x->path[1]) == 0)
			return;
		policy_request(c->egress->policy, &c->who, c->name ? c->name->text : NULL,
			       c->name ? NULL : &c->ip, c->port, x->req.method,
			       x->path[i], &d);
		if (i == 0 || severity[d.verdict] > severity[ret->verdict])
			*ret = d;
	}
}

static bool allows(const struct exchange *x, const struct policy_decision *d)
{
	return d->verdict == VERDICT_ALLOW ||
	       (d->verdict == VERDICT_ASK && (x->asked || x->l7->c->asked));
}

bool l7_still_allowed(struct exchange *x)
{
	const struct policy *p = x->l7->c->egress->policy;
	struct policy_decision d;

	if (x->generation == policy_generation(p) || !x->path[0])
		return true;
	x->generation = policy_generation(p);
	if (needs_no_judge(x->l7))
		return true;
	decide(x, &d);
	return allows(x, &d);
}

static void answered(struct question *q, const json_t *answer)
{
	struct exchange *x = container_of(q, struct exchange, question);
	struct l7 *l = x->l7;

	x->asking = false;
	x->asked = json_is_true(json_object_get(answer, "allow"));
	if (x->asked && l7_still_allowed(x))
		l7_forward(x);
	else
		l7_answer(l, 403, x->rule,
			  answer ? "the question was answered with no"
				 : "nobody answered the question in time",
			  false);
	l7_run(l);
}

static bool find_paths(struct exchange *x)
{
	size_t size = 3 * strlen(x->req.target) + 2;

	x->path[0] = malloc(size);
	x->path[1] = malloc(size);
	return x->path[0] && x->path[1] &&
	       http_path(x->req.target, PATH_STRICT, x->path[0], size) == 0 &&
	       http_path(x->req.target, PATH_LENIENT, x->path[1], size) == 0;
}

void l7_judge(struct exchange *x)
{
	struct l7 *l = x->l7;
	struct egress *e = l->c->egress;
	const char *why = l7_check_authority(l, &x->req);
	struct policy_decision d = l->c->decision;

	if (why) {
		l7_answer(l, 403, "authority", why, true);
		return;
	}
	x->generation = policy_generation(e->policy);
	if (!needs_no_judge(l)) {
		if (!find_paths(x)) {
			l7_answer(l, 403, "path", "a path that can be read in two ways",
				  false);
			return;
		}
		decide(x, &d);
	}
	snprintf(x->rule, sizeof(x->rule), "%s", d.id ? d.id : "");
	if (needs_no_judge(l) || allows(x, &d)) {
		l7_forward(x);
	} else if (d.verdict == VERDICT_ASK) {
		x->request = REQ_ASK;
		x->asking = true;
		control_ask(e, &x->question, l->c, x->req.method, x->path[0], answered);
	} else {
		l7_answer(l, 403, x->rule, d.reason ? d.reason : "no rule allows it",
			  false);
	}
}
