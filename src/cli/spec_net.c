/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec_net - the flags about the network that are more than one key each: --allow and
 * --ask make the mode allowlist where there was none, --deny puts a rule in front,
 * --policy names a file.
 */
#include "cli/json.h"
#include "cli/spec.h"

#include <limits.h>
#include <stdio.h>

static json_t *network_of(const struct cove_spec *spec, struct cove_error *err)
{
	char *text = NULL;
	json_t *all, *network;

	if (cove_spec_json(spec, &text, err) < 0)
		return NULL;
	all = cli_json_take(text, err);
	network = json_incref(json_object_get(all, "network"));
	json_decref(all);
	return network;
}

/* The network that the sandbox of the first word has, for set. */
static json_t *network_there(const char *name)
{
	struct cove_error err = {0};
	char *text = NULL;
	json_t *all, *network;

	if (cove_inspect_json(name, &text, &err) < 0)
		return NULL;
	all = cli_json_take(text, &err);
	network = json_incref(json_object_get(json_object_get(all, "spec"), "network"));
	json_decref(all);
	return network;
}

static bool is_mode(const json_t *network, const char *mode)
{
	const char *text = cli_json_text(network, "mode");

	return text && strcmp(text, mode) == 0;
}

/* Where there is no mode, or none, allowing something means allowlist. */
static int imply_mode(const struct args *a, struct cove_spec *spec, const json_t *network)
{
	struct cove_error err = {0};

	if (!(a->set & (FLAG(F_ALLOW) | FLAG(F_ASK) | FLAG(F_POLICY))) ||
	    cli_has(a, F_NET) || !is_mode(network, "none"))
		return 0;
	return cove_spec_set(spec, "network.mode", "allowlist", &err) < 0
		       ? cli_fail(a->cmd->name, &err)
		       : 0;
}

static int refuse_contradiction(const struct args *a)
{
	static const enum flag_id ids[] = {F_ALLOW, F_ASK, F_POLICY};
	const char *mode = cli_value(a, F_NET);

	for (size_t i = 0; mode && strcmp(mode, "none") == 0 && i < ARRAY_LEN(ids); i++)
		if (cli_has(a, ids[i]))
			return cli_failf(
				a->cmd->name, "leave one of them away",
				"--net none and --%s: without a network there is "
				"nothing to allow",
				cli_flags[ids[i]].name);
	return 0;
}

/* In front of the rules that are there: the first that matches decides. */
static int deny_hosts(const struct args *a, struct cove_spec *spec, const json_t *network)
{
	json_t *rules = json_array(), *old = json_object_get(network, "rules"), *all;
	struct cove_error err = {0};
	char *text;
	int r;

	for (size_t i = 0; i < a->n_given; i++)
		if (a->given[i].id == F_DENY)
			json_array_append_new(rules, json_pack("{s:s, s:s}", "host",
							       a->given[i].value,
							       "action", "deny"));
	if (old)
		json_array_extend(rules, old);
	all = json_pack("{s:{s:o}}", "network", "rules", rules);
	text = all ? json_dumps(all, JSON_COMPACT) : NULL;
	json_decref(all);
	r = text ? cove_spec_parse(spec, text, strlen(text), "--deny", &err) : -1;
	free(text);
	if (r >= 0)
		return 0;
	if (*cove_spec_problems(spec)) {
		cli_lines(a->cmd->name, cove_spec_problems(spec));
		return EXIT_COVE;
	}
	return text ? cli_fail(a->cmd->name, &err)
		    : cli_failf(a->cmd->name, NULL, "--deny: not a host");
}

static int name_policy(const struct args *a, struct cove_spec *spec)
{
	const char *file = cli_value(a, F_POLICY);
	cleanup_free char *path = realpath(file, NULL);
	struct cove_error err = {0};

	if (!path)
		return cli_failf(a->cmd->name, NULL, "--policy %s: %s", file,
				 strerror(errno));
	return cove_spec_set(spec, "network.file", path, &err) < 0
		       ? cli_fail(a->cmd->name, &err)
		       : 0;
}

int cli_spec_network(const struct args *a, struct cove_spec *spec)
{
	const flag_set ours = FLAG(F_ALLOW) | FLAG(F_DENY) | FLAG(F_ASK) | FLAG(F_POLICY);
	struct cove_error err = {0};
	json_t *network = NULL;
	int code;

	if (!(a->set & ours))
		return 0;
	code = refuse_contradiction(a);
	if (code)
		return code;
	/* set and clone change what there is. */
	if (strcmp(a->cmd->name, "set") == 0)
		network = network_there(a->words[0]);
	if (!network)
		network = network_of(spec, &err);
	if (!network)
		return cli_fail(a->cmd->name, &err);
	code = imply_mode(a, spec, network);
	if (code == 0 && cli_has(a, F_ASK) &&
	    cove_spec_set(spec, "network.ask", "true", &err) < 0)
		code = cli_fail(a->cmd->name, &err);
	if (code == 0 && cli_has(a, F_DENY))
		code = deny_hosts(a, spec, network);
	if (code == 0 && cli_has(a, F_POLICY))
		code = name_policy(a, spec);
	json_decref(network);
	return code;
}
