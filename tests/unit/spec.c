/* SPDX-License-Identifier: Apache-2.0 */
/* The spec: every key, good and bad, the messages, the limits, and what failure leaves
 * alone. */
#include "tap.h"

#include "base/util.h"
#include "spec/spec.h"

/* A row of a table. */
#define CASE(...) \
	{ \
		__VA_ARGS__ \
	}

/* Parses text into a fresh spec and returns its JSON (keys that were asked for), or the
 * problem list as text. */
static char *run(const char *text, size_t len)
{
	struct buf problems = BUF_INIT(1 << 20);
	struct cove_error err = {0};
	struct spec s;
	char *out;

	spec_init(&s);
	if (spec_parse(&s, text, len, "f.yaml", &problems, &err) < 0) {
		out = problems.len ? strdup(problems.data) : strdup(err.msg);
	} else {
		json_t *j = spec_json(&s, true);

		out = json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(6));
		json_decref(j);
	}
	buf_clear(&problems);
	spec_clear(&s);
	return out;
}

/* ---- what is accepted, and as what ------------------------------------------------- */

static const struct {
	const char *yaml, *json; /* json: a piece of the result */
} good[] = {
	CASE("", "\"backend\":\"auto\""),
	CASE("# nothing but a comment\n", "\"resources\":{}"),
	CASE("%YAML 1.1\n---\nname: y", "\"name\":\"y\""),
	CASE("provision: ['%TAG', \"x %TAG\"]", "[\"%TAG\",\"x %TAG\"]"),
	CASE("---\nname: a\n...\n", "\"name\":\"a\""),
	CASE("\xef\xbb\xbfname: bom", "\"name\":\"bom\""),
	CASE("name: a\r\nbackend: vm\r\n", "\"backend\":\"vm\""),
	CASE("name: api-fix_2.x", "\"name\":\"api-fix_2.x\""),
	CASE("backend: process", "\"backend\":\"process\""),
	CASE("backend: remote", "\"backend\":\"remote\""),
	CASE("backend: {process: }", "\"backend\":\"process\""),
	CASE("backend: {vm: {engine: qemu}}",
	     "\"backend\":{\"vm\":{\"engine\":\"qemu\"}}"),
	CASE("backend: {remote: {provider: ssh, target: build@h}}",
	     "\"backend\":{\"remote\":{\"provider\":\"ssh\",\"target\":\"build@h\"}}"),
	CASE("image: host", "\"image\":{\"source\":\"host\"}"),
	CASE("image: rootfs:/srv/root", "\"source\":\"rootfs:/srv/root\""),
	CASE("image: {source: 'oci:debian:12'}", "\"source\":\"oci:debian:12\""),
	CASE("image: oci:debian@sha256:00ff", "\"source\":\"oci:debian@sha256:00ff\""),
	CASE("image: oci-archive:a.tar", "\"source\":\"oci-archive:a.tar\""),
	CASE("image: docker-archive:a.tar", "\"source\":\"docker-archive:a.tar\""),
	CASE("image: raw:disk.img", "\"source\":\"raw:disk.img\""),
	CASE("image: qcow2:/a/b", "\"source\":\"qcow2:/a/b\""),
	CASE("image: tar:a b.tar", "\"source\":\"tar:a b.tar\""),
	CASE("network: {mode: allowlist}", "\"mode\":\"allowlist\""),
	CASE("network: {mode: open}", "\"mode\":\"open\""),
	CASE("network: {mode: learn}", "\"mode\":\"learn\""),
	CASE("network: {allowedHosts: [GitHub.com, '*.a.io', '**.b.io', 10.0.0.1, "
	     "10.0.0.0/8, "
	     "'::1', 'fd00::/8', 'a.io:443', '[::1]:80']}",
	     "\"allowedHosts\":[\"github.com\",\"*.a.io\",\"**.b.io\",\"10.0.0.1\","
	     "\"10.0.0.0/8\",\"::1\",\"fd00::/8\",\"a.io:443\",\"[::1]:80\"]"),
	CASE("network: {allowedHosts: [a.io, A.io]}", "\"allowedHosts\":[\"a.io\"]"),
	CASE("network: {allowedPorts: [443, 8000-8100, '22']}",
	     "\"allowedPorts\":[443,\"8000-8100\",22]"),
	CASE("network: {rules: [{id: r, host: h.io, port: 443, protocol: http, methods: "
	     "[GET], "
	     "paths: [/v1/**], action: allow, scope: main}]}",
	     "\"rules\":[{\"id\":\"r\",\"host\":\"h.io\",\"port\":443,\"protocol\":"
	     "\"http\","
	     "\"methods\":[\"GET\"],\"paths\":[\"/v1/"
	     "**\"],\"action\":\"allow\",\"scope\":"
	     "\"main\"}]"),
	CASE("network: {rules: [{host: h.io, port: 1-9}]}", "\"port\":\"1-9\""),
	CASE("network: {rules: [{host: [H.io, '*.h.io'], port: [80, 1-9, '22']}]}",
	     "{\"host\":[\"h.io\",\"*.h.io\"],\"port\":[80,\"1-9\",22]}"),
	CASE("network: {rules: [{host: '*', action: deny, scope: Web_Fetch}]}",
	     "{\"host\":\"*\",\"action\":\"deny\",\"scope\":\"Web_Fetch\"}"),
	CASE("network: {rules: [{host: a, scope: {agent: [m, n], tool: T, exec: e1}}]}",
	     "\"scope\":{\"agent\":[\"m\",\"n\"],\"tool\":\"T\",\"exec\":\"e1\"}"),
	CASE("network: {rules: [{host: a, addresses: [private, self, 10.0.0.0/8, "
	     "'::1']}]}",
	     "\"addresses\":[\"private\",\"self\",\"10.0.0.0/8\",\"::1\"]"),
	CASE("network: {rules: [{host: host.cove.internal, port: 80}]}",
	     "{\"host\":\"host.cove.internal\",\"port\":80}"),
	CASE("network: {addresses: [metadata, 192.168.0.0/16]}",
	     "\"addresses\":[\"metadata\",\"192.168.0.0/16\"]"),
	CASE("network: {allowedHosts: [\xc3\xa9.io, '\xc3\xa9.io:80']}",
	     "\"allowedHosts\":[\"\xc3\xa9.io\",\"\xc3\xa9.io:80\"]"),
	CASE("storage: persistent", "\"storage\":{\"type\":\"persistent\"}"),
	CASE("storage: {type: ephemeral}", "\"storage\":{\"type\":\"ephemeral\"}"),
	CASE("resources: {memoryMiB: 512}", "\"resources\":{\"memoryMiB\":512}"),
	CASE("resources: {memoryMiB: '2GiB'}", "\"memoryMiB\":2048"),
	CASE("resources: {memoryMiB: 0}", "\"resources\":{\"memoryMiB\":0}"),
	CASE("resources: {memoryMiB: 2048}", "\"resources\":{\"memoryMiB\":2048}"),
	CASE("resources: {memoryMiB: 20000000B}", "\"memoryMiB\":\"20000000B\""),
	CASE("resources: {cpus: 0.5}", "\"cpus\":0.5"),
	CASE("resources: {cpus: 4}", "\"cpus\":4"),
	CASE("resources: {cpus: 0}", "\"resources\":{\"cpus\":0}"),
	CASE("resources: {diskGiB: 1.5}", "\"diskGiB\":\"1610612736B\""),
	CASE("resources: {diskGiB: 40, swap: 1GiB, pids: 64}",
	     "\"diskGiB\":40,\"swap\":1024,\"pids\":64"),
	CASE("resources: {ttlSeconds: 2h, idleSeconds: 90}",
	     "\"ttlSeconds\":7200,\"idleSeconds\":90"),
	CASE("resources: {ttlSeconds: 1500ms}", "\"ttlSeconds\":\"1500ms\""),
	CASE("resources:", "\"resources\":{}"),
	CASE("exec: {user: root}", "\"user\":\"root\""),
	CASE("exec: {user: 1000}", "\"user\":\"1000\""),
	CASE("exec: {workDir: /srv}", "\"workDir\":\"/srv\""),
	CASE("exec: {env: {CI: 1, EMPTY: '', _X: true, Z: a=b}}",
	     "\"env\":{\"CI\":\"1\",\"EMPTY\":\"\",\"_X\":\"true\",\"Z\":\"a=b\"}"),
	CASE("exec: {timeoutSeconds: 5m}", "\"timeoutSeconds\":300"),
	CASE("mounts: [.]", "\"mounts\":[{\"source\":\".\",\"mode\":\"overlay\"}]"),
	CASE("mounts: [{source: /data, target: /mnt, mode: ro}]",
	     "\"mounts\":[{\"source\":\"/data\",\"target\":\"/mnt\",\"mode\":\"ro\"}]"),
	CASE("mounts: ['/a:/b:rw', 'x:copy', '/c:/d', 'v:/data:volume', 'odd:name:ro']",
	     "[{\"source\":\"/a\",\"target\":\"/b\",\"mode\":\"rw\"},"
	     "{\"source\":\"x\",\"mode\":\"copy\"},"
	     "{\"source\":\"/c\",\"target\":\"/d\",\"mode\":\"overlay\"},"
	     "{\"source\":\"v\",\"target\":\"/data\",\"mode\":\"volume\"},"
	     "{\"source\":\"odd:name\",\"mode\":\"ro\"}]"),
	CASE("mounts: [{source: /usr, target: /host/usr, mode: ro}]", "\"/host/usr\""),
	CASE("mounts:", "\"mounts\":[]"),
	CASE("secrets: [{name: T, from: file, path: /k, hosts: [a.io], inject: env}]",
	     "{\"name\":\"T\",\"from\":\"file\",\"path\":\"/k\",\"hosts\":[\"a.io\"],"
	     "\"inject\":\"env\"}"),
	CASE("secrets: [{name: T, from: command, command: [pass, t], hosts: [a.io]}]",
	     "\"command\":[\"pass\",\"t\"]"),
	CASE("secrets: ['T@a.io,*.b.io']", "\"hosts\":[\"a.io\",\"*.b.io\"]}"),
	CASE("secrets: [{name: T, from: stdin, inject: file}]", "\"from\":\"stdin\""),
	CASE("secrets: [{name: T, from: store}]", "\"from\":\"store\""),
	CASE("secrets: [{name: T, hosts: [a.io], onViolation: stop}]",
	     "\"onViolation\":\"stop\""),
	CASE("ports: [{guest: 3000, host: 8080}]",
	     "\"ports\":[{\"guest\":3000,\"host\":8080}]"),
	CASE("ports: [{guest: 3000}]", "{\"guest\":3000,\"host\":3000}"),
	CASE("ports: ['0:80', '0:80', ':81']",
	     "\"ports\":[{\"guest\":80,\"host\":0},{\"guest\":80,\"host\":0},"
	     "{\"guest\":81,\"host\":0}]"),
	CASE("ports: ['0.0.0.0:80:81', '[::1]:0:82', 'localhost:83:83']",
	     "\"ports\":[{\"guest\":81,\"host\":\"0.0.0.0:80\"},{\"guest\":82,"
	     "\"host\":\"[::1]:0\"},{\"guest\":83,\"host\":\"localhost:83\"}]"),
	CASE("ports: [{guest: /run/d.sock, host: d.sock}]",
	     "{\"guest\":\"/run/d.sock\",\"host\":\"d.sock\"}"),
	CASE("ports: [8080:80, 22, 'd.sock:/run/d.sock']",
	     "[{\"guest\":80,\"host\":8080},{\"guest\":22,\"host\":22},"
	     "{\"guest\":\"/run/d.sock\",\"host\":\"d.sock\"}]"),
	CASE("gate: {allow: ['src/**'], maxFileMiB: 1GiB}",
	     "\"gate\":{\"allow\":[\"src/**\"],\"deny\":[],\"maxFileMiB\":1024,"
	     "\"maxTotalMiB\":100}"),
	CASE("gate: {deny: ['*.key'], maxTotalMiB: 5}", "\"deny\":[\"*.key\"]"),
	CASE("services: [{name: db, command: postgres -D /x, restart: no, ready: {port: "
	     "5432, "
	     "timeoutSeconds: 1m, intervalSeconds: 500ms}}]",
	     "{\"name\":\"db\",\"command\":\"postgres -D "
	     "/x\",\"restart\":\"no\",\"ready\":{"
	     "\"port\":5432,\"timeoutSeconds\":60,\"intervalSeconds\":\"500ms\"}}"),
	CASE("services: [{name: a, command: [x, ''], ready: {path: /run/s}, restart: "
	     "always}]",
	     "\"ready\":{\"path\":\"/run/s\"}"),
	CASE("provision: [apt-get install -y jq, [touch, a b]]",
	     "\"provision\":[\"apt-get install -y jq\",[\"touch\",\"a b\"]]"),
	CASE("provision:\n - |\n  a\n  b\n", "\"provision\":[\"a\\nb\\n\"]"),
	CASE("{\"name\":\"j\",\"exec\":{\"env\":{\"A\":\"\\/"
	     "\\u00e9\\ud83d\\ude00\\\\ud83d\"}}}",
	     "\"A\":\"/\xc3\xa9\xf0\x9f\x98\x80\\\\ud83d\""),
	CASE("{\n\t\"name\" :\t\"tabs\"\n}", "\"name\":\"tabs\""),
	CASE("exec: {env: {A: '\\ud83d\\ude00'}}", "\"A\":\"\\\\ud83d\\\\ude00\""),
};

