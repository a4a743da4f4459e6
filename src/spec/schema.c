/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema - the keys of a spec, as tables. docs/spec.schema.json says the same to editors,
 * and a test holds the two together.
 */
#include "spec/bind.h"
#include "spec/check.h"

#include "base/io.h"
#include "base/util.h"
#include "policy/host.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define BYTES_MAX (1ull << 50)
#define YEARS_MS (3650ull * 86400000) /* ten years */

#define OBJECT(fields_, ...) \
	{ \
		.fields = fields_, .n = ARRAY_LEN(fields_), __VA_ARGS__ \
	}

enum { /* bits of spec.given; resources have their own */
       GIVEN_NAME,
       GIVEN_BACKEND,
       GIVEN_IMAGE,
       GIVEN_NET_MODE,
       GIVEN_NET_HOSTS,
       GIVEN_NET_PORTS,
       GIVEN_NET_RULES,
       GIVEN_NET_ADDRESSES,
       GIVEN_NET_FILE,
       GIVEN_NET_ASK,
       GIVEN_NET_TRUST,
       GIVEN_STORAGE,
       GIVEN_USER,
       GIVEN_WORKDIR,
       GIVEN_ENV,
       GIVEN_TIMEOUT,
       GIVEN_MOUNTS,
       GIVEN_SECRETS,
       GIVEN_PORTS,
       GIVEN_GATE,
       GIVEN_SERVICES,
       GIVEN_PROVISION,
       GIVEN_MASK,
};

/* Rows: a key of the spec; one of its limits, which remembers by itself that it was asked
 * for. */
#define KEY(key_, kind_, member, arg_, bit) \
	{ \
		.key = key_, .kind = &kind_, .offset = offsetof(struct spec, member), \
		.arg = arg_, .given = 1ull << GIVEN_##bit \
	}
#define LONG(key_, kind_, member, arg_, bit) /* a list that may be long */ \
	{ \
		.key = key_, .kind = &kind_, .offset = offsetof(struct spec, member), \
		.arg = arg_, .given = 1ull << GIVEN_##bit, .max = SPEC_LONG_MAX \
	}
#define LIMIT(key_, kind_, member, arg_, limit_) \
	{ \
		.key = key_, .kind = &kind_, .offset = offsetof(struct spec, member), \
		.arg = arg_, .limit = limit_ \
	}

static const struct text_rule name_rule = {check_name, "a name", false};
static const struct text_rule host_rule = {check_host, "a host", true};
static const struct text_rule rule_host_rule = {check_rule_host,
						"a host, or * for every one", true};
static const struct text_rule host_port_rule = {check_host_port, "a host", true};
static const struct text_rule ports_rule = {check_ports, "a port or a range", false};
static const struct text_rule glob_rule = {check_glob, "a pattern", false};
static const struct text_rule path_rule = {check_path, "a path", false};
static const struct text_rule mask_rule = {check_mask, "a path", false};
static const struct text_rule env_rule = {check_env_name, "a variable name", false};

/* ---- network -------------------------------------------------------------------- */

static const char *const net_modes[] = {"none", "allowlist", "open", "learn", NULL};
static const char *const protocols[] = {"tcp", "tls", "http", NULL};
static const char *const actions[] = {"allow", "deny", NULL};
static const struct text_rule method_rule = {check_method, "a method", false};
static const struct text_rule subject_rule = {check_subject, "a name", false};
static const struct text_rule reach_rule = {check_reach, "an address or a class", true};
static const struct text_rule url_rule = {check_url_path, "a path", false};

static const struct field scope_fields[] = {
	ITEM("agent", item_some, &subject_rule),
	ITEM("tool", item_some, &subject_rule),
	ITEM("exec", item_some, &subject_rule),
};
static const struct object scope_object =
	OBJECT(scope_fields, .example = "{tool: browser}");

static const struct field rule_fields[] = {
	ITEM("id", item_text, &name_rule),
	REQUIRED("host", item_some, &rule_host_rule),
	ITEM("port", item_ports, NULL),
	ITEM("protocol", item_enum, protocols),
	ITEM("methods", item_some, &method_rule),
	ITEM("paths", item_some, &url_rule),
	ITEM("action", item_enum, actions),
	ITEM("scope", item_scope, &scope_object),
	ITEM("addresses", item_some, &reach_rule),
};

