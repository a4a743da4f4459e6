/* SPDX-License-Identifier: Apache-2.0 */
/* net_info - what a sandbox's network policy says, and what happened under it. */
#include "api/handle.h"

#include "base/util.h"
#include "core/net.h"
#include "core/netlearn.h"
#include "policy/policy.h"
#include "spec/check.h"

#include <fcntl.h>
#include <stdio.h>

/* ---- the policy as it is on disk ------------------------------------------------- */

/* Spec, policy file and live rules of a sandbox, or of a spec alone. */
struct sources {
	struct spec spec;
	struct netfile file;
	struct netrules live;
	json_t *active;
	struct egress_change what; /* mode and ask in force */
};

static void sources_clear(struct sources *s)
{
	netrules_clear(&s->live);
	netfile_clear(&s->file);
	json_decref(s->active);
	spec_clear(&s->spec);
}

static int open_record(struct store *st, const char *name, int *ret,
		       struct cove_error *err)
{
	int dir = openat(st->boxes, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0 && errno != ENOENT)
		return fail(err, COVE_EIO, errno, "record of %s", name);
	*ret = dir;
	return 0;
}

static int load_live(struct sources *s, const char *name, struct store *st,
		     struct cove_error *err)
{
	cleanup_fd int dir = -1;
	int64_t next;
	int r = open_record(st, name, &dir, err);

	if (r == 0)
		r = dir < 0 ? netrules_init(&s->live, err)
			    : netrules_load(&s->live, dir, err);
	if (r == 0)
		netrules_expire(&s->live, wall_ms(), &next);
	return r;
}

static int load_sources(struct sources *s, const char *name, const struct cove_spec *spec,
			struct cove_error *err)
{
	struct store st;
	int r;

	*s = (struct sources){0};
	spec_init(&s->spec);
	if (!name) {
		r = spec_copy(&s->spec, &spec->spec, err);
		if (r == 0)
			r = netrules_init(&s->live, err);
	} else {
		if (handle_store(&st, err) < 0)
			return err->code;
		r = store_load(&st, name, &s->spec, err);
		if (r < 0)
			spec_init(&s->spec);
		else
			r = load_live(s, name, &st, err);
		store_close(&st);
	}
	if (r == 0 && s->spec.network.file)
		r = netfile_read(&s->file, s->spec.network.file, err);
	if (r == 0 && !(s->active = netrules_active(&s->live)))
		r = fail_nomem(err);
	if (r == 0)
		r = egress_foresee(&s->spec, s->active, &s->file, &s->what, err);
	return r;
}

/* ---- check ----------------------------------------------------------------------- */

struct target {
	char name[HOST_MAX + 1];
	struct addr ip;
	bool is_ip;
	uint16_t port;
};

static int parse_target(const struct cove_net_query *q, struct target *t,
			struct cove_error *err)
{
	if (!q->host || q->port > 65535)
		return fail(err, COVE_EINVAL, 0, "net check: no host, or no port");
	t->port = q->port ? (uint16_t)q->port : 443;
	t->is_ip = addr_parse(q->host, &t->ip) == 0;
	if (!t->is_ip && host_normalise(q->host, strlen(q->host), t->name) < 0)
		return fail(err, COVE_EINVAL, 0, "'%.100s' is not a host", q->host);
	return 0;
}

/* An address that was named is also judged by its class, as a dial would be. */
static void judge_address(const struct policy *p, const struct cove_net_query *q,
			  const struct target *t, json_t *verdict)
{
	struct policy_subject who = {.agent = q->agent, .tool = q->tool, .exec = q->exec};
	struct policy_decision d;
	enum addr_class c;
	char reason[80];

	policy_connect(p, &who, NULL, &t->ip, t->port, &d);
	if (d.verdict == VERDICT_DENY)
		return;
	c = policy_address(p, d.rule, NULL, &t->ip, NULL, 0);
	if (c == ADDR_PUBLIC)
		return;
	snprintf(reason, sizeof(reason), "%s addresses need a rule that names them",
		 addr_class_name(c));
	json_object_set_new(verdict, "verdict", json_string("deny"));
	json_object_set_new(verdict, "reason", json_string(reason));
}

static json_t *judge(const struct policy *p, const struct cove_net_query *q,
		     const struct target *t)
{
	struct policy_subject who = {.agent = q->agent, .tool = q->tool, .exec = q->exec};
	const char *method = q->method ? q->method : q->path ? "GET" : NULL;
	const char *path = q->path ? q->path : q->method ? "/" : NULL;
	json_t *j = policy_explain(p, &who, t->is_ip ? NULL : t->name,
				   t->is_ip ? &t->ip : NULL, t->port, method, path);

	if (!j)
		return NULL;
	if (t->is_ip)
		judge_address(p, q, t, j);
	json_object_set_new(j, "host", json_string(t->is_ip ? q->host : t->name));
	json_object_set_new(j, "port", json_integer(t->port));
	return j;
}

