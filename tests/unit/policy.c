/* SPDX-License-Identifier: Apache-2.0 */
/* What a policy decides, clause by clause. */
#include "tap.h"

#include "policy.h"

static const char *const verdicts[] = {"deny", "allow", "inspect", "ask"};

/* "VERDICT ID" of a connection to a name, or to an address if it is one. */
static const char *connect_as(const struct policy *p, const struct policy_subject *who,
			      const char *host, uint16_t port)
{
	static char out[200];
	struct policy_decision d;
	struct addr ip;
	bool address = addr_parse(host, &ip) == 0;

	policy_connect(p, who, address ? NULL : host, address ? &ip : NULL, port, &d);
	if ((d.verdict == VERDICT_DENY) != !!d.reason && d.verdict != VERDICT_ASK)
		return "a refusal without a reason";
	snprintf(out, sizeof(out), "%s %s", verdicts[d.verdict], d.id);
	return out;
}

static const char *request_as(const struct policy *p, const char *host, uint16_t port,
			      const char *method, const char *path)
{
	static char out[200];
	struct policy_decision d;

	policy_request(p, NULL, host, NULL, port, method, path, &d);
	snprintf(out, sizeof(out), "%s %s", verdicts[d.verdict], d.id);
	return out;
}

#define CONNECT(host, port, want) \
	do { \
		const char *got_ = connect_as(m.p, NULL, host, port); \
		OK(strcmp(got_, want) == 0, "%s:%d: %s (%s)", host, port, want, got_); \
	} while (0)
#define REQUEST(host, method, path, want) \
	do { \
		const char *got_ = request_as(m.p, host, 443, method, path); \
		OK(strcmp(got_, want) == 0, "%s %s%s: %s (%s)", method, host, path, \
		   want, got_); \
	} while (0)

static void modes(void)
{
	struct policy_decision d;
	struct made m;

	OK(make_policy(&m, NULL, NULL, NULL), "nothing at all compiles");
	CONNECT("example.com", 443, "deny mode:none");
	OK(policy_get_mode(m.p) == POLICY_NONE && policy_rules(m.p) == 0 &&
		   !policy_asks(m.p) && !policy_scoped(m.p) &&
		   policy_generation(m.p) == 7,
	   "it says what it is");
	OK(!policy_may_resolve(m.p, "example.com"), "and no name resolves");
	unmake(&m);

	make_policy(&m, "{'mode': 'allowlist'}", NULL, NULL);
	CONNECT("example.com", 443, "deny mode:allowlist");
	CONNECT("8.8.8.8", 443, "deny mode:allowlist");
	unmake(&m);

	make_policy(&m, "{'mode': 'open'}", NULL, NULL);
	CONNECT("example.com", 443, "allow mode:open");
	CONNECT("8.8.8.8", 22, "allow mode:open");
	CONNECT("127.0.0.1", 22, "deny mode:open");
	CONNECT("169.254.169.254", 80, "deny mode:open");
	CONNECT("::ffff:10.0.0.1", 80, "deny mode:open");
	CONNECT(HOST_INTERNAL, 80, "deny mode:open");
	OK(policy_may_resolve(m.p, "example.com") &&
		   !policy_may_resolve(m.p, HOST_INTERNAL),
	   "open: every name but the host's");
	unmake(&m);

	make_policy(&m, "{'mode': 'learn'}", NULL, NULL);
	policy_connect(m.p, NULL, "example.com", NULL, 443, &d);
	OK(d.verdict == VERDICT_ALLOW && d.learn && d.rule == POLICY_NO_RULE,
	   "learn allows, and says so");
	CONNECT(HOST_INTERNAL, 80, "deny mode:learn");
	unmake(&m);
	OK(!make_policy(&m, "{'mode': 'closed'}", NULL, NULL), "no other mode");
	unmake(&m);
}

static void asking(void)
{
	struct made m;

	make_policy(&m,
		    "{'mode': 'allowlist', 'ask': true, 'rules': ["
		    "{'host': 'bad.com', 'action': 'deny'}]}",
		    NULL, NULL);
	CONNECT("example.com", 443, "ask mode:allowlist");
	CONNECT("8.8.8.8", 443, "ask mode:allowlist");
	CONNECT("bad.com", 443, "deny rules[0]");
	CONNECT("10.0.0.1", 443, "deny mode:allowlist");
	CONNECT(HOST_INTERNAL, 443, "deny mode:allowlist");
	REQUEST("example.com", "GET", "/", "ask mode:allowlist");
	OK(policy_may_resolve(m.p, "example.com") && !policy_may_resolve(m.p, "bad.com"),
	   "what may be asked for resolves, what a rule denies does not");
	unmake(&m);
}

