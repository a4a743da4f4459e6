/* SPDX-License-Identifier: Apache-2.0 */
#include "core/netlearn.h"

#include "base/util.h"
#include "core/netlog.h"
#include "policy/addr.h"
#include "policy/host.h"
#include "spec/check.h"

#include <stdio.h>

/* hosts: {NAME: {"port": {"443": true}, "methods": {"GET": true}, "paths": {..}}}: sets
 * are objects, and become sorted lists in the end. */
struct netlearn {
	json_t *hosts;
};

int netlearn_new(struct netlearn **ret)
{
	struct netlearn *l = calloc(1, sizeof(*l));

	if (l)
		l->hosts = json_object();
	if (!l || !l->hosts) {
		free(l);
		return -ENOMEM;
	}
	*ret = l;
	return 0;
}

void netlearn_free(struct netlearn *l)
{
	if (l)
		json_decref(l->hosts);
	free(l);
}

static const char *text(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

/* The set `name` of o, made if need be. */
static json_t *set_of(json_t *o, const char *name)
{
	json_t *set = json_object_get(o, name);

	if (!set && json_object_set_new(o, name, json_object()) == 0)
		set = json_object_get(o, name);
	return set;
}

static void put(json_t *o, const char *set, const char *value)
{
	json_object_set_new(set_of(o, set), value, json_true());
}

/* The log is written by the role, but names in it are what programs asked for. */
static const char *host_of(const json_t *o, char out[HOST_MAX + 1])
{
	const char *host = text(o, "host");
	struct addr a;

	if (host && *host && host_normalise(host, strlen(host), out) == 0)
		return out;
	if (!host || !*host)
		host = text(o, "ip");
	if (host && addr_parse(host, &a) == 0)
		return addr_text(&a, out);
	return NULL;
}

static bool is_learned(const json_t *o)
{
	const char *verdict = text(o, "verdict"), *kind = text(o, "kind");

	return verdict && strcmp(verdict, "allow") == 0 && kind &&
	       (strcmp(kind, "connect") == 0 || strcmp(kind, "request") == 0) &&
	       json_is_true(json_object_get(o, "learn"));
}

/* A path as a rule's pattern; one that cannot be said exactly becomes every path. */
static void put_path(json_t *h, const char *path)
{
	bool plain = !check_url_path(path) && strlen(path) <= 400 && !strchr(path, '*');

	put(h, "paths", plain ? path : "/**");
}

int netlearn_line(void *arg, const char *line, size_t n)
{
	struct netlearn *l = arg;
	json_t *o = memmem(line, n, "\"learn\":true", 12) ? json_loadb(line, n, 0, NULL)
							  : NULL;
	json_int_t port = json_integer_value(json_object_get(o, "port"));
	char name[HOST_MAX + 1], number[8];
	const char *host = is_learned(o) ? host_of(o, name) : NULL;
	json_t *h;

	if (host && port > 0 && port < 65536 &&
	    (json_object_get(l->hosts, host) ||
	     json_object_size(l->hosts) < NETLEARN_HOSTS)) {
		h = set_of(l->hosts, host);
		snprintf(number, sizeof(number), "%d", (int)port);
		put(h, "port", number);
		if (text(o, "method") && text(o, "path") &&
		    !check_method(text(o, "method"))) {
			put(h, "methods", text(o, "method"));
			put_path(h, text(o, "path"));
		}
	}
	json_decref(o);
	return 0;
}

/* ---- the policy ------------------------------------------------------------------ */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_number(const void *a, const void *b)
{
	long x = strtol(*(const char *const *)a, NULL, 10);
	long y = strtol(*(const char *const *)b, NULL, 10);

	return x < y ? -1 : x > y;
}

/* The keys of a set, sorted; to be freed, the keys are the set's. */
static const char **sorted(json_t *set, int (*by)(const void *, const void *), size_t *n)
{
	const char **v = calloc(json_object_size(set) + 1, sizeof(*v)), *key;
	json_t *value;

	*n = 0;
	if (!v)
		return NULL;
	json_object_foreach(set, key, value) v[(*n)++] = key;
	if (*n)
		qsort(v, *n, sizeof(*v), by);
	return v;
}

static json_t *list(json_t *set)
{
	size_t n;
	cleanup_free const char **v = sorted(set, by_text, &n);
	json_t *a = v ? json_array() : NULL;

	for (size_t i = 0; a && i < n; i++)
		json_array_append_new(a, json_string(v[i]));
	return a;
}

/* One port as a number, several as a list of them. */
static json_t *ports(json_t *set)
{
	size_t n;
	cleanup_free const char **v = sorted(set, by_number, &n);
	json_t *a = v ? json_array() : NULL;

	if (v && n == 1) {
		json_decref(a);
		return json_integer(strtol(v[0], NULL, 10));
	}
	for (size_t i = 0; a && i < n; i++)
		json_array_append_new(a, json_integer(strtol(v[i], NULL, 10)));
	return a;
}

/* Too many paths: the first part of each stands for what is below it, then everything. */
static json_t *fewer(json_t *paths)
{
	json_t *set = json_object(), *value;
	const char *path;

	json_object_foreach(paths, path, value)
	{
		const char *slash = strchr(path + 1, '/');
		char head[420];

		snprintf(head, sizeof(head), "%.*s/**", slash ? (int)(slash - path) : 0,
			 path);
		json_object_set_new(set, slash ? head : path, json_true());
	}
	if (json_object_size(set) > NETLEARN_PATHS) {
		json_object_clear(set);
		json_object_set_new(set, "/**", json_true());
	}
	return set;
}

static json_t *paths_list(json_t *paths)
{
	json_t *set = json_object_size(paths) > NETLEARN_PATHS ? fewer(paths)
							       : json_incref(paths);
	json_t *a = list(set);

	json_decref(set);
	return a;
}

static json_t *rule_of(const char *host, json_t *h)
{
	json_t *rule = json_pack("{s:s, s:o}", "host", host, "port",
				 ports(json_object_get(h, "port")));

	if (rule && json_object_get(h, "methods")) {
		json_object_set_new(rule, "protocol", json_string("http"));
		json_object_set_new(rule, "methods", list(json_object_get(h, "methods")));
		json_object_set_new(rule, "paths",
				    paths_list(json_object_get(h, "paths")));
	}
	return rule;
}

json_t *netlearn_policy(struct netlearn *l)
{
	size_t n;
	cleanup_free const char **hosts = sorted(l->hosts, by_text, &n);
	json_t *rules = hosts ? json_array() : NULL;

	for (size_t i = 0; rules && i < n; i++)
		json_array_append_new(
			rules, rule_of(hosts[i], json_object_get(l->hosts, hosts[i])));
	return rules ? json_pack("{s:s, s:o}", "mode", "allowlist", "rules", rules)
		     : NULL;
}

int netlearn(int dir, json_t **ret, struct cove_error *err)
{
	struct netlearn *l;
	uint64_t cursor = 0;
	int r;

	if (netlearn_new(&l) < 0)
		return fail_nomem(err);
	r = netlog_read(dir, &cursor, netlearn_line, l, err);
	if (r == 0) {
		json_t *policy = netlearn_policy(l);

		r = policy ? 0 : fail_nomem(err);
		*ret = policy ? policy : *ret;
	}
	netlearn_free(l);
	return r;
}