static int check(const struct sources *s, const struct cove_net_query *q, char **ret_json,
		 struct cove_error *err)
{
	cleanup_buf struct buf image = BUF_INIT(POLICY_IMAGE_MAX);
	struct policy *p = NULL;
	struct target t = {0};
	const char *verdict;
	json_t *j;
	int pass, r;

	if (parse_target(q, &t, err) < 0 ||
	    egress_compile(&s->spec, s->active, &s->file, 1, &image, err) < 0 ||
	    policy_open(&p, image.data, image.len, err) < 0)
		return err->code;
	j = judge(p, q, &t);
	policy_close(p);
	verdict = json_string_value(json_object_get(j, "verdict"));
	pass = verdict &&
	       (strcmp(verdict, "allow") == 0 || strcmp(verdict, "inspect") == 0);
	json_object_del(j, "generation"); /* of this look at it, and of no use */
	r = j ? json_out(j, ret_json, err) : fail_nomem(err);
	return r < 0 ? r : pass;
}

int cove_net_check(const char *name, const struct cove_spec *spec,
		   const struct cove_net_query *query, char **ret_json,
		   struct cove_error *err)
{
	struct cove_net_query q = {.size = sizeof(q)};
	struct sources s;
	int r;

	err = ERR(err);
	if (!name && !spec)
		return fail(err, COVE_EINVAL, 0, "net check: a name or a spec");
	if (options_import(&q, sizeof(q), 16, query, "net query", err) < 0)
		return err->code;
	r = load_sources(&s, name, spec, err);
	if (r == 0)
		r = check(&s, &q, ret_json, err);
	sources_clear(&s);
	return r;
}

/* ---- rules ----------------------------------------------------------------------- */

static void put_rule(json_t *list, json_t *rule, const char *source, const char *id,
		     size_t i)
{
	json_t *copy = json_copy(rule);
	char name[200];

	snprintf(name, sizeof(name), "%s[%zu]", id, i);
	if (copy && !json_object_get(copy, "id"))
		json_object_set_new(copy, "id", json_string(name));
	if (copy && !json_object_get(copy, "action"))
		json_object_set_new(copy, "action", json_string("allow"));
	json_object_set_new(copy, "source", json_string(source));
	json_array_append_new(list, copy);
}

static void put_rules(json_t *list, const json_t *rules, const char *source,
		      const char *id)
{
	for (size_t i = 0; i < json_array_size(rules); i++)
		put_rule(list, json_array_get(rules, i), source, id, i);
}

static void put_secrets(json_t *list, const json_t *secrets)
{
	for (size_t i = 0; i < json_array_size(secrets); i++) {
		const json_t *o = json_array_get(secrets, i);
		const char *name = json_string_value(json_object_get(o, "name"));
		json_t *hosts = json_object_get(o, "hosts");
		char id[100];

		snprintf(id, sizeof(id), "secret:%.80s", name ? name : "?");
		if (json_array_size(hosts))
			json_array_append_new(
				list, json_pack("{s:s, s:O, s:i, s:s, s:s}", "id", id,
						"host", hosts, "port", 443, "action",
						"allow", "source", "secret"));
	}
}

/* HOST[:PORT] as host and port of a rule. */
static json_t *split_port(const char *text)
{
	const char *colon = check_host(text) ? strrchr(text, ':') : NULL;
	size_t n = colon ? (size_t)(colon - text) : strlen(text);
	json_t *rule;

	if (n > 2 && text[0] == '[' && text[n - 1] == ']')
		rule = json_pack("{s:s#}", "host", text + 1, (int)n - 2);
	else
		rule = json_pack("{s:s#}", "host", text, (int)n);
	if (rule && colon)
		json_object_set_new(rule, "port", json_string(colon + 1));
	return rule;
}

static void put_allowed(json_t *list, const json_t *network, const char *source,
			const char *id)
{
	const json_t *hosts = json_object_get(network, "allowedHosts");
	json_t *ports = json_object_get(network, "allowedPorts");

	for (size_t i = 0; i < json_array_size(hosts); i++) {
		const char *text = json_string_value(json_array_get(hosts, i));
		json_t *rule = split_port(text ? text : "");

		if (json_array_size(ports) && !json_object_get(rule, "port"))
			json_object_set(rule, "port", ports);
		put_rule(list, rule, source, id, i);
		json_decref(rule);
	}
}

static json_t *rules_json(const struct sources *s)
{
	static const char *const modes[] = {"none", "allowlist", "open", "learn"};
	json_t *all = spec_json(&s->spec, true), *own = json_object_get(all, "network");
	json_t *file = netfile_json(&s->file), *list = json_array(), *j;

	put_rules(list, s->live.rules, "live", "live");
	put_rules(list, json_object_get(own, "rules"), "spec", "rules");
	put_rules(list, json_object_get(file, "rules"), "file", "file.rules");
	put_secrets(list, s->spec.secrets);
	put_allowed(list, own, "spec", "allowedHosts");
	put_allowed(list, file, "file", "file.allowedHosts");
	json_decref(file);
	json_decref(all);
	j = json_pack("{s:s, s:b, s:o}", "mode", modes[s->what.mode], "ask", s->what.ask,
		      "rules", list);
	if (j && s->spec.network.file)
		json_object_set_new(j, "file", json_string(s->spec.network.file));
	return j;
}