static void order(void)
{
	struct made m;

	OK(make_policy(&m,
		       "{'mode': 'allowlist',"
		       " 'allowedHosts': ['a.com', 'b.com:8443', '[::1]:80', '::2', "
		       "                  '1.2.3.4:22', 'e.com'],"
		       " 'allowedPorts': [443, '8000-8010'],"
		       " 'rules': [{'id': 'first', 'host': 'a.com', 'port': 80},"
		       "  {'host': 'a.com', 'port': 443, 'action': 'deny'},"
		       "  {'host': ['c.com', '*.c.com'], 'port': [1, '5-7', '9']},"
		       "  {'host': 'e.com', 'action': 'deny'}]}",
		       NULL,
		       "[{'host': 'e.com', 'port': 443}, {'host': 'x.e.com'},"
		       " {'id': 'late', 'host': 'b.com', 'action': 'deny', 'port': 9}]"),
	   "compiles: %s", m.err.msg);
	CONNECT("a.com", 80, "allow first");
	CONNECT("a.com", 443, "deny rules[1]");
	CONNECT("a.com", 8005, "allow allowedHosts[0]");
	CONNECT("a.com", 8011, "deny mode:allowlist");
	CONNECT("b.com", 8443, "allow allowedHosts[1]");
	CONNECT("b.com", 443, "deny mode:allowlist");
	CONNECT("b.com", 9, "deny late");
	CONNECT("::1", 80, "allow allowedHosts[2]");
	CONNECT("::1", 443, "deny mode:allowlist");
	CONNECT("::2", 443, "allow allowedHosts[3]");
	CONNECT("1.2.3.4", 22, "allow allowedHosts[4]");
	CONNECT("c.com", 6, "allow rules[2]");
	CONNECT("x.c.com", 9, "allow rules[2]");
	CONNECT("x.c.com", 8, "deny mode:allowlist");
	CONNECT("e.com", 443, "allow live[0]");
	CONNECT("e.com", 80, "deny rules[3]");
	CONNECT("x.e.com", 80, "allow live[1]");
	OK(policy_rules(m.p) == 13, "thirteen rules");
	unmake(&m);
}

static void hosts(void)
{
	struct made m;

	make_policy(&m,
		    "{'mode': 'allowlist', 'rules': ["
		    "{'id': 'exact', 'host': 'a.example.com'},"
		    "{'id': 'one', 'host': '*.Example.com'},"
		    "{'id': 'many', 'host': '**.example.com.'},"
		    "{'id': 'tld', 'host': '**.org'},"
		    "{'id': 'idn', 'host': 'b\xc3\xbc"
		    "cher.de'},"
		    "{'id': 'ip', 'host': '10.0.0.1'},"
		    "{'id': 'net', 'host': '10.0.0.0/8'},"
		    "{'id': 'six', 'host': '2001:db8::/32'},"
		    "{'id': 'any', 'host': '*', 'port': 7}]}",
		    NULL, NULL);
	CONNECT("a.example.com", 1, "allow exact");
	CONNECT("b.example.com", 1, "allow one");
	CONNECT("x.a.example.com", 1, "allow many");
	CONNECT("a.b.c.d.e.example.com", 1, "allow many");
	CONNECT("example.com", 1, "deny mode:allowlist");
	CONNECT("example.com", 7, "allow any");
	CONNECT("bexample.com", 1, "deny mode:allowlist");
	CONNECT("example.com.evil.net", 1, "deny mode:allowlist");
	CONNECT("x.org", 1, "allow tld");
	CONNECT("x.y.org", 1, "allow tld");
	CONNECT("org", 1, "deny mode:allowlist");
	CONNECT("xn--bcher-kva.de", 1, "allow idn");
	CONNECT("10.0.0.1", 1, "allow ip");
	CONNECT("::ffff:10.0.0.1", 1, "allow ip");
	CONNECT("10.0.0.2", 1, "allow net");
	CONNECT("11.0.0.2", 1, "deny mode:allowlist");
	CONNECT("8.8.8.8", 7, "allow any");
	CONNECT("2001:db8::1", 1, "allow six");
	CONNECT("2001:db9::1", 1, "deny mode:allowlist");
	CONNECT(HOST_INTERNAL, 7, "deny mode:allowlist");
	OK(policy_may_resolve(m.p, "q.example.com") && policy_may_resolve(m.p, "nowhere"),
	   "a rule for any host resolves any");
	unmake(&m);

	make_policy(&m,
		    "{'mode': 'open', 'rules': [{'host': '" HOST_INTERNAL "', "
		    "'port': 8080}, {'host': '**.internal'}]}",
		    NULL, NULL);
	CONNECT(HOST_INTERNAL, 8080, "allow rules[0]");
	CONNECT(HOST_INTERNAL, 8081, "deny mode:open");
	CONNECT("a." HOST_INTERNAL, 8081, "allow rules[1]");
	OK(policy_may_resolve(m.p, HOST_INTERNAL),
	   "the host's name resolves by its rule");
	unmake(&m);
	OK(!make_policy(&m, "{'rules': [{'host': '" HOST_INTERNAL "'}]}", NULL, NULL) &&
		   strstr(m.err.msg, "needs a port"),
	   "the host without a port is refused");
	unmake(&m);
}

