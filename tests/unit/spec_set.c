/* SPDX-License-Identifier: Apache-2.0 */
/* spec_set(): one key by its dotted name; what the flags of the command do. */
#include "tap.h"

#include "base/util.h"
#include "spec/spec.h"

/* A row of a table. */
#define CASE(...) \
	{ \
		__VA_ARGS__ \
	}

static char *json_of(const struct spec *s)
{
	json_t *j = spec_json(s, true);
	char *text = json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(6));

	json_decref(j);
	return text;
}

static const struct {
	const char *key, *first, *second; /* second: NULL for none, "-" for NULL */
	const char *json;
} good[] = {
	CASE("name", "a", "b", "\"name\":\"b\""),
	CASE("backend", "vm", NULL, "\"backend\":\"vm\""),
	CASE("backend.vm.engine", "kvm", NULL,
	     "\"backend\":{\"vm\":{\"engine\":\"kvm\"}}"),
	CASE("backend", "vm", "-", "\"backend\":\"auto\""),
	CASE("image", "rootfs:/x", NULL, "\"source\":\"rootfs:/x\""),
	CASE("image.source", "rootfs:/x", "host", "\"source\":\"host\""),
	CASE("network.mode", "open", NULL, "\"mode\":\"open\""),
	CASE("network.allowedHosts", "a.io", "b.io:443", "[\"a.io\",\"b.io:443\"]"),
	CASE("network.allowedHosts", "a.io", "-", "\"allowedHosts\":[]"),
	CASE("network.allowedPorts", "80", "90-91", "\"allowedPorts\":[80,\"90-91\"]"),
	CASE("storage", "persistent", NULL, "\"type\":\"persistent\""),
	CASE("storage.type", "persistent", "-", "\"type\":\"ephemeral\""),
	CASE("resources.memoryMiB", "1.5g", NULL, "\"resources\":{\"memoryMiB\":1536}"),
	CASE("resources.memoryMiB", "1.5g", "-", "\"resources\":{}"),
	CASE("resources.cpus", "0.3", NULL, "\"cpus\":0.3"),
	CASE("resources.pids", "0", NULL, "\"resources\":{\"pids\":0}"),
	CASE("resources.ttlSeconds", "1h30m", NULL, "\"ttlSeconds\":5400"),
	CASE("exec.user", "root", "-", "\"user\":\"agent\""),
	CASE("exec.workDir", "/srv", "-", "\"workDir\":\".\""),
	CASE("exec.env", "A=1", "B=2=3", "\"env\":{\"A\":\"1\",\"B\":\"2=3\"}"),
	CASE("exec.env", "A=1", "A=2", "\"env\":{\"A\":\"2\"}"),
	CASE("exec.env", "A=", "-", "\"env\":{}"),
	CASE("exec.env.HOME", "/x", NULL, "\"env\":{\"HOME\":\"/x\"}"),
	CASE("exec.timeoutSeconds", "5m", NULL, "\"timeoutSeconds\":300"),
	CASE("mounts", ".", "/a:/b:ro",
	     "[{\"source\":\".\",\"mode\":\"overlay\"},"
	     "{\"source\":\"/a\",\"target\":\"/b\",\"mode\":\"ro\"}]"),
	CASE("mounts", ".:overlay", ".:rw",
	     "\"mounts\":[{\"source\":\".\",\"mode\":\"rw\"}]"),
	CASE("mounts", ".", "-", "\"mounts\":[]"),
	CASE("mounts", "./a:b:/c:d:ro", NULL,
	     "{\"source\":\"./a:b\",\"target\":\"/c:d\",\"mode\":\"ro\"}"),
	CASE("secrets", "T@a.io,b.io", "U", "{\"name\":\"U\",\"hosts\":[]}]"),
	CASE("secrets", "T@a.io", "T@b.io",
	     "\"secrets\":[{\"name\":\"T\",\"hosts\":[\"b.io\"]}]"),
	CASE("ports", "8080:80", "22",
	     "[{\"guest\":80,\"host\":8080},{\"guest\":22,\"host\":22}]"),
	CASE("gate.allow", "src/**", "doc/**", "\"allow\":[\"src/**\",\"doc/**\"]"),
	CASE("gate.deny", "*.key", NULL, "\"allow\":[\"**\"],\"deny\":[\"*.key\"]"),
	CASE("gate.maxFileMiB", "20", NULL, "\"maxFileMiB\":20"),
	CASE("provision", "make", "make install",
	     "\"provision\":[\"make\",\"make install\"]"),
	CASE("resources", "-", NULL, "\"resources\":{}"),
};