/* Does a rule name the host itself? */
static bool has_internal(const json_t *hosts)
{
	const char *text = json_string_value(hosts);

	for (size_t i = 0; i < json_array_size(hosts); i++)
		if (has_internal(json_array_get(hosts, i)))
			return true;
	return text && host_matches(text, HOST_INTERNAL);
}

static void rule_finish(struct bind *b, json_t *o, const struct node *n)
{
	const char *protocol = json_string_value(json_object_get(o, "protocol"));
	const char *action = json_string_value(json_object_get(o, "action"));
	bool http = json_object_get(o, "methods") || json_object_get(o, "paths");

	if (http && protocol && strcmp(protocol, "http") != 0)
		complain(b, n, "methods and paths need protocol: http");
	if (has_internal(json_object_get(o, "host")) && !json_object_get(o, "port") &&
	    !(action && strcmp(action, "deny") == 0))
		complain(b, n, HOST_INTERNAL " needs the key 'port'");
}

static const struct object rule_object =
	OBJECT(rule_fields, .unique = "id", .finish = rule_finish,
	       .example = "{host: example.com, port: 443}");

static const struct field network_fields[] = {
	KEY("mode", kind_enum, network.mode, net_modes, NET_MODE),
	LONG("allowedHosts", kind_strings, network.allowed_hosts, &host_port_rule,
	     NET_HOSTS),
	KEY("allowedPorts", kind_strings, network.allowed_ports, &ports_rule, NET_PORTS),
	LONG("rules", kind_list, network.rules, &rule_object, NET_RULES),
	KEY("addresses", kind_strings, network.addresses, &reach_rule, NET_ADDRESSES),
	KEY("file", kind_string, network.file, &path_rule, NET_FILE),
	KEY("ask", kind_flag, network.ask, NULL, NET_ASK),
	KEY("trust", kind_strings, network.trust, &path_rule, NET_TRUST),
};
static const struct object network_object =
	OBJECT(network_fields, .example = "{mode: none}");

/* ---- image, storage, resources, exec -------------------------------------------- */

static const struct field image_fields[] = {
	KEY("source", kind_image, image, NULL, IMAGE),
};
static const struct object image_object =
	OBJECT(image_fields, .short_key = "source", .example = "{source: host}");

static const char *const storage_types[] = {"ephemeral", "persistent", NULL};
static const struct field storage_fields[] = {
	KEY("type", kind_enum, storage, storage_types, STORAGE),
};
static const struct object storage_object =
	OBJECT(storage_fields, .short_key = "type", .example = "{type: ephemeral}");

static const struct number_rule memory_rule = {
	MIB, 16 * MIB, BYTES_MAX, true,
	"MiB as a number or a size such as \"2GiB\", at least 16 MiB, or 0 for no limit"};
static const struct number_rule disk_rule = {
	GIB, 16 * MIB, BYTES_MAX, true,
	"GiB as a number or a size such as \"500MiB\", at least 16 MiB, or 0 for no "
	"limit"};
static const struct number_rule swap_rule = {
	MIB, 0, BYTES_MAX, true,
	"MiB as a number or a size such as \"1GiB\", or 0 for none"};
static const struct number_rule cpus_rule = {
	1, 10, 4096000, true, "a number of 0.01 to 4096, or 0 for no limit"};
static const struct number_rule pids_rule = {
	1, 4, 4194304, true, "a whole number of 4 to 4194304, or 0 for no limit"};
static const struct number_rule time_rule = {
	1000, 0, YEARS_MS, true,
	"seconds as a number or a time such as \"90s\", \"5m\", \"2h\" or \"1d\", up to "
	"3650 days, or 0 for none"};

static const struct field resource_fields[] = {
	LIMIT("memoryMiB", kind_size, resources.memory_bytes, &memory_rule, LIMIT_MEMORY),
	LIMIT("cpus", kind_cpus, resources.cpus_milli, &cpus_rule, LIMIT_CPUS),
	LIMIT("diskGiB", kind_size, resources.disk_bytes, &disk_rule, LIMIT_DISK),
	LIMIT("ttlSeconds", kind_time, resources.ttl_ms, &time_rule, LIMIT_TTL),
	LIMIT("idleSeconds", kind_time, resources.idle_ms, &time_rule, LIMIT_IDLE),
	LIMIT("swap", kind_size, resources.swap_bytes, &swap_rule, LIMIT_SWAP),
	LIMIT("pids", kind_count, resources.pids, &pids_rule, LIMIT_PIDS),
};
static const struct object resources_object =
	OBJECT(resource_fields, .example = "{memoryMiB: 2048, cpus: 2}");