static void scopes(void)
{
	static const struct policy_subject tool = {.tool = "Browser"},
					   agent = {.agent = "main", .exec = "e1"},
					   other = {.agent = "main", .exec = "e2"},
					   unknown = {.unknown = true},
					   offline = {.offline = true, .tool = "Browser"};
	struct made m;

	make_policy(&m,
		    "{'mode': 'allowlist', 'rules': ["
		    "{'id': 'tool', 'host': 'a.com', 'scope': 'Browser'},"
		    "{'id': 'both', 'host': 'a.com', 'scope': {'agent': ['x', 'main'], "
		    "'exec': 'e1'}},"
		    "{'id': 'all', 'host': 'b.com'}]}",
		    NULL, NULL);
#define AS(who, host, want) \
	OK(strcmp(connect_as(m.p, who, host, 443), want) == 0, "%s: %s as " #who, host, \
	   want)
	OK(policy_scoped(m.p), "it has scopes");
	AS(&tool, "a.com", "allow tool");
	AS(&agent, "a.com", "allow both");
	AS(&other, "a.com", "deny mode:allowlist");
	AS(NULL, "a.com", "deny mode:allowlist");
	AS(NULL, "b.com", "allow all");
	AS(&unknown, "b.com", "deny exec:unknown");
	AS(&offline, "b.com", "deny exec:offline");
	OK(policy_may_resolve(m.p, "a.com"), "a name for somebody resolves");
	unmake(&m);

	make_policy(&m, "{'mode': 'open'}", NULL, NULL);
	AS(&unknown, "b.com", "allow mode:open");
	AS(&offline, "b.com", "deny exec:offline");
	unmake(&m);
#undef AS
}

static void requests(void)
{
	struct policy_decision d;
	struct made m;

	make_policy(&m,
		    "{'mode': 'allowlist', 'rules': ["
		    "{'id': 'no', 'host': 'a.com', 'paths': ['/admin/**', '/x'], "
		    "'action': 'deny'},"
		    "{'id': 'get', 'host': 'a.com', 'methods': ['GET', 'HEAD']},"
		    "{'id': 'post', 'host': 'a.com', 'methods': ['POST'], "
		    "'paths': ['/v1/*']},"
		    "{'id': 'http', 'host': 'b.com', 'protocol': 'http'},"
		    "{'id': 'tls', 'host': 'c.com', 'protocol': 'tls'},"
		    "{'id': 'only', 'host': 'd.com', 'paths': ['/x'], 'action': 'deny'},"
		    "{'id': 'stop', 'host': 'e.com', 'paths': ['/x'], 'action': 'deny'},"
		    "{'id': 'end', 'host': 'e.com', 'action': 'deny'},"
		    "{'host': 'e.com'},"
		    "{'id': 'dh', 'host': 'f.com', 'protocol': 'http', 'action': 'deny'}"
		    "]}",
		    NULL, NULL);
	CONNECT("a.com", 443, "inspect no");
	REQUEST("a.com", "GET", "/", "allow get");
	REQUEST("a.com", "GET", "/admin/x", "deny no");
	REQUEST("a.com", "GET", "/x", "deny no");
	REQUEST("a.com", "POST", "/v1/y", "allow post");
	REQUEST("a.com", "POST", "/v1/y/z", "deny mode:allowlist");
	REQUEST("a.com", "get", "/", "deny mode:allowlist");
	REQUEST("a.com", "DELETE", "/", "deny mode:allowlist");
	CONNECT("b.com", 443, "inspect http");
	REQUEST("b.com", "PUT", "/any", "allow http");
	CONNECT("c.com", 443, "allow tls");
	policy_connect(m.p, NULL, "c.com", NULL, 443, &d);
	OK(d.protocol == PROTO_TLS && !d.secrets, "what it must be is told");
	CONNECT("d.com", 443, "deny only");
	CONNECT("e.com", 443, "deny stop");
	CONNECT("f.com", 443, "deny dh");
	unmake(&m);

	make_policy(&m,
		    "{'mode': 'open', 'rules': [{'id': 'only', 'host': 'd.com', "
		    "'paths': ['/x'], 'action': 'deny'}]}",
		    NULL, NULL);
	CONNECT("d.com", 443, "inspect only");
	REQUEST("d.com", "GET", "/x", "deny only");
	REQUEST("d.com", "GET", "/y", "allow mode:open");
	OK(policy_may_resolve(m.p, "d.com"), "a host with some requests resolves");
	unmake(&m);
}