static void good_texts_are_taken(void)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		cleanup_free char *got = run(good[i].yaml, strlen(good[i].yaml));

		OK(strstr(got, good[i].json), "%s", good[i].json);
	}
}

/* ---- what is refused, and how it is said ------------------------------------------- */

static const struct {
	const char *yaml, *message; /* the first line, or how it begins */
} bad[] = {
	CASE("netwrok: {}", "f.yaml:1: unknown key 'netwrok'; did you mean 'network'?\n"),
	CASE("\nnetwork:\n  allowHosts: []\n",
	     "f.yaml:3: network: unknown key 'allowHosts'; did you mean "
	     "'allowedHosts'?\n"),
	CASE("memory: 1",
	     "f.yaml:1: unknown key 'memory'; did you mean 'resources.memoryMiB'?\n"),
	CASE("zzzzzzzz: 1", "f.yaml:1: unknown key 'zzzzzzzz'; known are name, backend,"),
	CASE("? [a]\n: b", "f.yaml:1: a key must be plain text"),
	CASE("name: a\nname: b", "f.yaml:2: key 'name' is given twice\n"),
	CASE("- a",
	     "f.yaml:1: expected keys and values, such as network: {mode: none}\n"),
	CASE("just text", "f.yaml:1: expected keys and values"),
	CASE("name: Abc", "f.yaml:1: name: 'Abc' is not a name; use 1 to 63 of a-z"),
	CASE("name:", "f.yaml:1: name: has no value; write a name\n"),
	CASE("name: [a]", "f.yaml:1: name: is a list; write a name\n"),
	CASE("name: {a: b}", "f.yaml:1: name: is a map; write a name\n"),
	CASE("backend: docker",
	     "f.yaml:1: backend: 'docker' is not known; write auto, process, vm "
	     "or remote\n"),
	CASE("backend: proces",
	     "f.yaml:1: backend: 'proces' is not known; did you mean 'process'?"),
	CASE("backend: {vm: {engine: xen}}",
	     "f.yaml:1: backend.vm.engine: 'xen' is not known; "
	     "write auto, kvm or qemu\n"),
	CASE("backend: {vm: {}, remote: {}}", "f.yaml:1: backend: name one backend"),
	CASE("backend: {}", "f.yaml:1: backend: name one backend"),
	CASE("backend: {process: {a: b}}",
	     "f.yaml:1: backend.process: unknown key 'a'; there are none here\n"),
	CASE("backend: {remote: {provider: 'a b'}}",
	     "f.yaml:1: backend.remote.provider: 'a b' is"),
	CASE("backend: [vm]",
	     "f.yaml:1: backend: expected keys and values, such as process, or"),
	CASE("image: docker:x",
	     "f.yaml:1: image: 'docker:x' is not an image; write host, rootfs:DIR"),
	CASE("image: 'rootfs:'", "f.yaml:1: image: 'rootfs:' is not an image"),
	CASE("image: 'oci:-x'", "f.yaml:1: image: 'oci:-x' is not an image"),
	CASE("image: hostx", "f.yaml:1: image: 'hostx' is not an image"),
	CASE("image: {sorce: host}",
	     "f.yaml:1: image: unknown key 'sorce'; did you mean 'source'?"),
	CASE("network: none",
	     "f.yaml:1: network: expected keys and values, such as {mode: none}\n"),
	CASE("network: {mode: off}",
	     "f.yaml:1: network.mode: 'off' is not known; write none,"),
	CASE("network: {allowedHosts: a.io}",
	     "f.yaml:1: network.allowedHosts: expected a list"),
	CASE("network:\n allowedHosts:\n - ok.io\n - 'bad host'\n",
	     "f.yaml:4: network.allowedHosts[1]: 'bad host' is not a host; write a name, "
	     "*.SUFFIX, **.SUFFIX, an IP address or a CIDR range\n"),
	CASE("network: {allowedHosts: ['*']}",
	     "f.yaml:1: network.allowedHosts[0]: '*' is every host"),
	CASE("network: {allowedHosts: [a.*.io]}",
	     "f.yaml:1: network.allowedHosts[0]: 'a.*.io' is not"),
	CASE("network: {allowedHosts: [1.2.3]}",
	     "f.yaml:1: network.allowedHosts[0]: '1.2.3' is not"),
	CASE("network: {allowedHosts: [-a.io]}",
	     "f.yaml:1: network.allowedHosts[0]: '-a.io' is not"),
	CASE("network: {allowedHosts: [a.io..]}",
	     "f.yaml:1: network.allowedHosts[0]: 'a.io..' is not"),
	CASE("network: {allowedHosts: ['a.io:0']}",
	     "f.yaml:1: network.allowedHosts[0]: 'a.io:0' does"),
	CASE("network: {allowedHosts: ['1::2::3']}",
	     "f.yaml:1: network.allowedHosts[0]: '1::2::3' is"),
	CASE("network: {allowedHosts: [10.0.0.1/8]}",
	     "f.yaml:1: network.allowedHosts[0]: "
	     "'10.0.0.1/8' has address bits beyond"),
	CASE("network: {allowedHosts: [10.0.0.0/33]}",
	     "f.yaml:1: network.allowedHosts[0]: '10."),
	CASE("network: {allowedHosts: [p\xd0\xb0.io]}",
	     "f.yaml:1: network.allowedHosts[0]: 'p\xd0\xb0.io' is not a host; write an "
	     "international"),
	CASE("network: {allowedPorts: [0]}",
	     "f.yaml:1: network.allowedPorts[0]: '0' is not a port; "
	     "write 1 to 65535, or a range such as 8000-8100\n"),
	CASE("network: {allowedPorts: [65536]}",
	     "f.yaml:1: network.allowedPorts[0]: '65536' is not"),
	CASE("network: {allowedPorts: [9-8]}",
	     "f.yaml:1: network.allowedPorts[0]: '9-8' is not a"),
	CASE("network: {allowedPorts: [http]}",
	     "f.yaml:1: network.allowedPorts[0]: 'http' is not"),
	CASE("network: {rules: [{port: 1}]}",
	     "f.yaml:1: network.rules[0]: needs the key 'host'\n"),
	CASE("network: {rules: [{host: a, port: x}]}",
	     "f.yaml:1: network.rules[0].port: 'x' is not"),
	CASE("network: {rules: [{host: a, protocol: udp}]}",
	     "f.yaml:1: network.rules[0].protocol: 'udp' is not known; "),
	CASE("network: {rules: [{host: a, protocol: tcp, methods: [GET]}]}",
	     "f.yaml:1: network.rules[0]: methods and paths need protocol: http\n"),
	CASE("network: {rules: [{host: a, methods: [get]}]}",
	     "f.yaml:1: network.rules[0].methods[0]: 'get' is not a method"),
	CASE("network: {rules: [{host: a, paths: [v1]}]}",
	     "f.yaml:1: network.rules[0].paths[0]: 'v1' is not a path"),
	CASE("network: {rules: [{host: a, action: ask}]}",
	     "f.yaml:1: network.rules[0].action: 'ask' is not known; write allow or "
	     "deny\n"),
	CASE("network: {rules: [{id: a, host: a}, {id: a, host: b}]}",
	     "f.yaml:1: network.rules[1]: id 'a' is given twice\n"),
	CASE("network: {rules: [{host: []}]}",
	     "f.yaml:1: network.rules[0].host: is an empty list; write a host"),
	CASE("network: {rules: [{host: a, port: []}]}",
	     "f.yaml:1: network.rules[0].port: is an empty list; write a port"),
	CASE("network: {rules: [{host: a, port: [1, 0]}]}",
	     "f.yaml:1: network.rules[0].port[1]: '0' is not a port"),
	CASE("network: {rules: [{host: [a, b c]}]}",
	     "f.yaml:1: network.rules[0].host[1]: 'b c' is not a host"),
	CASE("network: {rules: [{host: a, scope: {}}]}",
	     "f.yaml:1: network.rules[0].scope: is empty"),
	CASE("network: {rules: [{host: a, scope: {user: x}}]}",
	     "f.yaml:1: network.rules[0].scope: unknown key 'user'"),
	CASE("network: {rules: [{host: a, scope: {tool: 'a b'}}]}",
	     "f.yaml:1: network.rules[0].scope.tool: 'a b' is not the name"),
	CASE("network: {rules: [{host: a, scope: [x]}]}",
	     "f.yaml:1: network.rules[0].scope: expected keys and values"),
	CASE("network: {rules: [{host: a, addresses: [home]}]}",
	     "f.yaml:1: network.rules[0].addresses[0]: 'home' is neither"),
	CASE("network: {rules: [{host: host.cove.internal}]}",
	     "f.yaml:1: network.rules[0]: host.cove.internal needs the key 'port'"),
	CASE("network: {rules: [{host: a, paths: ['/a b']}]}",
	     "f.yaml:1: network.rules[0].paths[0]: '/a b' is not a path"),
	CASE("network: {rules: [{host: a, paths: []}]}",
	     "f.yaml:1: network.rules[0].paths: is an empty list"),
	CASE("network: {ask: maybe}",
	     "f.yaml:1: network.ask: 'maybe' is not known; write false or true"),
	CASE("network: {rules: [a.io]}",
	     "f.yaml:1: network.rules[0]: expected keys and values"),
	CASE("storage: disk",
	     "f.yaml:1: storage: 'disk' is not known; write ephemeral or "),
	CASE("storage: {typ: x}",
	     "f.yaml:1: storage: unknown key 'typ'; did you mean 'type'?\n"),
	CASE("resources: {memoryMiB: 15}",
	     "f.yaml:1: resources.memoryMiB: '15' is not allowed; write MiB as a number "
	     "or a "
	     "size "
	     "such as \"2GiB\", at least 16 MiB, or 0 for no limit\n"),
	CASE("resources: {memoryMiB: -1}",
	     "f.yaml:1: resources.memoryMiB: '-1' is not allowed"),
	CASE("resources: {memoryMiB: 2Q}",
	     "f.yaml:1: resources.memoryMiB: '2Q' is not allowed"),
	CASE("resources: {memoryMiB: 0.0000001}",
	     "f.yaml:1: resources.memoryMiB: '0.0000001' is"),
	CASE("resources: {memoryMiB: 99999999999999999999}",
	     "f.yaml:1: resources.memoryMiB: '999"),
	CASE("resources: {memoryMiB: 0x10}",
	     "f.yaml:1: resources.memoryMiB: '0x10' is not allowed"),
	CASE("resources: {memoryMiB: }",
	     "f.yaml:1: resources.memoryMiB: has no value; write MiB"),
	CASE("resources: {memory: 5}",
	     "f.yaml:1: resources: unknown key 'memory'; did you mean "
	     "'memoryMiB'?\n"),
	CASE("resources: {cpus: 0.001}",
	     "f.yaml:1: resources.cpus: '0.001' is not allowed; write a "
	     "number of 0.01 to 4096, or 0 for no limit\n"),
	CASE("resources: {cpus: 4097}",
	     "f.yaml:1: resources.cpus: '4097' is not allowed"),
	CASE("resources: {cpus: 0.0001}",
	     "f.yaml:1: resources.cpus: '0.0001' is not allowed"),
	CASE("resources: {cpus: two}", "f.yaml:1: resources.cpus: 'two' is not allowed"),
	CASE("resources: {diskGiB: 1KiB}",
	     "f.yaml:1: resources.diskGiB: '1KiB' is not allowed"),
	CASE("resources: {swap: lots}",
	     "f.yaml:1: resources.swap: 'lots' is not allowed"),
	CASE("resources: {pids: 3}",
	     "f.yaml:1: resources.pids: '3' is not allowed; write a whole "),
	CASE("resources: {pids: 4.5}", "f.yaml:1: resources.pids: '4.5' is not allowed"),
	CASE("resources: {ttlSeconds: 5x}",
	     "f.yaml:1: resources.ttlSeconds: '5x' is not allowed; "
	     "write seconds as a number or a time such as"),
	CASE("resources: {ttlSeconds: 4000d}",
	     "f.yaml:1: resources.ttlSeconds: '4000d' is not"),
	CASE("resources: {idleSeconds: soon}",
	     "f.yaml:1: resources.idleSeconds: 'soon' is not"),
	CASE("exec: {user: 'a b'}", "f.yaml:1: exec.user: 'a b' is not a user"),
	CASE("exec: {user: 4294967295}",
	     "f.yaml:1: exec.user: '4294967295' is not a user"),
	CASE("exec: {workDir: ''}", "f.yaml:1: exec.workDir: '' is not a path\n"),
	CASE("exec: {workdir: /}",
	     "f.yaml:1: exec: unknown key 'workdir'; did you mean 'workDir'?"),
	CASE("exec: {env: [A=b]}",
	     "f.yaml:1: exec.env: expected names and values, such as"),
	CASE("exec: {env: {1A: b}}",
	     "f.yaml:1: exec.env: '1A' is not a variable name; use letters"),
	CASE("exec: {env: {Y: null}}",
	     "f.yaml:1: exec.env.Y: has no value; write text, or ''"),
	CASE("exec: {env: {A: [b]}}",
	     "f.yaml:1: exec.env.A: is a list; write text, or ''"),
	CASE("exec: {timeoutSeconds: x}",
	     "f.yaml:1: exec.timeoutSeconds: 'x' is not allowed"),
	CASE("mounts: .",
	     "f.yaml:1: mounts: expected a list, such as [{source: ., mode: "),
	CASE("mounts: [{mode: ro}]", "f.yaml:1: mounts[0]: needs the key 'source'\n"),
	CASE("mounts: [{source: ., mode: r}]",
	     "f.yaml:1: mounts[0].mode: 'r' is not known; did "),
	CASE("mounts: [{source: ., target: x}]",
	     "f.yaml:1: mounts[0].target: 'x' is not an absolute "
	     "path\n"),
	CASE("mounts: [{source: ., target: /a/../etc}]",
	     "f.yaml:1: mounts[0].target: '/a/../etc' "
	     "contains '..'"),
	CASE("mounts: [{source: ., target: /}]",
	     "f.yaml:1: mounts[0].target: '/' cannot be mounted "),
	CASE("mounts: [{source: ., target: //etc/.}]",
	     "f.yaml:1: mounts[0].target: '//etc/.' cannot"),
	CASE("mounts: ['.:/proc/1:ro']",
	     "f.yaml:1: mounts[0]: '/proc/1' cannot be mounted over"),
	CASE("mounts: ['.:/dev/shm:ro']",
	     "f.yaml:1: mounts[0]: '/dev/shm' cannot be mounted over"),
	CASE("mounts: ['.:/run/cove:ro']",
	     "f.yaml:1: mounts[0]: '/run/cove' cannot be mounted over"),
	CASE("mounts: ['.:/lib64/:ro']",
	     "f.yaml:1: mounts[0]: '/lib64/' cannot be mounted over"),
	CASE("mounts: ['.:/usr:ro']",
	     "f.yaml:1: mounts[0]: '/usr' cannot be mounted over"),
	CASE("mounts: ['.:/sys/fs:ro']",
	     "f.yaml:1: mounts[0]: '/sys/fs' cannot be mounted over"),
	CASE("mounts: ['/etc:ro']", "f.yaml:1: mounts[0]: '/etc' cannot be mounted over"),
	CASE("mounts: [/a, {source: /a/, mode: ro}]",
	     "f.yaml:1: mounts[1]: '/a/' is mounted on twice"),
	CASE("mounts: ['v:volume']", "f.yaml:1: mounts[0]: a volume needs a target"),
	CASE("mounts: ['./v:/x:volume']",
	     "f.yaml:1: mounts[0]: volume './v' is not a name"),
	CASE("mounts: [ ~ ]",
	     "f.yaml:1: mounts[0]: has no value; write {source: ., mode: overlay}"),
	CASE("mounts: [{source: \"a\\nb\"}]",
	     "f.yaml:1: mounts[0].source: 'a b' is not a path\n"),
	CASE("secrets: [{from: env}]", "f.yaml:1: secrets[0]: needs the key 'name'\n"),
	CASE("secrets: [{name: a-b}]",
	     "f.yaml:1: secrets[0].name: 'a-b' is not a variable name"),
	CASE("secrets: [{name: A, from: env}]",
	     "f.yaml:1: secrets[0]: needs hosts, towards which it may be used, or "
	     "inject"),
	CASE("secrets: [{name: A, hosts: [a.io], onViolation: ask}]",
	     "f.yaml:1: secrets[0].onViolation: 'ask' is not known"),
	CASE("secrets: [{name: A, from: vault}]",
	     "f.yaml:1: secrets[0].from: 'vault' is not known"),
	CASE("secrets: [{name: A, from: file}]",
	     "f.yaml:1: secrets[0]: from: file needs a path\n"),
	CASE("secrets: [{name: A, path: /x}]",
	     "f.yaml:1: secrets[0]: path is for from: file\n"),
	CASE("secrets: [{name: A, from: command}]",
	     "f.yaml:1: secrets[0]: from: command needs a "),
	CASE("secrets: [{name: A, command: x}]",
	     "f.yaml:1: secrets[0]: command is for from: command"),
	CASE("secrets: [{name: A, inject: argv}]",
	     "f.yaml:1: secrets[0].inject: 'argv' is not known"),
	CASE("secrets: [{name: A, hosts: ['*']}]",
	     "f.yaml:1: secrets[0].hosts[0]: '*' is every host"),
	CASE("secrets: [A, B, A]", "f.yaml:1: secrets[2]: name 'A' is given twice\n"),
	CASE("secrets: ['A@b c']", "f.yaml:1: secrets[0]: 'b c' is not a host"),
	CASE("secrets: ['A@']", "f.yaml:1: secrets[0]: '' is not a host"),
	CASE("ports: 3000",
	     "f.yaml:1: ports: expected a list, such as [{guest: 3000, host: 3000}]"),
	CASE("ports: [{host: 1}]", "f.yaml:1: ports[0]: needs the key 'guest'\n"),
	CASE("ports: [{guest: 70000}]",
	     "f.yaml:1: ports[0].guest: '70000' is not allowed; write a "
	     "port (1 to 65535) or the absolute path of a socket\n"),
	CASE("ports: [{guest: run/x}]",
	     "f.yaml:1: ports[0].guest: 'run/x' is not allowed"),
	CASE("ports: [{guest: /run/x}]",
	     "f.yaml:1: ports[0]: a guest socket needs the key 'host'"),
	CASE("ports: [1:2, 1:3]", "f.yaml:1: ports[1]: host 1 is given twice\n"),
	CASE("ports: ['x:']", "f.yaml:1: ports[0]: '' is not allowed"),
	CASE("gate: {allow: '**'}",
	     "f.yaml:1: gate.allow: expected a list, such as [a, b]\n"),
	CASE("gate: {allow: ['']}", "f.yaml:1: gate.allow[0]: '' is not a pattern"),
	CASE("gate: {maxFileMiB: 0}",
	     "f.yaml:1: gate.maxFileMiB: '0' is not allowed; write MiB"),
	CASE("gate: {maxFileMiB: 1.5}",
	     "f.yaml:1: gate.maxFileMiB: '1.5' is not a whole number"),
	CASE("gate: {maxTotalMb: 1}",
	     "f.yaml:1: gate: unknown key 'maxTotalMb'; did you mean "
	     "'maxTotalMiB'?\n"),
	CASE("services: [{command: x}]", "f.yaml:1: services[0]: needs the key 'name'\n"),
	CASE("services: [{name: a}]", "f.yaml:1: services[0]: needs the key 'command'\n"),
	CASE("services: [{name: a, command: []}]",
	     "f.yaml:1: services[0].command: is an empty"),
	CASE("services: [{name: a, command: ' '}]",
	     "f.yaml:1: services[0].command: ' ' is empty\n"),
	CASE("services: [{name: a, command: x, restart: maybe}]",
	     "f.yaml:1: services[0].restart: 'maybe' is not known; write no, on-failure "
	     "or "
	     "always"),
	CASE("services: [{name: a, command: x, ready: {}}]",
	     "f.yaml:1: services[0].ready: needs exactly one of port, path and "
	     "command\n"),
	CASE("services: [{name: a, command: x, ready: {port: x}}]",
	     "f.yaml:1: services[0].ready.port: 'x' is not allowed"),
	CASE("services: [{name: a, command: x}, {name: a, command: y}]",
	     "f.yaml:1: services[1]: name 'a' is given twice\n"),
	CASE("provision: [{a: b}]",
	     "f.yaml:1: provision[0]: is a map; write a command\n"),
	CASE("provision: make", "f.yaml:1: provision: expected a list"),
	/* the text itself */
	CASE("name: &a x", "f.yaml:1: anchors (&NAME) are not allowed\n"),
	CASE("name: x\nmounts: [&a ., *a]", "f.yaml:2: anchors"),
	CASE("exec: {env: {A: *x}}", "f.yaml:1: aliases (*NAME) are not allowed\n"),
	CASE("name: !!str x", "f.yaml:1: tags (!NAME) are not allowed\n"),
	CASE("name: a\n---\nname: b",
	     "f.yaml:2: a second document; one file holds one\n"),
	CASE("# x\n%TAG ! x\n---\nname: a",
	     "f.yaml:2: %TAG directives are not allowed\n"),
	CASE("<<: {name: x}", "f.yaml:1: unknown key '<<'"),
	CASE("name: a\n\tbackend: vm",
	     "f.yaml:2: not valid YAML or JSON: indent with spaces"),
	CASE("name: [a", "f.yaml:1: not valid YAML or JSON: "),
	CASE("{\"name\": \"\\ud83d\"}", "f.yaml:1: not valid YAML or JSON: "),
	CASE("name: a\nexec: {env: {A: \"\\x07\"}}",
	     "f.yaml:2: control character in a string\n"),
	CASE("exec: {env: {A: \"\\0\"}}", "f.yaml:1: NUL character in a string\n"),
	CASE("exec: {env: {A: \"\\L\"}}",
	     "f.yaml:1: Unicode control character in a string\n"),
	CASE("name: a\n# \x1b[31m", "f.yaml:2: control character\n"),
	CASE("name: a\n\n\xff", "f.yaml:3: invalid UTF-8\n"),
	CASE("a: \xed\xa0\x80", "f.yaml:1: invalid UTF-8\n"),
	CASE("a: \xc0\xaf", "f.yaml:1: invalid UTF-8\n"),
	CASE("a: \xf5\x80\x80\x80", "f.yaml:1: invalid UTF-8\n"),
	CASE("a: \xc2\x85", "f.yaml:1: control character\n"),
};

static void bad_texts_are_named(void)
{
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		cleanup_free char *got = run(bad[i].yaml, strlen(bad[i].yaml));
		const char *eol = strchr(got, '\n');

		OK(strncmp(got, bad[i].message, strlen(bad[i].message)) == 0, "%.*s",
		   eol ? (int)(eol - got) : 60, got);
	}
}

int main(void)
{
	good_texts_are_taken();
	bad_texts_are_named();
	return tap_done();
}