static const struct text_rule user_rule = {check_user, "a user name or number", false};
static const struct field exec_fields[] = {
	KEY("user", kind_string, exec.user, &user_rule, USER),
	KEY("workDir", kind_string, exec.workdir, &path_rule, WORKDIR),
	KEY("env", kind_env, exec.env, NULL, ENV),
	KEY("timeoutSeconds", kind_time, exec.timeout_ms, &time_rule, TIMEOUT),
};
static const struct object exec_object =
	OBJECT(exec_fields, .example = "{user: agent, env: {CI: \"1\"}}");

/* ---- secrets -------------------------------------------------------------------- */

static const char *const secret_sources[] = {"env",   "file",  "command",
					     "stdin", "store", NULL};
static const char *const secret_injects[] = {"env", "file", NULL};
static const char *const violations[] = {"block", "stop", NULL};
static const struct field secret_fields[] = {
	REQUIRED("name", item_text, &env_rule),
	ITEM("from", item_enum, secret_sources),
	ITEM("path", item_text, &path_rule),
	ITEM("command", item_command, NULL),
	ITEM("hosts", item_texts, &host_rule),
	ITEM("inject", item_enum, secret_injects),
	ITEM("onViolation", item_enum, violations),
};

/* "NAME[@HOST,...]" */
static void secret_word(struct bind *b, json_t *o, const struct node *n)
{
	cleanup_free char *text = strdup(n->text);
	char *at = text ? strchr(text, '@') : NULL, *next;
	json_t *hosts = json_array();
	struct node part = *n;

	if (at)
		*at++ = '\0';
	part.text = text;
	if (text)
		item_text.bind(b, &secret_fields[0], o, &part);
	for (char *host = at; host; host = next) {
		cleanup_free char *word = NULL;

		next = strchr(host, ',');
		if (next)
			*next++ = '\0';
		part.text = host;
		word = bind_string(b, &part, &host_rule);
		if (word && json_array_append_new(hosts, json_string(word)) < 0)
			b->p->nomem = true;
	}
	b->p->nomem |= !text;
	json_put(b, o, "hosts", hosts);
}

/* A path that a project's file may name: nothing of the host's but what is in it. */
static bool inside_project(const char *path)
{
	return !path || (*path != '~' && path_stays_below(path));
}

/* A project's path is below the project, not below where somebody happens to be; "/./"
 * says so to who opens it (core/secret.h). */
static void path_below(struct bind *b, json_t *o)
{
	const char *path = json_string_value(json_object_get(o, "path"));
	const char *end = b->file ? strrchr(b->file, '/') : NULL;
	char *full;

	if (!path || !end)
		return;
	if (asprintf(&full, "%.*s/./%s", (int)(end - b->file), b->file, path) < 0) {
		b->p->nomem = true;
		return;
	}
	json_put(b, o, "path", json_string(full));
	free(full);
}

/* Without `from` it is looked for (core/secret.h), and `cove secret` may know its hosts.
 */
static void secret_finish(struct bind *b, json_t *o, const struct node *n)
{
	const char *from = json_string_value(json_object_get(o, "from"));
	bool file = from && strcmp(from, "file") == 0;
	bool command = from && strcmp(from, "command") == 0;
	bool store = !from || strcmp(from, "store") == 0;

	if (file != !!json_object_get(o, "path"))
		complain(b, n,
			 file ? "from: file needs a path" : "path is for from: file");
	if (command != !!json_object_get(o, "command"))
		complain(b, n,
			 command ? "from: command needs a command"
				 : "command is for from: command");
	if (command && b->project)
		complain(b, n,
			 "from: command is not allowed in a project's file, because it "
			 "would run on the host; put it into your own configuration");
	path_below(b, o);
	if (b->project && !inside_project(json_string_value(json_object_get(o, "path"))))
		complain(b, n,
			 "path: a project's file may only name files of the project; put "
			 "it into your own configuration");
	if (!store && !json_array_size(json_object_get(o, "hosts")) &&
	    !json_object_get(o, "inject"))
		complain(b, n,
			 "needs hosts, towards which it may be used, or inject: env or "
			 "file, which gives the value to the sandbox");
}

static const struct object secret_object = OBJECT(
	secret_fields, .unique = "name", .shorthand = secret_word,
	.finish = secret_finish, .example = "{name: TOKEN, hosts: [api.example.com]}");

/* ---- ports ---------------------------------------------------------------------- */

static const struct text_rule guest_end_rule = {
	check_socket, "a port (1 to 65535) or the absolute path of a socket", false};