static void secrets(void)
{
	static const char two[] =
		"[{'name': 'KEY', 'hosts': ['api.a.com', '**.b.com']},"
		" {'name': 'HELD', 'hosts': ['c.com'], 'inject': 'env'},"
		" {'name': 'NONE'}]";
	struct policy_decision d;
	struct made m;

	make_policy(&m,
		    "{'mode': 'allowlist', 'rules': ["
		    "{'id': 'raw', 'host': 'raw.b.com', 'protocol': 'tcp'},"
		    "{'id': 'no', 'host': 'no.b.com', 'action': 'deny'},"
		    "{'id': 'plain', 'host': 'plain.b.com', 'port': 80},"
		    "{'id': 'l7', 'host': 'l7.b.com', 'methods': ['GET']}]}",
		    two, NULL);
	CONNECT("api.a.com", 443, "inspect secret:KEY");
	policy_connect(m.p, NULL, "api.a.com", NULL, 443, &d);
	OK(d.secrets && d.protocol == PROTO_TLS, "because of the secret, and over TLS");
	REQUEST("api.a.com", "POST", "/", "allow secret:KEY");
	policy_request(m.p, NULL, "api.a.com", NULL, 443, "GET", "/", &d);
	OK(d.secrets, "requests know it too");
	CONNECT("api.a.com", 8443, "deny mode:allowlist");
	CONNECT("x.y.b.com", 443, "inspect secret:KEY");
	CONNECT("b.com", 443, "deny mode:allowlist");
	CONNECT("raw.b.com", 443, "allow raw");
	policy_connect(m.p, NULL, "raw.b.com", NULL, 443, &d);
	OK(!d.secrets, "protocol tcp: no secrets there");
	CONNECT("no.b.com", 443, "deny no");
	CONNECT("plain.b.com", 80, "inspect plain");
	CONNECT("l7.b.com", 443, "inspect l7");
	REQUEST("l7.b.com", "PUT", "/", "allow secret:KEY");
	CONNECT("c.com", 443, "allow secret:HELD");
	OK(policy_rules(m.p) == 6, "no rule for a secret without hosts");
	unmake(&m);

	make_policy(&m, "{'mode': 'open'}", two, NULL);
	CONNECT("api.a.com", 8443, "inspect mode:open");
	CONNECT("other.com", 443, "allow mode:open");
	unmake(&m);
	OK(!make_policy(&m, NULL, "[{'name': 'X', 'hosts': ['*']}]", NULL),
	   "a secret for every host is refused");
	unmake(&m);
}

static const char *reach(const struct made *m, const char *host, const char *name,
			 const char *address)
{
	static struct addr self[3];
	struct policy_decision d;
	struct addr a, ip;
	bool is_ip = addr_parse(host, &ip) == 0;

	addr_parse("192.168.7.7", &self[0]);
	addr_parse("8.8.4.4", &self[1]);
	addr_parse("127.0.0.1", &self[2]);
	addr_parse(address, &a);
	policy_connect(m->p, NULL, is_ip ? NULL : host, is_ip ? &ip : NULL, 443, &d);
	return addr_class_name(policy_address(m->p, d.rule, name, &a, self, 3));
}

