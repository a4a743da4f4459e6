/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: checking, what a project's file may not say, and how layers apply.
 */
#include "tap.h"

#include "base/util.h"
#include "spec/spec.h"

/* A row of a table. */
#define CASE(...) \
	{ \
		__VA_ARGS__ \
	}

static struct cove_error err;

static struct config *read_config(const char *text, bool project)
{
	struct config *c = NULL;

	err.msg[0] = '\0';
	config_parse(&c, text, strlen(text), "c.yaml", project, NULL, &err);
	return c;
}

static const char *const good[] = {
	"",
	"defaults:",
	"defaults: {network: {mode: none}, mounts: [.]}",
	"profiles: {strict: {network: {mode: none}}, big: {resources: {memoryMiB: "
	"8GiB}}}",
	"agents: [{id: main, target: host}, {id: reader, profile: strict}, {id: coding, "
	"backend: vm}]",
	"agents: [{id: c, routes: [{command: gh, network: {mode: allowlist, "
	"allowedHosts: "
	"[github.com]}}, {tool: read, target: host}, {tool: x, profile: p}]}]",
	"agents: [{id: c, backend: {vm: {engine: qemu}}, network: {mode: none}}]",
	"providers: {build: {command: [ssh, '{target}', cove-guest, --stdio], target: "
	"h}}",
	"defaults: {secrets: [{name: A, from: command, command: pass a, inject: env}]}",
};

static const struct {
	bool project;
	const char *text, *message;
} bad[] = {
	CASE(false, "default: {}",
	     "c.yaml:1: unknown key 'default'; did you mean 'defaults'?"),
	CASE(false, "network: {}",
	     "c.yaml:1: unknown key 'network'; did you mean 'defaults.network'?"),
	CASE(false, "a: 1",
	     "c.yaml:1: unknown key 'a'; known are defaults, profiles, agents, "
	     "providers"),
	CASE(false, "defaults:\n  netwrk: {}",
	     "c.yaml:2: defaults: unknown key 'netwrk'; did you mean 'network'?"),
	CASE(false, "defaults: {name: x}",
	     "c.yaml:1: defaults: name: only a sandbox has one"),
	CASE(false, "defaults: [x]", "c.yaml:1: defaults: expected keys and values"),
	CASE(false, "profiles: [x]",
	     "c.yaml:1: profiles: expected names and their specs"),
	CASE(false, "profiles:\n p:\n  resources: {pids: 1}",
	     "c.yaml:3: profiles.p.resources.pids: '1' is not allowed"),
	CASE(false, "profiles: {Bad: {}}", "c.yaml:1: profiles: 'Bad' is not a name"),
	CASE(false, "agents: {id: x}", "c.yaml:1: agents: expected a list"),
	CASE(false, "agents: [{target: host}]",
	     "c.yaml:1: agents[0]: needs the key 'id'"),
	CASE(false, "agents: [{id: a, target: moon}]",
	     "c.yaml:1: agents[0].target: 'moon' is not known; write host"),
	CASE(false, "agents: [{id: a}, {id: a}]",
	     "c.yaml:1: agents[1]: id 'a' is given twice"),
	CASE(false, "agents: [{id: a, target: host, backend: vm}]",
	     "c.yaml:1: agents[0]: target: host and backend exclude each other"),
	CASE(false, "agents: [{id: a, backend: xen}]",
	     "c.yaml:1: agents[0].backend: 'xen' is not"),
	CASE(false, "agents: [{id: a, network: {mod: x}}]",
	     "c.yaml:1: agents[0].network: unknown key 'mod'; did you mean 'mode'?"),
	CASE(false, "agents: [{id: a, routes: [{profile: p}]}]",
	     "c.yaml:1: agents[0].routes[0]: needs either tool or command"),
	CASE(false, "agents: [{id: a, routes: [{tool: t, command: c}]}]",
	     "c.yaml:1: agents[0].routes[0]: needs either tool or command"),
	CASE(false, "agents: [{id: a, routes: [{tol: t}]}]",
	     "c.yaml:1: agents[0].routes[0]: unknown key 'tol'; did you mean 'tool'?"),
	CASE(false, "providers: {a: {}}",
	     "c.yaml:1: providers.a: needs the key 'command'"),
	CASE(false, "providers: [a]", "c.yaml:1: providers: expected names and commands"),
	CASE(false, "providers: {}\nproviders: {}\nagents: []\nagents: []",
	     "c.yaml:2: key 'providers' is given twice"),
	CASE(true, "agents:\n- {id: a, target: host}",
	     "c.yaml:2: agents[0].target: host is not allowed in a project's file"),
	CASE(true, "agents:\n- id: a\n  routes:\n  - {tool: t, target: host}",
	     "c.yaml:4: agents[0].routes[0].target: host is not allowed in a project's "
	     "file"),
	CASE(true,
	     "defaults:\n secrets: [{name: A, from: command, command: x, inject: env}]",
	     "c.yaml:2: defaults.secrets[0]: from: command is not allowed in a project's "
	     "file"),
	CASE(true,
	     "profiles:\n p:\n  secrets: [{name: A, from: command, command: x, inject: "
	     "env}]",
	     "c.yaml:3: profiles.p.secrets[0]: from: command is not allowed in a "
	     "project's"),
	CASE(true, "providers:\n a:\n  command: x",
	     "c.yaml:3: providers.a.command: a command is not allowed in a project's "
	     "file"),
};

