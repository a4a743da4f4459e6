/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random policies, decided by the tables and by a matcher that walks the JSON rule by
 * rule: both must agree on every question. And an image with a changed byte is refused or
 * decides something: it never reads where it should not.
 */
#include "tap.h"

#include "policy.h"
#include "policy/glob.h"

static uint32_t seed = 12345;

static uint32_t roll(uint32_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 17;
	seed ^= seed << 5;
	return seed % n;
}

static const char *pick(const char *const *words, uint32_t n)
{
	return words[roll(n)];
}
#define PICK(words) pick(words, ARRAY_LEN(words))

static const char *const patterns[] = {"a.x",
				       "b.x",
				       "*.x",
				       "**.x",
				       "c.a.x",
				       "*.a.x",
				       "**.a.x",
				       "x",
				       "**.b.x",
				       "*.c.a.x",
				       "10.0.0.0/8",
				       "10.1.0.0/16",
				       "10.1.2.3",
				       "0.0.0.0/0",
				       "::/0",
				       "fd00::/8",
				       "2001:db8::1",
				       "**.cove.internal",
				       "*.cove.internal",
				       "host.cove.internal"};
static const char *const names[] = {
	"a.x",   "b.x",     "x",   "c.a.x", "d.a.x",       "e.c.a.x",
	"q.b.x", "z.q.b.x", "a.y", "y",     HOST_INTERNAL, "b.host.cove.internal"};
static const char *const ips[] = {"10.1.2.3", "10.1.2.4", "10.2.0.0",    "9.9.9.9",
				  "::1",      "fd12::1",  "2001:db8::1", "2600::1"};
static const char *const methods[] = {"GET", "PUT"};
static const char *const paths[] = {"/", "/a", "/a/*", "/**"};
static const char *const asked_paths[] = {"/", "/a", "/a/b", "/a/b/c"};
static const char *const subjects[] = {"one", "two"};
static const char *const protocols[] = {"tcp", "tls", "http"};
static const char *const modes[] = {"none", "allowlist", "open", "learn"};

static json_t *random_port(void)
{
	return roll(2) ? json_integer(1 + roll(4))
		       : json_sprintf("%u-%u", 1 + roll(2), 3 + roll(2));
}

static json_t *random_rule(void)
{
	json_t *r = json_object();

	if (roll(4) == 0) {
		json_object_set_new(r, "host",
				    json_pack("[s, s]", PICK(patterns), PICK(patterns)));
	} else {
		json_object_set_new(r, "host",
				    json_string(roll(12) ? PICK(patterns) : "*"));
	}
	json_object_set_new(r, "port",
			    roll(3) ? json_pack("[o, o]", random_port(), random_port())
				    : json_pack("[s]", "1-65535"));
	if (roll(3) == 0)
		json_object_set_new(r, "action", json_string("deny"));
	if (roll(3) == 0)
		json_object_set_new(r, "methods", json_pack("[s]", PICK(methods)));
	if (roll(3) == 0)
		json_object_set_new(r, "paths", json_pack("[s]", PICK(paths)));
	if (roll(3) == 0 && !json_object_get(r, "methods") &&
	    !json_object_get(r, "paths"))
		json_object_set_new(r, "protocol", json_string(PICK(protocols)));
	if (roll(4) == 0)
		json_object_set_new(
			r, "scope",
			json_pack("{s:s}", roll(2) ? "tool" : "agent", PICK(subjects)));
	return r;
}

/* ---- the reference ---------------------------------------------------------------- */

struct asked {
	const char *host; /* a name, or an address as text */
	bool is_ip;
	uint16_t port;
	struct policy_subject who;
	const char *method, *path; /* NULL: a connection */
};

static bool any_of(const json_t *v, bool (*is)(const json_t *v, const struct asked *a),
		   const struct asked *a)
{
	if (!json_is_array(v))
		return is(v, a);
	for (size_t i = 0; i < json_array_size(v); i++)
		if (is(json_array_get(v, i), a))
			return true;
	return false;
}