static void addresses(void)
{
	static const struct {
		const char *host, *address, *class;
	} cases[] = {
		{"plain.com",       "1.1.1.1",           "public"  },
		{"plain.com",       "127.0.0.1",         "loopback"},
		{"plain.com",       "169.254.169.254",   "metadata"},
		{"plain.com",       "10.0.0.1",          "private" },
		{"plain.com",       "100.64.0.1",        "shared"  },
		{"plain.com",       "64:ff9b::10.0.0.1", "private" },
		{"plain.com",       "8.8.4.4",           "self"    },
		{"plain.com",       "64:ff9b::8.8.4.4",  "self"    },
		{"plain.com",       "2002:808:404::",    "self"    },
		{"private.com",     "10.0.0.1",          "public"  },
		{"private.com",     "192.168.7.7",       "self"    },
		{"private.com",     "127.0.0.1",         "loopback"},
		{"range.com",       "10.1.0.1",          "public"  },
		{"range.com",       "10.2.0.1",          "private" },
		{"self.com",        "192.168.7.7",       "public"  },
		{"self.com",        "192.168.7.8",       "private" },
		{"loop.com",        "127.0.0.1",         "public"  },
		{"10.0.0.9",        "10.0.0.9",          "public"  },
		{"192.168.7.7",     "192.168.7.7",       "public"  },
		{"192.168.9.9",     "192.168.9.9",       "public"  },
		{"192.168.9.9",     "192.168.7.7",       "self"    },
		{"172.20.0.1",      "172.20.0.1",        "private" }, /* 172/8 */
		{"172.200.0.1",     "172.200.0.1",       "public"  },
		{"169.254.169.254", "169.254.169.254",   "metadata"}, /* by /16 */
		{"169.254.1.1",     "169.254.1.1",       "public"  },
		{"meta.com",        "169.254.169.254",   "public"  },
		{"list.com",        "10.7.7.7",          "public"  },
		{"unlisted.com",    "10.7.7.7",          "private" }, /* by mode */
		{"unlisted.com",    "9.9.9.9",           "public"  },
	};
	struct made m;

	OK(make_policy(&m,
		       "{'mode': 'open', 'addresses': ['10.7.0.0/16'],"
		       "'allowedHosts': ['list.com'], 'rules': ["
		       "{'host': 'plain.com'},"
		       "{'host': 'private.com', 'addresses': ['private']},"
		       "{'host': 'range.com', 'addresses': '10.1.0.0/16'},"
		       "{'host': 'self.com', 'addresses': ['self']},"
		       "{'host': 'loop.com', 'addresses': ['loopback']},"
		       "{'host': 'meta.com', 'addresses': ['169.254.169.254']},"
		       "{'host': ['10.0.0.9', '192.168.7.7']},"
		       "{'host': '192.168.0.0/16'}, {'host': '172.0.0.0/8'},"
		       "{'host': '169.254.0.0/16'},"
		       "{'host': '" HOST_INTERNAL "', 'port': 443}]}",
		       NULL, NULL),
	   "compiles: %s", m.err.msg);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *got =
			reach(&m, cases[i].host, cases[i].host, cases[i].address);

		OK(strcmp(got, cases[i].class) == 0, "%s at %s: %s (%s)", cases[i].host,
		   cases[i].address, cases[i].class, got);
	}
	OK(!strcmp(reach(&m, HOST_INTERNAL, HOST_INTERNAL, "127.0.0.1"), "public") &&
		   !strcmp(reach(&m, HOST_INTERNAL, HOST_INTERNAL, "::1"), "public"),
	   "the host is at its loopback");
	OK(!strcmp(reach(&m, HOST_INTERNAL, HOST_INTERNAL, "192.168.7.7"), "private") &&
		   !strcmp(reach(&m, HOST_INTERNAL, HOST_INTERNAL, "1.1.1.1"),
			   "reserved"),
	   "and nowhere else");
	OK(strcmp(reach(&m, "loop.com", HOST_INTERNAL, "127.0.0.1"), "public") != 0,
	   "nor by a rule for another name");
	unmake(&m);

	make_policy(&m, "{'rules': [{'host': '0.0.0.0/0'}, {'host': '::/0'}]}", NULL,
		    NULL);
	OK(!strcmp(reach(&m, "127.0.0.1", NULL, "127.0.0.1"), "loopback") &&
		   !strcmp(reach(&m, "0.0.0.0", NULL, "0.0.0.0"), "unspecified") &&
		   !strcmp(reach(&m, "::1", NULL, "::1"), "loopback") &&
		   !strcmp(reach(&m, "::", NULL, "::"), "unspecified") &&
		   !strcmp(reach(&m, "9.9.9.9", NULL, "9.9.9.9"), "public"),
	   "everything does not name what is special");
	unmake(&m);
}