static void files_are_checked(void)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct config *c = read_config(good[i], false);

		OK(c, "%s %s", good[i], err.msg);
		config_free(c);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct config *c = read_config(bad[i].text, bad[i].project);

		OK(!c && strncmp(err.msg, bad[i].message, strlen(bad[i].message)) == 0,
		   "%s", err.msg);
		config_free(c);
	}
}

static void agents_and_providers_are_kept(void)
{
	struct config *c = read_config(good[4], false), *p = read_config(good[7], false);

	OK(json_array_size(config_agents(c)) == 3, "three agents");
	OK(!config_providers(c) && !config_agents(p), "what is not there is NULL");
	OK(json_object_get(config_providers(p), "build"), "a provider");
	config_free(c);
	config_free(p);
}

static void layers_apply_in_order(void)
{
	struct config *user =
		read_config("defaults: {network: {mode: open}, mounts: [/a], exec: "
			    "{env: {A: 1}}, storage: persistent}\n"
			    "profiles: {p: {exec: {user: first}}, q: {exec: {user: "
			    "only}}}",
			    false);
	struct config *project =
		read_config("defaults: {network: {mode: none}, mounts: [/b, "
			    "/c], exec: {env: {B: 2}}}\n"
			    "profiles: {p: {exec: {user: second}, resources: "
			    "{pids: 512}}}",
			    true);
	const struct config *both[] = {user, project};
	struct spec s;

	spec_init(&s);
	OK(config_apply(both, 2, NULL, &s, &err) == 0, "defaults");
	OK(s.network.mode == NET_NONE, "the later file wins, even with a default value");
	OK(s.storage == STORAGE_PERSISTENT, "what it does not name stays");
	OK(s.n_mounts == 2 && strcmp(s.mounts[0].source, "/b") == 0,
	   "lists are replaced");
	OK(s.exec.env.n == 2, "the environment is merged by name");
	OK(strcmp(s.exec.user, "agent") == 0, "no profile without asking");
	OK(config_apply(both, 2, "p", &s, &err) == 0 &&
		   strcmp(s.exec.user, "second") == 0,
	   "the later profile of a name wins");
	OK(s.resources.set == LIMIT_PIDS, "a limit in a profile is asked for");
	OK(config_apply(both, 2, "q", &s, &err) == 0 && strcmp(s.exec.user, "only") == 0,
	   "an earlier file's own profile is found");
	OK(config_apply(both, 2, "qq", &s, &err) == COVE_EINVAL &&
		   strcmp(err.hint, "did you mean 'q'?") == 0,
	   "%s; %s", err.msg, err.hint);
	OK(strcmp(s.exec.user, "only") == 0, "and then nothing changes");
	OK(config_apply(both, 2, "unheard-of", &s, &err) == COVE_EINVAL && err.hint[0],
	   "%s", err.hint);
	OK(config_apply(NULL, 0, NULL, &s, &err) == 0, "no files at all");
	spec_clear(&s);
	config_free(user);
	config_free(project);
}

static int check(const char *text)
{
	struct buf problems = BUF_INIT(4000);
	int r = config_check(text, strlen(text), "f", true, &problems, &err);

	buf_clear(&problems);
	return r;
}

static void either_kind_of_file_can_be_checked(void)
{
	OK(check("network: {mode: none}") == 0, "a spec");
	OK(check("defaults: {network: {mode: none}}") == 0, "a config file");
	OK(check("network: {mode: non}") < 0 && strstr(err.msg, "did you mean 'none'"),
	   "%s", err.msg);
	OK(check("defaults: {}\nnetwork: {}") < 0 &&
		   strstr(err.msg, "'defaults.network'"),
	   "%s", err.msg);
	OK(check("a: [") < 0 && strstr(err.msg, "not valid"), "%s", err.msg);
	OK(check("") == 0, "an empty file");
}

int main(void)
{
	files_are_checked();
	agents_and_providers_are_kept();
	layers_apply_in_order();
	either_kind_of_file_can_be_checked();
	return tap_done();
}