static void set_and_append(void)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		const char *values[] = {good[i].first, good[i].second};
		struct cove_error err = {0};
		cleanup_free char *json = NULL;
		struct spec s;
		int r = 0;

		spec_init(&s);
		for (size_t v = 0; v < 2 && values[v] && r == 0; v++)
			r = spec_set(&s, good[i].key,
				     strcmp(values[v], "-") ? values[v] : NULL, &err);
		json = json_of(&s);
		OK(r == 0 && strstr(json, good[i].json), "%s %s: %s", good[i].key,
		   good[i].first, r ? err.msg : good[i].json);
		spec_clear(&s);
	}
}

static const struct {
	const char *key, *value, *message;
} bad[] = {
	CASE("memory", "1g", "unknown key 'memory'; did you mean 'resources.memoryMiB'?"),
	CASE("network.mod", "none", "network: unknown key 'mod'; did you mean 'mode'?"),
	CASE("network.mode", "non",
	     "network.mode: 'non' is not known; did you mean 'none'?"),
	CASE("", "x", "unknown key ''"),
	CASE("a.b.c.d.e.f.g.h", "x", "unknown key 'a.b.c.d.e.f.g.h'"),
	CASE("..", "x", "unknown key ''"),
	CASE("resources", "5", "resources: expected keys and values"),
	CASE("resources.memoryMiB", "1", "resources.memoryMiB: '1' is not allowed"),
	CASE("resources.memoryMiB.x", "1", "resources.memoryMiB: is a map; write MiB"),
	CASE("exec.env", "A", "exec.env: 'A' has no value; write NAME=VALUE"),
	CASE("exec.env", "=x", "exec.env: '' is not a variable name"),
	CASE("exec.env", "A=\x1b[0m", "exec.env: control character in the value"),
	CASE("exec.env", "A=\xff", "exec.env: invalid UTF-8 in the value"),
	CASE("mounts", "", "mounts: '' is not a path"),
	CASE("mounts", "/proc:ro", "mounts: '/proc' cannot be mounted over"),
	CASE("mounts", "a:/x/../y:ro", "mounts: '/x/../y' contains '..'"),
	CASE("network.allowedHosts", "a b", "network.allowedHosts: 'a b' is not a host"),
	CASE("secrets", "a-b@c.io", "secrets: 'a-b' is not a variable name"),
	CASE("ports", "80:0", "ports: '0' is not allowed"),
	CASE("ports", "host.example:80:80", "ports: 'host.example:80' is not allowed"),
	CASE("ports", "1.2.3:80:80", "ports: '1.2.3:80' is not allowed"),
	CASE("ports", "[::1:80:80", "ports: '[::1:80' is not allowed"),
	CASE("provision", " ", "provision: ' ' is empty"),
	CASE("services", "x", "services: expected keys and values"),
	CASE("network.rules", "x", "network.rules: expected keys and values"),
};

static void bad_settings_change_nothing(void)
{
	struct spec s;
	cleanup_free char *before = NULL, *after = NULL;
	struct cove_error err;

	spec_init(&s);
	spec_set(&s, "exec.env", "KEEP=1", &err);
	before = json_of(&s);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		int r = spec_set(&s, bad[i].key, bad[i].value, &err);

		OK(r == COVE_EINVAL &&
			   strncmp(err.msg, bad[i].message, strlen(bad[i].message)) == 0,
		   "%s: %s", bad[i].key, err.msg);
	}
	after = json_of(&s);
	OK(strcmp(before, after) == 0, "the spec is untouched");
	spec_clear(&s);
}

static void lists_are_bounded(void)
{
	char text[64], *big = malloc(SPEC_STR_MAX + 8);
	struct cove_error err;
	struct spec s;
	int r = 0, i;

	spec_init(&s);
	for (i = 0; i <= SPEC_LIST_MAX && r == 0; i++) {
		snprintf(text, sizeof(text), "%d", 1000 + i);
		r = spec_set(&s, "network.allowedPorts", text, &err);
	}
	OK(r == COVE_EINVAL && i == SPEC_LIST_MAX + 1 && strstr(err.msg, "more than 256"),
	   "%s", err.msg);
	memset(big, 'a', SPEC_STR_MAX + 7);
	big[SPEC_STR_MAX + 7] = '\0';
	r = spec_set(&s, "exec.workDir", big, &err);
	OK(r == COVE_EINVAL && strstr(err.msg, "longer than 4096 bytes"), "%s", err.msg);
	free(big);
	spec_clear(&s);
}

int main(void)
{
	set_and_append();
	bad_settings_change_nothing();
	lists_are_bounded();
	return tap_done();
}