static const struct text_rule host_end_rule = {
	check_host_end,
	"a port (1 to 65535, or 0 for a free one), ADDRESS:PORT, or the path of a socket",
	false};
static const struct field port_fields[] = {
	REQUIRED("guest", item_end, &guest_end_rule),
	ITEM("host", item_end, &host_end_rule),
};

/* "HOST:GUEST", ":GUEST" for a free port, or one port for both. */
static void port_word(struct bind *b, json_t *o, const struct node *n)
{
	cleanup_free char *text = strdup(n->text);
	char *colon = text ? strrchr(text, ':') : NULL;
	struct node part = *n;

	if (!text) {
		b->p->nomem = true;
		return;
	}
	part.text = colon ? colon + 1 : text;
	item_end.bind(b, &port_fields[0], o, &part);
	if (!colon)
		return;
	*colon = '\0';
	part.text = *text ? text : "0";
	item_end.bind(b, &port_fields[1], o, &part);
}

static void port_finish(struct bind *b, json_t *o, const struct node *n)
{
	json_t *guest = json_object_get(o, "guest");

	if (json_object_get(o, "host"))
		return;
	if (json_is_integer(guest))
		json_put(b, o, "host", json_incref(guest));
	else
		complain(b, n, "a guest socket needs the key 'host', a path or a port");
}

static const struct object port_object =
	OBJECT(port_fields, .unique = "host", .shorthand = port_word,
	       .finish = port_finish, .example = "{guest: 3000, host: 3000}");

/* ---- gate and services ---------------------------------------------------------- */

static const struct number_rule mib_rule = {
	MIB, MIB, 1048576 * MIB, false,
	"MiB as a whole number or a size such as \"1GiB\", 1 to 1048576"};
static const struct field gate_fields[] = {
	ITEM("allow", item_texts, &glob_rule),
	ITEM("deny", item_texts, &glob_rule),
	ITEM("maxFileMiB", item_mib, &mib_rule),
	ITEM("maxTotalMiB", item_mib, &mib_rule),
};
static const struct object gate_object =
	OBJECT(gate_fields, .example = "{allow: [\"src/**\"]}");

static const char *const restarts[] = {"no", "on-failure", "always", NULL};
static const struct text_rule socket_rule = {check_socket, "an absolute path", false};
static const struct field ready_fields[] = {
	ITEM("port", item_end, &guest_end_rule),
	ITEM("path", item_text, &socket_rule),
	ITEM("command", item_command, NULL),
	ITEM("timeoutSeconds", item_seconds, &time_rule),
	ITEM("intervalSeconds", item_seconds, &time_rule),
};

static void ready_finish(struct bind *b, json_t *o, const struct node *n)
{
	int ways =
		!!node_get(n, "port") + !!node_get(n, "path") + !!node_get(n, "command");

	(void)o;
	if (ways != 1)
		complain(b, n, "needs exactly one of port, path and command");
}

static const struct object ready_object =
	OBJECT(ready_fields, .finish = ready_finish, .example = "{port: 5432}");
static const struct field service_fields[] = {
	REQUIRED("name", item_text, &name_rule),
	REQUIRED("command", item_command, NULL),
	ITEM("ready", item_map, &ready_object),
	ITEM("restart", item_enum, restarts),
};
static const struct object service_object = OBJECT(
	service_fields, .unique = "name", .example = "{name: db, command: postgres}");

/* ---- the whole ------------------------------------------------------------------ */

static const struct field spec_fields[] = {
	KEY("name", kind_string, name, &name_rule, NAME),
	KEY("backend", kind_backend, backend, &backend_object, BACKEND),
	ITEM("image", kind_object, &image_object),
	ITEM("network", kind_object, &network_object),
	ITEM("storage", kind_object, &storage_object),
	ITEM("resources", kind_object, &resources_object),
	ITEM("exec", kind_object, &exec_object),
	KEY("mounts", kind_mounts, mounts, &mount_object, MOUNTS),
	KEY("mask", kind_strings, mask, &mask_rule, MASK),
	KEY("secrets", kind_list, secrets, &secret_object, SECRETS),
	KEY("ports", kind_list, ports, &port_object, PORTS),
	KEY("gate", kind_gate, gate, &gate_object, GATE),
	KEY("services", kind_list, services, &service_object, SERVICES),
	KEY("provision", kind_commands, provision, NULL, PROVISION),
};
const struct object spec_object = OBJECT(spec_fields, .example = "network: {mode: none}");