static bool host_is(const json_t *v, const struct asked *a)
{
	const char *pattern = json_string_value(v);
	char out[HOST_MAX + 1];
	enum host_kind kind;

	host_pattern(pattern, &kind, out);
	if (a->is_ip && kind != HOST_IP && kind != HOST_CIDR && kind != HOST_ANY)
		return false;
	return host_matches(pattern, a->host);
}

static bool port_is(const json_t *v, const struct asked *a)
{
	unsigned low, high;

	if (json_is_integer(v))
		return json_integer_value(v) == a->port;
	return sscanf(json_string_value(v), "%u-%u", &low, &high) == 2 &&
	       a->port >= low && a->port <= high;
}

static bool method_is(const json_t *v, const struct asked *a)
{
	return strcmp(json_string_value(v), a->method) == 0;
}

static bool path_is(const json_t *v, const struct asked *a)
{
	return glob_matches(json_string_value(v), a->path);
}

static bool scope_is(const json_t *scope, const struct asked *a)
{
	const char *tool = json_string_value(json_object_get(scope, "tool"));
	const char *agent = json_string_value(json_object_get(scope, "agent"));

	return (!tool || (a->who.tool && !strcmp(tool, a->who.tool))) &&
	       (!agent || (a->who.agent && !strcmp(agent, a->who.agent)));
}

static bool rule_is(const json_t *r, const struct asked *a)
{
	const json_t *m = json_object_get(r, "methods"), *p = json_object_get(r, "paths");

	return any_of(json_object_get(r, "host"), host_is, a) &&
	       any_of(json_object_get(r, "port"), port_is, a) &&
	       scope_is(json_object_get(r, "scope"), a) &&
	       (!a->method || !m || any_of(m, method_is, a)) &&
	       (!a->method || !p || any_of(p, path_is, a));
}

static bool rule_is_l7(const json_t *r)
{
	return json_object_get(r, "methods") || json_object_get(r, "paths");
}

static bool rule_denies(const json_t *r)
{
	return json_object_get(r, "action") != NULL;
}

/* What the mode says when no rule matches. */
static enum policy_verdict reference_mode(const char *mode, const struct asked *a)
{
	struct addr ip;

	if (strcmp(a->host, HOST_INTERNAL) == 0 ||
	    (a->is_ip && (addr_parse(a->host, &ip) < 0 || addr_classify(&ip))))
		return VERDICT_DENY;
	return strcmp(mode, "open") == 0 || strcmp(mode, "learn") == 0 ? VERDICT_ALLOW
								       : VERDICT_DENY;
}

/* The rule that decides (-1: the mode), and the verdict. */
static int reference(const json_t *rules, const char *mode, const struct asked *a,
		     enum policy_verdict *ret)
{
	int first = -1;

	for (size_t i = 0; i < json_array_size(rules); i++) {
		const json_t *r = json_array_get(rules, i);
		const char *protocol = json_string_value(json_object_get(r, "protocol"));

		if (!rule_is(r, a))
			continue;
		if (first < 0)
			first = (int)i;
		if (!a->method && rule_is_l7(r) && rule_denies(r))
			continue; /* the next ones say whether there is a way at all */
		*ret = rule_denies(r) ? VERDICT_DENY : VERDICT_ALLOW;
		if (!a->method && *ret == VERDICT_ALLOW &&
		    (first != (int)i || rule_is_l7(r) ||
		     (protocol && !strcmp(protocol, "http"))))
			*ret = VERDICT_INSPECT;
		return first;
	}
	*ret = reference_mode(mode, a);
	if (first >= 0 && *ret == VERDICT_ALLOW)
		*ret = VERDICT_INSPECT;
	return first;
}

/* ---- both ------------------------------------------------------------------------- */

static struct asked random_question(void)
{
	struct asked a = {.port = (uint16_t)(1 + roll(5))};

	a.is_ip = roll(3) == 0;
	a.host = a.is_ip ? PICK(ips) : PICK(names);
	if (roll(2))
		a.who.tool = PICK(subjects);
	if (roll(2))
		a.who.agent = PICK(subjects);
	if (roll(2)) {
		a.method = PICK(methods);
		a.path = PICK(asked_paths);
	}
	return a;
}