static int ask_keeper(const char *name, json_t *args, json_t **ret,
		      struct cove_error *err)
{
	struct cove *s = NULL;
	int r = cove_connect(&s, name, err);

	if (r == 0)
		r = session_keeper(s->session, "net_status", args, ret, err);
	else
		json_decref(args);
	if (r == 0 && !*ret)
		r = fail(err, COVE_EPROTO, 0, "the keeper's answer is not JSON");
	cove_free(s);
	return r;
}

int cove_net_rules_json(const char *name, char **ret, struct cove_error *err)
{
	struct cove_error ignored = {0};
	json_t *j, *status = NULL;
	struct sources s;
	int r;

	err = ERR(err);
	if (!name)
		return fail(err, COVE_EINVAL, 0, "no name");
	r = load_sources(&s, name, NULL, err);
	j = r == 0 ? rules_json(&s) : NULL;
	sources_clear(&s);
	if (r < 0)
		return r;
	if (j && ask_keeper(name, NULL, &status, &ignored) == 0) {
		json_object_set(j, "generation", json_object_get(status, "generation"));
		json_object_set(j, "problem", json_object_get(status, "problem"));
	}
	json_decref(status);
	return json_out(j, ret, err);
}

/* ---- status, log, learned -------------------------------------------------------- */

int cove_net_status_json(const char *name, char **ret, struct cove_error *err)
{
	json_t *j = NULL, *rules = NULL;
	struct sources s;
	int r;

	err = ERR(err);
	if (!name)
		return fail(err, COVE_EINVAL, 0, "no name");
	r = ask_keeper(name, NULL, &j, err);
	if (r == 0)
		return json_out(j, ret, err);
	if (r != COVE_ESTATE)
		return r;
	r = load_sources(&s, name, NULL, err);
	if (r == 0) {
		rules = rules_json(&s);
		json_object_set_new(rules, "rules",
				    json_integer((json_int_t)json_array_size(
					    json_object_get(rules, "rules"))));
		json_object_set_new(rules, "running", json_false());
	}
	sources_clear(&s);
	return r < 0 ? r : json_out(rules, ret, err);
}

/* The record of a sandbox that exists; -1 in *ret: it has none (yet). */
static int find_record(const char *name, int *ret, struct cove_error *err)
{
	struct store st;
	struct spec spec;
	int r;

	if (!name)
		return fail(err, COVE_EINVAL, 0, "no name");
	if (handle_store(&st, err) < 0)
		return err->code;
	r = open_record(&st, name, ret, err);
	if (r == 0 && *ret < 0) { /* says which name is near */
		r = store_load(&st, name, &spec, err);
		if (r == 0)
			spec_clear(&spec);
	}
	store_close(&st);
	return r;
}

int cove_net_log(const char *name, uint64_t *cursor,
		 int (*fn)(void *arg, const char *line, size_t n), void *arg,
		 struct cove_error *err)
{
	cleanup_fd int dir = -1;
	int r;

	err = ERR(err);
	r = find_record(name, &dir, err);
	return r < 0 || dir < 0 ? r : netlog_read(dir, cursor, fn, arg, err);
}

int cove_net_learned_json(const char *name, char **ret, struct cove_error *err)
{
	cleanup_fd int dir = -1;
	json_t *network = NULL;
	int r;

	err = ERR(err);
	r = find_record(name, &dir, err);
	if (r == 0 && dir < 0)
		r = fail(err, COVE_ESTATE, 0, "%s has no record", name);
	if (r == 0)
		r = netlearn(dir, &network, err);
	return r < 0 ? r : json_out(json_pack("{s:o}", "network", network), ret, err);
}

int cove_net_denied_json(struct cove *s, int64_t since_ms, char **ret,
			 struct cove_error *err)
{
	json_t *status = NULL, *list;
	int r;

	err = ERR(err);
	if (s->inproc) {
		box_net_turn(&s->box); /* the last events may have just come */
		return json_out(net_denied(&s->box, since_ms), ret, err);
	}
	if (!s->session)
		return fail(err, COVE_EGONE, 0, "the sandbox has ended");
	r = session_keeper(s->session, "net_status",
			   json_pack("{s:I}", "sinceMs", (json_int_t)since_ms), &status,
			   err);
	if (r < 0)
		return r;
	list = json_incref(json_object_get(status, "denied"));
	json_decref(status);
	return json_out(list ? list : json_array(), ret, err);
}