static void refused(void)
{
	static const char *const bad[] = {
		"{'rules': {}}",
		"{'rules': [1]}",
		"{'rules': [{}]}",
		"{'rules': [{'host': []}]}",
		"{'rules': [{'host': 5}]}",
		"{'rules': [{'host': 'a b'}]}",
		"{'rules': [{'host': 'a', 'port': 0}]}",
		"{'rules': [{'host': 'a', 'port': 65536}]}",
		"{'rules': [{'host': 'a', 'port': -1}]}",
		"{'rules': [{'host': 'a', 'port': '9-8'}]}",
		"{'rules': [{'host': 'a', 'port': '8-'}]}",
		"{'rules': [{'host': 'a', 'port': []}]}",
		"{'rules': [{'host': 'a', 'port': [true]}]}",
		"{'rules': [{'host': 'a', 'methods': []}]}",
		"{'rules': [{'host': 'a', 'methods': ['get']}]}",
		"{'rules': [{'host': 'a', 'paths': ['x']}]}",
		"{'rules': [{'host': 'a', 'paths': ['/x y']}]}",
		"{'rules': [{'host': 'a', 'paths': ['/'], 'protocol': 'tcp'}]}",
		"{'rules': [{'host': 'a', 'protocol': 'udp'}]}",
		"{'rules': [{'host': 'a', 'action': 'ask'}]}",
		"{'rules': [{'host': 'a', 'scope': {}}]}",
		"{'rules': [{'host': 'a', 'scope': {'user': 'x'}}]}",
		"{'rules': [{'host': 'a', 'scope': {'tool': []}}]}",
		"{'rules': [{'host': 'a', 'scope': ''}]}",
		"{'rules': [{'host': 'a', 'addresses': ['home']}]}",
		"{'rules': [{'host': 'a', 'extra': 1}]}",
		"{'rules': [{'host': 'a', 'id': ''}]}",
		"{'allowedHosts': ['*']}",
		"{'allowedHosts': ['a:0']}",
		"{'allowedHosts': ['a:b']}",
		"{'allowedHosts': 'a'}",
		"{'allowedPorts': ['x']}",
	};
	struct made m;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		OK(!make_policy(&m, bad[i], NULL, NULL) && m.err.code == COVE_EINVAL &&
			   strncmp(m.err.msg, "network: ", 9) == 0,
		   "%s: %s", bad[i], m.err.msg);
		unmake(&m);
	}
}

/* The text of a file, ' for ", compiled with mode allowlist. */
static struct policy *from_file(struct made *m, const char *text, const char *network)
{
	char *copy = strdup(text);
	json_t *n = loose(network);
	struct policy_source src = {.network = n,
				    .file = copy,
				    .file_len = strlen(text),
				    .file_name = "p.json"};

	for (char *s = copy; *s; s++)
		if (*s == '\'')
			*s = '"';
	*m = (struct made){.image = BUF_INIT(POLICY_IMAGE_MAX)};
	if (policy_compile(&src, &m->image, &m->err) == 0 &&
	    policy_open(&m->p, m->image.data, m->image.len, &m->err) < 0)
		m->p = NULL;
	json_decref(n);
	free(copy);
	return m->p;
}

