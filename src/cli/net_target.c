/* SPDX-License-Identifier: Apache-2.0 */
/* net_target - a host as people write it, and a rule made of it and the flags. */
#include "cli/net.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>

/* ADDRESS/BITS is one host, with or without :PORT; a '/' behind anything else begins a
 * path. */
static bool is_range(const char *text)
{
	const char *slash = strchr(text, '/');
	size_t bits = slash ? strspn(slash + 1, "0123456789") : 0;
	unsigned char a[16];
	char address[64];

	if (*text == '[') /* [ADDRESS/BITS]:PORT */
		text++;
	if (!bits || bits > 3 || (slash[1 + bits] && !strchr(":]", slash[1 + bits])) ||
	    (size_t)(slash - text) >= sizeof(address))
		return false;
	snprintf(address, sizeof(address), "%.*s", (int)(slash - text), text);
	return inet_pton(AF_INET, address, a) == 1 ||
	       inet_pton(AF_INET6, address, a) == 1;
}

static const char *skip_scheme(const char *text, const char **port)
{
	static const struct {
		const char *scheme, *port;
	} known[] = {
		{"https://", "443"},
		{"http://",  "80" },
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strncasecmp(text, known[i].scheme, strlen(known[i].scheme)) == 0) {
			*port = known[i].port;
			return text + strlen(known[i].scheme);
		}
	return text;
}

/* Cuts ":PORT" off, and brackets. */
static const char *split_port(struct net_target *t)
{
	unsigned char a[16];
	size_t n;
	char *colon = strrchr(t->host, ':'), *slash = strchr(t->host, '/');

	/* A colon of the address itself says nothing. */
	if (inet_pton(AF_INET6, t->host, a) == 1 || (slash && colon && colon < slash))
		return NULL;
	if (colon && (t->host[0] != '[' || colon > strchr(t->host, ']'))) {
		if (strlen(colon + 1) >= sizeof(t->port) || !colon[1] ||
		    colon[1 + strspn(colon + 1, "0123456789-")])
			return "does not end in a port";
		snprintf(t->port, sizeof(t->port), "%s", colon + 1);
		*colon = '\0';
	}
	n = strlen(t->host);
	if (n > 2 && t->host[0] == '[' && t->host[n - 1] == ']') {
		t->host[n - 1] = '\0';
		memmove(t->host, t->host + 1, n - 1);
	}
	return NULL;
}

const char *net_target_parse(struct net_target *t, const char *text)
{
	const char *port = "", *slash, *why;

	*t = (struct net_target){0};
	text = skip_scheme(text, &port);
	slash = is_range(text) ? NULL : strchr(text, '/');
	if (slash && strlen(slash) >= sizeof(t->path))
		return "is too long";
	if (slash)
		snprintf(t->path, sizeof(t->path), "%s", slash);
	if ((slash ? (size_t)(slash - text) : strlen(text)) >= sizeof(t->host))
		return "is too long";
	snprintf(t->host, sizeof(t->host), "%.*s",
		 slash ? (int)(slash - text) : (int)strlen(text), text);
	why = split_port(t);
	if (why)
		return why;
	if (!*t->port)
		snprintf(t->port, sizeof(t->port), "%s", port);
	for (char *s = t->host; *s; s++)
		*s = (char)tolower((unsigned char)*s);
	return *t->host ? NULL : "is not a host";
}

/* ---- rules ----------------------------------------------------------------------- */

/* Every value that was given of a flag. */
static json_t *values(const struct args *a, enum flag_id id)
{
	json_t *list = json_array();

	for (size_t i = 0; i < a->n_given; i++)
		if (a->given[i].id == id)
			json_array_append_new(list, json_string(a->given[i].value));
	return list;
}

static void put_list(json_t *o, const char *key, json_t *list)
{
	if (json_array_size(list))
		json_object_set(o, key, list);
	json_decref(list);
}

static void put_text(json_t *o, const char *key, const char *value)
{
	if (value && *value)
		json_object_set_new(o, key, json_string(value));
}

static void put_ports(json_t *rule, const struct args *a, const char *port)
{
	json_t *ports = values(a, F_PORT);

	if (*port)
		json_array_append_new(ports, json_string(port));
	if (json_array_size(ports) == 1)
		json_object_set(rule, "port", json_array_get(ports, 0));
	else if (json_array_size(ports))
		json_object_set(rule, "port", ports);
	json_decref(ports);
}

json_t *net_rule(const struct args *a, const char *target, const char *action, int *code)
{
	struct net_target t;
	const char *why = net_target_parse(&t, target);
	json_t *rule, *scope, *paths;

	if (why) {
		*code = cli_usage(a->cmd, "%s: %s", target, why);
		return NULL;
	}
	rule = json_pack("{s:s, s:s}", "host", t.host, "action", action);
	if (!rule) {
		*code = cli_usage(a->cmd, "%s: is not a host", target);
		return NULL;
	}
	put_ports(rule, a, t.port);
	put_text(rule, "id", cli_value(a, F_ID));
	put_text(rule, "protocol", cli_value(a, F_PROTOCOL));
	put_list(rule, "methods", values(a, F_METHOD));
	paths = values(a, F_PATH);
	if (*t.path && strcmp(t.path, "/") != 0)
		json_array_append_new(paths, json_string(t.path));
	put_list(rule, "paths", paths);
	scope = json_object();
	put_text(scope, "agent", cli_value(a, F_AGENT));
	put_text(scope, "tool", cli_value(a, F_TOOL));
	if (json_object_size(scope))
		json_object_set(rule, "scope", scope);
	json_decref(scope);
	return rule;
}

void net_host_port(const json_t *o, char *out, size_t size)
{
	const char *host = cli_json_text(o, "host");
	char port[24];
	bool v6;

	if (!host)
		host = cli_json_text(o, "ip");
	v6 = host && strchr(host, ':');
	cli_json_scalar(json_object_get(o, "port"), port, sizeof(port));
	if (strcmp(port, "0") == 0)
		port[0] = '\0';
	snprintf(out, size, "%s%s%s%s%s", v6 ? "[" : "", host ? host : "?", v6 ? "]" : "",
		 *port ? ":" : "", port);
}
