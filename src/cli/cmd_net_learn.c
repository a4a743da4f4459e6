/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_net_learn - what a sandbox used in mode learn, as a policy. */
#include "cli/net.h"
#include "cli/yaml.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

static void write_policy(FILE *f, const json_t *policy, bool json)
{
	if (json) {
		json_dumpf(policy, f, JSON_INDENT(2) | JSON_ENSURE_ASCII);
		fputc('\n', f);
		return;
	}
	fputs("# What was used in network mode learn; see cove-spec(5).\n", f);
	cli_yaml_write(f, policy);
}

static int write_file(const char *path, const json_t *policy, bool json)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
	int failed;

	if (!f) {
		if (fd >= 0)
			close(fd);
		return cli_failf("net", NULL, "%s: %s", path, strerror(errno));
	}
	write_policy(f, policy, json);
	failed = ferror(f);
	if (fclose(f) != 0 || failed)
		return cli_failf("net", NULL, "%s: could not be written", path);
	return 0;
}

/* The rules that it has, and behind them those that were learned. */
static json_t *all_rules(const char *name, const json_t *learned, struct cove_error *err)
{
	char *text = NULL;
	json_t *all, *old, *list;

	if (cove_inspect_json(name, &text, err) < 0)
		return NULL;
	all = cli_json_take(text, err);
	old = json_object_get(json_object_get(json_object_get(all, "spec"), "network"),
			      "rules");
	list = old ? json_copy(old) : json_array();
	for (size_t i = 0; list && i < json_array_size(learned); i++) {
		json_t *rule = json_array_get(learned, i);
		bool there = false;

		for (size_t k = 0; k < json_array_size(list); k++)
			there |= json_equal(json_array_get(list, k), rule);
		if (!there)
			json_array_append(list, rule);
	}
	json_decref(all);
	return list;
}

static int make_policy(const struct args *a, const char *name, const json_t *policy)
{
	const json_t *learned =
		json_object_get(json_object_get(policy, "network"), "rules");
	cleanup_spec struct cove_spec *spec = NULL;
	struct cove_error err = {0};
	json_t *rules = all_rules(name, learned, &err), *changes;
	char *text = NULL;
	int r = rules ? cove_spec_new(&spec, &err) : COVE_EIO;

	changes = json_pack("{s:{s:s, s:o}}", "network", "mode", "allowlist", "rules",
			    rules);
	text = changes ? json_dumps(changes, JSON_COMPACT) : NULL;
	if (r == 0)
		r = text ? cove_spec_parse(spec, text, strlen(text), name, &err)
			 : COVE_ENOMEM;
	if (r >= 0)
		r = cove_update(name, spec, 0, &err);
	free(text);
	json_decref(changes);
	if (r < 0)
		return cli_fail("net", &err);
	if (!cli_has(a, F_QUIET))
		cli_note("cove net: %s: mode allowlist with %zu learned rule%s", name,
			 json_array_size(learned),
			 json_array_size(learned) == 1 ? "" : "s");
	return 0;
}

int net_learned(const struct args *a)
{
	const char *name = a->words[1], *out = cli_value(a, F_OUTPUT);
	struct cove_error err = {0};
	char *text = NULL;
	json_t *policy;
	int code = 0;

	if (cove_net_learned_json(name, &text, &err) < 0)
		return cli_fail("net", &err);
	policy = cli_json_take(text, &err);
	if (!policy)
		return cli_fail("net", &err);
	if (json_array_size(
		    json_object_get(json_object_get(policy, "network"), "rules")) == 0 &&
	    !cli_has(a, F_QUIET))
		cli_note("cove net: %s: nothing was learned yet; start it with --net "
			 "learn",
			 name);
	if (out)
		code = write_file(out, policy, cli_has(a, F_JSON));
	else if (!cli_has(a, F_USE))
		write_policy(stdout, policy, cli_has(a, F_JSON));
	if (code == 0 && cli_has(a, F_USE))
		code = make_policy(a, name, policy);
	json_decref(policy);
	return cli_flush("net", code);
}