static void decide(const struct policy *p, const struct asked *a,
		   struct policy_decision *d)
{
	const char *name = a->is_ip ? NULL : a->host;
	struct addr ip;

	if (a->is_ip)
		addr_parse(a->host, &ip);
	if (a->method)
		policy_request(p, &a->who, name, name ? NULL : &ip, a->port, a->method,
			       a->path, d);
	else
		policy_connect(p, &a->who, name, name ? NULL : &ip, a->port, d);
}

/* How many of n questions were answered differently. */
static unsigned disagreements(const struct policy *p, const json_t *rules,
			      const char *mode, unsigned n)
{
	unsigned wrong = 0;

	while (n-- > 0) {
		struct asked a = random_question();
		enum policy_verdict want = VERDICT_DENY;
		int rule = reference(rules, mode, &a, &want);
		struct policy_decision d;

		decide(p, &a, &d);
		if (d.verdict == want &&
		    d.rule == (rule < 0 ? POLICY_NO_RULE : (uint32_t)rule))
			continue;
		if (wrong++ == 0)
			printf("# %s:%u %s %s: rule %d verdict %d, not %d %d\n", a.host,
			       a.port, a.method ? a.method : "-", a.path ? a.path : "",
			       (int)d.rule, d.verdict, rule, want);
	}
	return wrong;
}

static void one_policy(unsigned round, struct buf *image)
{
	unsigned n = roll(round % 3 ? 12 : 80), wrong;
	const char *mode = PICK(modes);
	json_t *rules = json_array(), *network;
	struct policy *p = NULL;
	struct cove_error err;

	for (unsigned i = 0; i < n; i++)
		json_array_append_new(rules, random_rule());
	network = json_pack("{s:s, s:O}", "mode", mode, "rules", rules);
	buf_clear(image);
	if (policy_compile(&(struct policy_source){.network = network}, image, &err) <
		    0 ||
	    policy_open(&p, image->data, image->len, &err) < 0) {
		OK(false, "round %u: %s", round, err.msg);
	} else {
		wrong = disagreements(p, rules, mode, 400);
		if (wrong || round % 50 == 0)
			OK(wrong == 0, "round %u: %u rules, mode %s", round, n, mode);
		policy_close(p);
	}
	json_decref(network);
	json_decref(rules);
}

/* One byte of the image changed, all decisions asked for. */
static void mutate(const struct buf *image, unsigned times)
{
	cleanup_free char *copy = malloc(image->len);
	unsigned opened = 0;

	for (unsigned i = 0; copy && i < times; i++) {
		struct policy *p;
		struct cove_error err;
		size_t at = roll((uint32_t)image->len);

		memcpy(copy, image->data, image->len);
		copy[at] = (char)(copy[at] ^ (1u << roll(8)));
		if (policy_open(&p, copy, image->len, &err) < 0)
			continue;
		opened++;
		for (unsigned k = 0; k < 20; k++) {
			struct asked a = random_question();
			struct policy_decision d;
			struct addr ip = {0};

			decide(p, &a, &d);
			policy_may_resolve(p, a.host);
			policy_address(p, d.rule, a.host, &ip, NULL, 0);
			json_decref(policy_explain(p, &a.who, a.host, NULL, a.port,
						   a.method, a.path));
		}
		policy_close(p);
	}
	OK(opened > 0, "%u of %u changed images opened, none did harm", opened, times);
}

int main(void)
{
	struct buf image = BUF_INIT(POLICY_IMAGE_MAX);
	struct cove_error err;
	struct policy *p;

	for (unsigned round = 0; round < 500; round++)
		one_policy(round, &image);
	mutate(&image, 3000);
	for (size_t n = 0; n < image.len; n += 7)
		if (policy_open(&p, image.data, n, &err) == 0)
			OK(false, "an image cut at %zu", n);
	OK(policy_open(&p, image.data + 4, image.len - 4, &err) < 0,
	   "not aligned: refused");
	buf_clear(&image);
	return tap_done();
}
