/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_net - `cove net`: the network policy of a sandbox, and changes of it.
 *
 * A change of a running sandbox is in force when the command returns; one of a stopped
 * sandbox at its next start.
 */
#include "cli/net.h"

#include <stdio.h>

/* ---- what a change came to --------------------------------------------------------- */

static void print_change(const struct args *a, const struct cove_net_change *c)
{
	if (cli_has(a, F_QUIET))
		return;
	if (!c->running) {
		puts("stored: in force at the next start");
		return;
	}
	printf("generation %llu: %llu rule%s, in force after %.1f ms, %llu connection%s "
	       "closed\n",
	       (unsigned long long)c->generation, (unsigned long long)c->rules,
	       c->rules == 1 ? "" : "s", (double)c->us / 1000,
	       (unsigned long long)c->closed, c->closed == 1 ? "" : "s");
}

static void print_change_json(const struct cove_net_change *c)
{
	json_t *o = json_pack("{s:b, s:I, s:I, s:I, s:I}", "running", (int)c->running,
			      "generation", (json_int_t)c->generation, "rules",
			      (json_int_t)c->rules, "us", (json_int_t)c->us, "closed",
			      (json_int_t)c->closed);

	if (o && *c->id)
		json_object_set_new(o, "id", json_string(c->id));
	json_dumpf(o, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
	putchar('\n');
	json_decref(o);
}

/* ---- allow, deny, rm, reload ------------------------------------------------------- */

static int add_one(const struct args *a, const char *target, const char *action,
		   int64_t for_ms, struct cove_net_change *c)
{
	struct cove_error err = {0};
	char *text = NULL;
	int code = 0, r;
	json_t *rule = net_rule(a, target, action, &code);

	if (!rule)
		return code;
	text = json_dumps(rule, JSON_COMPACT);
	json_decref(rule);
	r = text ? cove_net_add(a->words[1], text, for_ms, c, &err) : COVE_ENOMEM;
	free(text);
	if (r < 0)
		return cli_fail("net", &err);
	if (cli_has(a, F_JSON))
		print_change_json(c);
	else if (!cli_has(a, F_QUIET))
		printf("%s: %s %s\n", c->id, action, target);
	return 0;
}

static int add(const struct args *a, const char *action)
{
	struct cove_net_change c = {.size = sizeof(c)};
	const char *dur = cli_value(a, F_FOR);
	int64_t for_ms = 0;
	int code = 0;

	if (dur && (cli_duration(dur, &for_ms) < 0 || for_ms <= 0))
		return cli_usage(a->cmd, "--for %s: not a time, such as 10m", dur);
	if (cli_has(a, F_ID) && a->n_words > 3)
		return cli_usage(a->cmd, "--id: names one rule, and these are several");
	for (size_t i = 2; code == 0 && i < a->n_words; i++)
		code = add_one(a, a->words[i], action, for_ms, &c);
	if (code == 0 && !cli_has(a, F_JSON))
		print_change(a, &c);
	return cli_flush("net", code);
}

static int net_allow(const struct args *a)
{
	return add(a, "allow");
}

static int net_deny(const struct args *a)
{
	return add(a, "deny");
}

static int report(const struct args *a, int r, const struct cove_net_change *c,
		  const struct cove_error *err)
{
	if (r < 0)
		return cli_fail("net", err);
	if (cli_has(a, F_JSON))
		print_change_json(c);
	else
		print_change(a, c);
	return cli_flush("net", 0);
}

static int net_rm(const struct args *a)
{
	struct cove_net_change c = {.size = sizeof(c)};
	struct cove_error err = {0};
	int r = 0;

	for (size_t i = 2; r == 0 && i < a->n_words; i++)
		r = cove_net_remove(a->words[1], a->words[i], &c, &err);
	return report(a, r, &c, &err);
}

static int net_reload(const struct args *a)
{
	struct cove_net_change c = {.size = sizeof(c)};
	struct cove_error err = {0};
	int r = cove_net_reload(a->words[1], cli_value(a, F_FILE), &c, &err);

	return report(a, r, &c, &err);
}

/* ---- ls, status -------------------------------------------------------------------- */

/* A value or a list of them, as "a, b". */
static void join(const json_t *v, char *out, size_t size)
{
	size_t n = 0, count = json_is_array(v) ? json_array_size(v) : v ? 1 : 0;

	*out = '\0';
	for (size_t i = 0; i < count && n < size; i++) {
		char buf[64];
		const json_t *e = json_is_array(v) ? json_array_get(v, i) : v;
		const char *text = json_string_value(e);

		if (!text)
			text = cli_json_scalar(e, buf, sizeof(buf));
		n += (size_t)snprintf(out + n, size - n, "%s%s", i ? ", " : "", text);
	}
}

/* "http GET /v1/x" and so on. */
static void describe(const json_t *rule, char *out, size_t size)
{
	static const char *const keys[] = {"protocol", "methods", "paths", "addresses"};
	size_t n = 0;

	*out = '\0';
	for (size_t i = 0; i < ARRAY_LEN(keys) && n < size; i++) {
		char part[200];

		join(json_object_get(rule, keys[i]), part, sizeof(part));
		if (*part)
			n += (size_t)snprintf(out + n, size - n, "%s%s", n ? " " : "",
					      part);
	}
}

static void scope_text(const json_t *scope, char *out, size_t size)
{
	static const char *const keys[] = {"agent", "tool", "exec"};
	size_t n = 0;

	*out = '\0';
	if (json_is_string(scope))
		snprintf(out, size, "tool %s", json_string_value(scope));
	for (size_t i = 0; json_is_object(scope) && i < ARRAY_LEN(keys) && n < size;
	     i++) {
		char part[120];

		join(json_object_get(scope, keys[i]), part, sizeof(part));
		if (*part)
			n += (size_t)snprintf(out + n, size - n, "%s%s %s", n ? " " : "",
					      keys[i], part);
	}
}

static int add_row(struct table *t, const json_t *rule)
{
	char host[300], port[100], what[400], scope[200];
	const char *action = cli_json_text(rule, "action");
	const char *cells[7] = {cli_json_text(rule, "id"),
				cli_json_text(rule, "source"),
				action,
				host,
				port,
				what,
				scope};
	const char *paint[7] = {NULL};

	join(json_object_get(rule, "host"), host, sizeof(host));
	join(json_object_get(rule, "port"), port, sizeof(port));
	describe(rule, what, sizeof(what));
	scope_text(json_object_get(rule, "scope"), scope, sizeof(scope));
	if (!*port)
		cells[4] = "any";
	if (!*what)
		cells[5] = NULL;
	if (!*scope)
		cells[6] = NULL;
	if (action && strcmp(action, "deny") == 0)
		paint[2] = "31";
	return cli_table_row(t, cells, paint);
}

static const char *mode_text(const char *mode, bool ask)
{
	static const struct {
		const char *mode, *text;
	} texts[] = {
		{"none",      "there is no network"                        },
		{"allowlist", "everything else is refused"                 },
		{"open",      "everything else on the internet is allowed" },
		{"learn",     "everything else is allowed and written down"},
	};

	for (size_t i = 0; mode && i < ARRAY_LEN(texts); i++)
		if (strcmp(mode, texts[i].mode) == 0)
			return ask && i == 1 ? "everything else is asked for"
					     : texts[i].text;
	return "";
}

static void print_rules(const struct table *t, const json_t *all)
{
	const char *mode = cli_json_text(all, "mode"), *file = cli_json_text(all, "file");
	const char *problem = cli_json_text(all, "problem");
	json_int_t gen = json_integer_value(json_object_get(all, "generation"));

	cli_table_print(t);
	printf("mode %s: %s", mode ? mode : "?",
	       mode_text(mode, json_is_true(json_object_get(all, "ask"))));
	if (gen)
		printf("; generation %lld in force", (long long)gen);
	else
		printf("; not running");
	putchar('\n');
	if (file) {
		cleanup_free char *safe = cli_escape(file);

		printf("policy file %s\n", safe ? safe : "?");
	}
	if (problem) {
		cleanup_free char *safe = cli_escape(problem);

		printf("problem: %s; what was in force before stays\n",
		       safe ? safe : "?");
	}
}

static int net_ls(const struct args *a)
{
	static const char *const heads[] = {"ID",   "SOURCE", "ACTION", "HOST",
					    "PORT", "ONLY",   "FOR"};
	cleanup_table struct table *t = NULL;
	struct cove_error err = {0};
	char *text = NULL;
	json_t *all, *rules;
	int code = 0;

	if (cove_net_rules_json(a->words[1], &text, &err) < 0)
		return cli_fail("net", &err);
	if (cli_has(a, F_JSON)) {
		code = cli_json_print("net", text, false, 0);
		cove_string_free(text);
		return code;
	}
	all = cli_json_take(text, &err);
	if (!all)
		return cli_fail("net", &err);
	rules = json_object_get(all, "rules");
	t = cli_table_new(ARRAY_LEN(heads), heads);
	for (size_t i = 0; t && code == 0 && i < json_array_size(rules); i++)
		code = add_row(t, json_array_get(rules, i));
	if (!t || code < 0)
		code = cli_failf("net", NULL, "out of memory");
	else if (cli_has(a, F_QUIET))
		for (size_t i = 0; i < json_array_size(rules); i++)
			puts(cli_json_text(json_array_get(rules, i), "id"));
	else
		print_rules(t, all);
	json_decref(all);
	return cli_flush("net", code);
}

static void print_status(const json_t *s)
{
	const json_t *last = json_object_get(s, "lastChange");
	const json_t *save = json_object_get(s, "saveToEffectUs"), *d;
	const char *mode = cli_json_text(s, "mode"),
		   *problem = cli_json_text(s, "problem");
	const char *file = cli_json_text(s, "file");
	size_t i;

	printf("mode         %s\n", mode ? mode : "?");
	if (json_is_true(json_object_get(s, "running")))
		printf("generation   %lld, %lld rules\n",
		       (long long)json_integer_value(json_object_get(s, "generation")),
		       (long long)json_integer_value(json_object_get(s, "rules")));
	else
		printf("generation   not running, %lld rules\n",
		       (long long)json_integer_value(json_object_get(s, "rules")));
	if (file) {
		cleanup_free char *safe = cli_escape(file);

		printf("policy file  %s\n", safe ? safe : "?");
	}
	if (last)
		printf("last change  in force after %.1f ms, %lld connections closed\n",
		       json_number_value(json_object_get(last, "us")) / 1000,
		       (long long)json_integer_value(json_object_get(last, "closed")));
	if (save)
		printf("last save    in effect after %.1f ms\n",
		       json_number_value(save) / 1000);
	if (problem) {
		cleanup_free char *safe = cli_escape(problem);

		printf("problem      %s\n", safe ? safe : "?");
	}
	json_array_foreach(json_object_get(s, "denied"), i, d)
	{
		char host[340];

		net_host_port(d, host, sizeof(host));
		cleanup_free char *safe = cli_escape(host);
		printf("%s  %s (%lld times: %s)\n", i ? "           " : "denied     ",
		       safe ? safe : "?",
		       (long long)json_integer_value(json_object_get(d, "count")),
		       cli_json_text(d, "reason") ? cli_json_text(d, "reason") : "");
	}
}

static int net_status(const struct args *a)
{
	struct cove_error err = {0};
	char *text = NULL;
	json_t *s;
	int code;

	if (cove_net_status_json(a->words[1], &text, &err) < 0)
		return cli_fail("net", &err);
	if (cli_has(a, F_JSON)) {
		code = cli_json_print("net", text, false, 0);
		cove_string_free(text);
		return code;
	}
	s = cli_json_take(text, &err);
	if (!s)
		return cli_fail("net", &err);
	print_status(s);
	json_decref(s);
	return cli_flush("net", 0);
}

/* ---- the verbs ----------------------------------------------------------------------
 */

static int check_only(const struct args *a)
{
	return net_check(a, false);
}

static int check_explain(const struct args *a)
{
	return net_check(a, true);
}

#define RULE_FLAGS \
	(FLAG(F_PORT) | FLAG(F_PROTOCOL) | FLAG(F_METHOD) | FLAG(F_PATH) | \
	 FLAG(F_AGENT) | FLAG(F_TOOL) | FLAG(F_ID) | FLAG(F_FOR) | FLAG(F_QUIET))
#define QUERY_FLAGS \
	(FLAG(F_PORT) | FLAG(F_METHOD) | FLAG(F_PATH) | FLAG(F_AGENT) | FLAG(F_TOOL) | \
	 FLAG(F_SPEC) | FLAG(F_QUIET))

static const struct {
	const char *name, *args;
	size_t min, max; /* words, with the verb */
	flag_set flags;
	int (*run)(const struct args *a);
} verbs[] = {
	{"allow",   "NAME HOST[:PORT][/PATH]...", 3, 99, RULE_FLAGS,                                   net_allow    },
	{"deny",    "NAME HOST[:PORT][/PATH]...", 3, 99, RULE_FLAGS,                                   net_deny     },
	{"rm",      "NAME ID...",                 3, 99, FLAG(F_QUIET),                                net_rm       },
	{"ls",      "NAME",		       2, 2,  FLAG(F_QUIET),                                net_ls       },
	{"check",   "NAME HOST[:PORT][/PATH]",    2, 3,  QUERY_FLAGS,                                  check_only   },
	{"explain", "NAME HOST[:PORT][/PATH]",    2, 3,  QUERY_FLAGS,                                  check_explain},
	{"log",     "NAME",                       2, 2,
	 FLAG(F_FOLLOW) | FLAG(F_DENIED) | FLAG(F_SINCE) | FLAG(F_TAIL),                               net_log      },
	{"reload",  "NAME",                       2, 2,  FLAG(F_FILE) | FLAG(F_QUIET),                 net_reload   },
	{"status",  "NAME",                       2, 2,  0,					    net_status   },
	{"learned", "NAME",                       2, 2,  FLAG(F_OUTPUT) | FLAG(F_USE) | FLAG(F_QUIET),
	 net_learned												},
};

int cmd_net(const struct args *a)
{
	const char *names[ARRAY_LEN(verbs)], *near;
	const flag_set always = FLAG(F_JSON) | FLAG(F_HELP) | FLAG(F_VERBOSE);

	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		names[i] = verbs[i].name;
		if (strcmp(a->words[0], verbs[i].name) != 0)
			continue;
		for (size_t k = 0; k < a->n_given; k++)
			if (!((verbs[i].flags | always) & FLAG(a->given[k].id)))
				return cli_usage(a->cmd, "--%s: not for 'net %s'",
						 cli_flags[a->given[k].id].name,
						 verbs[i].name);
		if (a->n_words < verbs[i].min)
			return cli_usage(a->cmd, "too few arguments: %s %s",
					 verbs[i].name, verbs[i].args);
		if (a->n_words > verbs[i].max)
			return cli_usage(a->cmd, "%s: one argument too many",
					 a->words[verbs[i].max]);
		return verbs[i].run(a);
	}
	near = cli_nearest(a->words[0], names, ARRAY_LEN(verbs));
	if (near)
		return cli_usage(a->cmd, "%s: no such verb; did you mean 'net %s'?",
				 a->words[0], near);
	return cli_usage(a->cmd, "%s: no such verb", a->words[0]);
}