static void files(void)
{
	static const char *const bad[] = {
		"",
		"{",
		"[",
		"{'rules': [}",
		"{'rules': []} x",
		"{'rules': [], 'rules': []}",
		"{'rule': []}",
		"{'network': {}, 'secrets': []}",
		"'text'",
		"[{'host': 'a.com'}, ]",
		"[{'host': 'a.com',}]",
		"[{'host': 'a.com}]",
		"[{'host': 'a\\u0000.com'}]",
		"[{'host': 'a\\n.com'}]",
		"[{'host': 'a\\ud800.com'}]",
		"[{'host': 'a.com', 'port': 1.5}]",
		"[{'host': 'a.com', 'port': 0443}]",
		"[{'host': 'a.com', 'port': 99999999999999999999}]",
		"[{'host': 'a.com', 'id': 'x\xff'}]",
		"[{'host': tru}]",
		"[{'host': 'a', 'id': 'x'}, {'host': 'b'}, {'host': 'c', 'id': 'x'}]",
		"[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]",
	};
	struct made m;

	OK(from_file(
		   &m,
		   "{'network': {'mode': 'allowlist', 'ask': true, 'allowedHosts': "
		   "['f.com'], 'allowedPorts': [22], 'rules': [{'host': "
		   "'a.\\u0063om', 'port': 1}, {'id': 'q', 'host': 'b.com'}]}}",
		   "{'mode': 'open', 'ask': false, 'allowedPorts': [21], "
		   "'allowedHosts': ['s.com'], 'rules': [{'host': 'b.com', 'port': 3}]}"),
	   "a file: %s", m.err.msg);
	CONNECT("a.com", 1, "allow file.rules[0]");
	CONNECT("b.com", 3, "allow rules[0]");
	CONNECT("b.com", 4, "allow q");
	CONNECT("f.com", 21, "allow file.allowedHosts[0]");
	CONNECT("s.com", 22, "allow allowedHosts[0]");
	CONNECT("other.com", 22, "ask mode:allowlist");
	unmake(&m);
	OK(from_file(&m, " [ { 'host' : 'a.com' } ] \n", NULL), "just rules");
	CONNECT("a.com", 1, "allow file.rules[0]");
	unmake(&m);
	OK(from_file(&m, "{}", "{'mode': 'open'}"), "nothing in it");
	CONNECT("a.com", 1, "allow mode:open");
	unmake(&m);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		OK(!from_file(&m, bad[i], NULL) && m.err.code == COVE_EINVAL, "%s",
		   m.err.msg);
		unmake(&m);
	}
	OK(!from_file(&m, "{\n\n 'rules': [\n  x]}", NULL) &&
		   strstr(m.err.msg, "p.json:4:"),
	   "%s", m.err.msg);
	unmake(&m);
}

static void explains(void)
{
	static const struct policy_subject who = {.tool = "t"};
	json_t *e, *steps;
	struct made m;

	make_policy(&m,
		    "{'mode': 'allowlist', 'rules': ["
		    "{'id': 'p', 'host': 'a.com', 'port': 80},"
		    "{'id': 's', 'host': 'a.com', 'scope': {'agent': 'x'}},"
		    "{'id': 'o', 'host': 'b.com'},"
		    "{'id': 'm', 'host': 'a.com', 'methods': ['GET']},"
		    "{'id': 'l', 'host': '*.com', 'action': 'deny'},"
		    "{'id': 'w', 'host': '**.com'}]}",
		    NULL, NULL);
	e = policy_explain(m.p, &who, "a.com", NULL, 443, NULL, NULL);
	steps = json_object_get(e, "steps");
	OK(!strcmp(json_string_value(json_object_get(e, "verdict")), "inspect") &&
		   !strcmp(json_string_value(json_object_get(e, "rule")), "m") &&
		   json_is_null(json_object_get(e, "reason")) &&
		   json_integer_value(json_object_get(e, "generation")) == 7 &&
		   json_array_size(steps) == 6,
	   "a connection");
#define STEP(i, key) json_object_get(json_array_get(steps, i), key)
	OK(json_is_false(STEP(0, "matches")) &&
		   strstr(json_string_value(STEP(0, "why")), "port"),
	   "why a port");
	OK(strstr(json_string_value(STEP(1, "why")), "agents") &&
		   strstr(json_string_value(STEP(2, "why")), "other hosts"),
	   "why a scope, why a host");
	OK(json_is_true(STEP(3, "matches")) && json_is_true(STEP(4, "matches")) &&
		   strstr(json_string_value(STEP(4, "why")), "before"),
	   "which one decided");
	json_decref(e);
	e = policy_explain(m.p, &who, "a.com", NULL, 443, "PUT", "/");
	steps = json_object_get(e, "steps");
	OK(!strcmp(json_string_value(json_object_get(e, "rule")), "l") &&
		   !strcmp(json_string_value(json_object_get(e, "verdict")), "deny") &&
		   json_string_value(json_object_get(e, "reason")) &&
		   strstr(json_string_value(STEP(3, "why")), "method"),
	   "a request");
	json_decref(e);
	unmake(&m);
}

int main(void)
{
	modes();
	asking();
	order();
	hosts();
	scopes();
	requests();
	secrets();
	addresses();
	refused();
	files();
	explains();
	return tap_done();
}
