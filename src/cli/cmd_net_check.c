/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_net_check - would this be let through, and why? */
#include "cli/net.h"

#include <stdio.h>

static void print_steps(const json_t *steps)
{
	const json_t *s;
	size_t i;

	json_array_foreach(steps, i, s)
	{
		const char *rule = cli_json_text(s, "rule"),
			   *why = cli_json_text(s, "why");
		cleanup_free char *safe = cli_escape(rule ? rule : "?");
		cleanup_free char *safe_why = cli_escape(why ? why : "");

		printf("  %c %-24s %s\n",
		       json_is_true(json_object_get(s, "matches")) ? '*' : ' ',
		       safe ? safe : "?", safe_why ? safe_why : "");
	}
}

static void print_verdict(const json_t *j)
{
	const char *verdict = cli_json_text(j, "verdict"),
		   *rule = cli_json_text(j, "rule");
	const char *reason = cli_json_text(j, "reason");
	char host[340];

	net_host_port(j, host, sizeof(host));
	cleanup_free char *safe = cli_escape(host);
	cleanup_free char *safe_rule = cli_escape(rule ? rule : "?");
	printf("%s %s, by %s", verdict ? verdict : "?", safe ? safe : "?",
	       safe_rule ? safe_rule : "?");
	if (verdict && strcmp(verdict, "inspect") == 0)
		printf(": the connection is opened, each request is judged");
	else if (reason && *reason)
		printf(": %s", reason);
	putchar('\n');
}

/* The port of a query is one. */
static int one_port(const struct args *a, const struct net_target *t, uint32_t *ret)
{
	const char *text = cli_value(a, F_PORT) ? cli_value(a, F_PORT) : t->port;
	char *end;
	unsigned long v;

	*ret = 0;
	if (!*text)
		return 0;
	errno = 0;
	v = strtoul(text, &end, 10);
	if (errno || *text < '0' || *text > '9' || *end || v < 1 || v > 65535)
		return cli_usage(a->cmd, "%s: not a port", text);
	*ret = (uint32_t)v;
	return 0;
}

static int load_spec(const char *file, struct cove_spec **ret)
{
	struct cove_error err = {0};

	if (cove_spec_new(ret, &err) < 0)
		return cli_fail("net", &err);
	if (cove_spec_load(*ret, file, &err) >= 0)
		return 0;
	if (!*cove_spec_problems(*ret))
		return cli_fail("net", &err);
	cli_lines("net", cove_spec_problems(*ret));
	return EXIT_COVE;
}

static int show(const struct args *a, char *text, int pass, bool explain)
{
	int code = pass ? 0 : EXIT_SHORT;
	struct cove_error err = {0};
	json_t *j;

	if (cli_has(a, F_JSON)) {
		code = cli_json_print("net", text, false, code);
		cove_string_free(text);
		return code;
	}
	j = cli_json_take(text, &err);
	if (!j)
		return cli_fail("net", &err);
	if (!cli_has(a, F_QUIET))
		print_verdict(j);
	if (explain && !cli_has(a, F_QUIET))
		print_steps(json_object_get(j, "steps"));
	json_decref(j);
	return cli_flush("net", code);
}

int net_check(const struct args *a, bool explain)
{
	const char *file = cli_value(a, F_SPEC);
	const char *target = a->words[file ? 1 : a->n_words - 1], *why;
	cleanup_spec struct cove_spec *spec = NULL;
	struct cove_net_query q = {.size = sizeof(q)};
	struct cove_error err = {0};
	struct net_target t;
	char *text = NULL;
	int code = 0, r;

	if (!file && a->n_words < 3)
		return cli_usage(a->cmd, "too few arguments: %s NAME HOST", a->words[0]);
	if (file && a->n_words > 2)
		return cli_usage(a->cmd, "--spec: takes the place of the NAME");
	why = net_target_parse(&t, target);
	if (why)
		return cli_usage(a->cmd, "%s: %s", target, why);
	code = one_port(a, &t, &q.port);
	if (code == 0 && file)
		code = load_spec(file, &spec);
	if (code)
		return code;
	q.host = t.host;
	q.method = cli_value(a, F_METHOD);
	q.path = cli_value(a, F_PATH) ? cli_value(a, F_PATH) : *t.path ? t.path : NULL;
	q.agent = cli_value(a, F_AGENT);
	q.tool = cli_value(a, F_TOOL);
	r = cove_net_check(file ? NULL : a->words[1], spec, &q, &text, &err);
	return r < 0 ? cli_fail("net", &err) : show(a, text, r, explain);
}
