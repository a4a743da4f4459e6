/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on whole specs: defaults, copy, merge, round trip; limits of the reader;
 * units. */
#include "tap.h"

#include "base/util.h"
#include "spec/spec.h"

static struct cove_error err;

static void parse(struct spec *s, const char *text)
{
	spec_init(s);
	if (spec_parse(s, text, strlen(text), "f", NULL, &err) < 0)
		printf("# %s\n", err.msg);
}

static char *json_text(const struct spec *s, bool explicit_only)
{
	json_t *j = spec_json(s, explicit_only);
	char *text = json_dumps(j, JSON_COMPACT);

	json_decref(j);
	return text;
}

static const char full[] =
	"name: n\nbackend: {vm: {engine: qemu}}\nimage: oci:debian:12\n"
	"network: {mode: allowlist, allowedHosts: [a.io], allowedPorts: [443, 1-2], "
	"rules: [{host: b.io, port: 80}]}\nstorage: persistent\n"
	"resources: {memoryMiB: 300, cpus: 0.1, diskGiB: 1.5, ttlSeconds: 5, "
	"idleSeconds: 6, "
	"swap: 7, pids: 8}\nexec: {user: root, workDir: /w, env: {A: b}, timeoutSeconds: "
	"9}\n"
	"mounts: [., '/a:/b:ro']\nsecrets: [S@a.io]\nports: [1:2]\ngate: {deny: [x]}\n"
	"services: [{name: s, command: c}]\nprovision: [p]\n";

static void defaults_are_as_documented(void)
{
	struct spec s;
	cleanup_free char *json = NULL;

	spec_init(&s);
	json = json_text(&s, false);
	OK(strcmp(json,
		  "{\"backend\":\"auto\",\"image\":{\"source\":\"host\"},\"network\":{"
		  "\"mode\":"
		  "\"none\",\"allowedHosts\":[],\"allowedPorts\":[],\"rules\":[],"
		  "\"addresses\":[],\"trust\":[]},"
		  "\"storage\":{"
		  "\"type\":\"ephemeral\"},\"resources\":{\"memoryMiB\":2048,\"cpus\":2,"
		  "\"diskGiB\":20,\"ttlSeconds\":0,\"idleSeconds\":0,\"swap\":0,\"pids\":"
		  "512},"
		  "\"exec\":{\"user\":\"agent\",\"workDir\":\".\",\"env\":{},"
		  "\"timeoutSeconds\":0},\"mounts\":[],\"mask\":[],\"secrets\":[],"
		  "\"ports\":[],"
		  "\"gate\":{"
		  "\"allow\":[\"**\"],\"deny\":[],\"maxFileMiB\":10,\"maxTotalMiB\":100},"
		  "\"services\":[],\"provision\":[]}") == 0,
	   "%s", json);
	OK(s.resources.set == 0, "nothing was asked for");
	spec_clear(&s);
	OK(s.resources.pids == 512, "a cleared spec is one of defaults again");
}

static void copies_and_round_trips_are_equal(void)
{
	struct spec a, b, c;
	cleanup_free char *ja = NULL, *jb = NULL, *jc = NULL;

	parse(&a, full);
	OK(a.resources.set == 0x7f, "all limits were asked for");
	OK(spec_copy(&b, &a, &err) == 0, "copy");
	ja = json_text(&a, true);
	jb = json_text(&b, true);
	OK(strcmp(ja, jb) == 0 && b.resources.set == a.resources.set,
	   "the copy is equal");
	parse(&c, ja);
	jc = json_text(&c, true);
	OK(strcmp(ja, jc) == 0, "parse, print, parse is equal: %s", jc);
	spec_clear(&a);
	OK(b.n_mounts == 2 && strcmp(b.mounts[1].target, "/b") == 0,
	   "the copy stands alone");
	spec_clear(&b);
	spec_clear(&c);
}

static void explicit_limits_survive_the_round_trip(void)
{
	struct spec a, b;
	cleanup_free char *json = NULL;

	parse(&a, "resources: {memoryMiB: 2048, pids: 0}");
	OK(a.resources.set == (LIMIT_MEMORY | LIMIT_PIDS),
	   "a default and a zero count as set");
	json = json_text(&a, true);
	parse(&b, json);
	OK(b.resources.set == a.resources.set && b.resources.pids == 0 &&
		   b.resources.memory_bytes == 2048ull << 20,
	   "set is kept: %s", json);
	spec_clear(&a);
	spec_clear(&b);
}

static void merge_takes_what_was_named(void)
{
	struct spec a, b;

	parse(&a, "network: {mode: open}\nexec: {user: root, env: {A: 1, B: 2}}\nmounts: "
		  "[/a]\n"
		  "resources: {memoryMiB: 100}\ngate: {deny: [x]}\nstorage: persistent");
	parse(&b, "network: {mode: none}\nexec: {env: {B: 3}}\nmounts: [/b, /c]\n"
		  "resources: {cpus: 1}\ngate: {maxFileMiB: 1}");
	OK(spec_merge(&a, &b, &err) == 0, "merge");
	OK(a.network.mode == NET_NONE, "a default that was named wins");
	OK(strcmp(a.exec.user, "root") == 0 && a.storage == STORAGE_PERSISTENT,
	   "what was not named stays");
	OK(a.exec.env.n == 2 && strcmp(a.exec.env.v[1], "B=3") == 0,
	   "env merges by name");
	OK(a.n_mounts == 2 && strcmp(a.mounts[0].source, "/b") == 0,
	   "lists are replaced");
	OK(a.resources.memory_bytes == 100 << 20 && a.resources.cpus_milli == 1000 &&
		   a.resources.set == (LIMIT_MEMORY | LIMIT_CPUS),
	   "limits by set");
	OK(json_integer_value(json_object_get(a.gate, "maxFileMiB")) == 1 &&
		   json_array_size(json_object_get(a.gate, "deny")) == 1,
	   "the gate merges by key");
	spec_clear(&a);
	spec_clear(&b);
}

static void parse_goes_over_what_is_there(void)
{
	const char *text = "exec: {env: {B: 2}}\nmounts: [/b]",
		   *bad = "mounts: [/c]\nnam: x";
	struct buf problems = BUF_INIT(1000);
	struct spec s;

	parse(&s, "name: keep\nexec: {env: {A: 1}}\nmounts: [/a]");
	OK(spec_parse(&s, text, strlen(text), "g", NULL, &err) == 0, "second file");
	OK(strcmp(s.name, "keep") == 0 && s.exec.env.n == 2 && s.n_mounts == 1 &&
		   strcmp(s.mounts[0].source, "/b") == 0,
	   "keys replace, env grows");
	OK(spec_parse(&s, bad, strlen(bad), "g", &problems, &err) == COVE_EINVAL,
	   "a bad file is refused");
	OK(strcmp(s.mounts[0].source, "/b") == 0, "and leaves the spec untouched");
	OK(strcmp(problems.data, "g:2: unknown key 'nam'; did you mean 'name'?\n") == 0 &&
		   strncmp(err.msg, "g:2: unknown key", 16) == 0 &&
		   !strstr(err.msg, "more"),
	   "%s", err.msg);
	buf_clear(&problems);
	spec_clear(&s);
}

static void all_problems_come_at_once_in_order(void)
{
	const char *text =
		"x1: 1\nnetwork:\n  mode: bad\n  mode: bad\nresources: {pids: 1}\n";
	struct buf problems = BUF_INIT(4000);
	unsigned last = 0, line, n = 0;
	struct spec s;

	spec_init(&s);
	spec_parse(&s, text, strlen(text), "f", &problems, &err);
	for (char *p = problems.data; p && *p; p = strchr(p, '\n') + 1, n++) {
		OK(sscanf(p, "f:%u:", &line) == 1 && line >= last, "line %u", line);
		last = line;
	}
	OK(n == 5 && strstr(err.msg, "(and 4 more)"), "five problems: %s", err.msg);
	buf_clear(&problems);
	spec_clear(&s);
}

/* ---- limits of the reader ---------------------------------------------------------- */

/* What the reader says about head + n times unit + tail. */
static const char *many(const char *head, const char *unit, size_t n, const char *tail)
{
	struct buf text = BUF_INIT(32 << 20);
	struct spec s;

	spec_init(&s);
	buf_puts(&text, head);
	for (size_t i = 0; i < n; i++)
		buf_puts(&text, unit);
	buf_puts(&text, tail);
	err.msg[0] = '\0';
	spec_parse(&s, text.data, text.len, "f", NULL, &err);
	buf_clear(&text);
	spec_clear(&s);
	return err.msg;
}

static void the_reader_is_bounded(void)
{
	struct buf wide = BUF_INIT(1 << 20);

	OK(strstr(many("a: ", "[", 40, ""), "nested deeper than 32 levels"), "%s",
	   err.msg);
	OK(strstr(many("", "- ", 100, "x"), "nested deeper than 32 levels"), "%s",
	   err.msg);
	OK(strstr(many("a: ", "{a: ", 31, "1"), "not valid YAML"), "31 levels: %s",
	   err.msg);
	OK(strstr(many("mounts: [", "/a, ", 257, "]"), "more than 256 elements"), "%s",
	   err.msg);
	OK(strstr(many("name: ", "a", 4097, ""), "text of 4097 bytes; at most 4096"),
	   "%s", err.msg);
	OK(strstr(many("", "a", 300, ": x"), "text of 300 bytes; at most 255"), "%s",
	   err.msg);
	OK(strstr(many("", "# x\n", 1 << 22, " "), "a file may have 16777216"), "%s",
	   err.msg);
	OK(many("", "# x\n", (1 << 22) - 1, "")[0] == '\0',
	   "comments up to 16 MiB are read");
	OK(strstr(many("", "? a\n", 1100, ""), "key 'a' is given twice"), "%s", err.msg);
	for (int i = 0; i < 1100; i++)
		buf_printf(&wide, "k%d: 1\n", i);
	OK(strstr(many(wide.data, "", 0, ""), "more than 1024 keys"), "%s", err.msg);
	buf_clear(&wide);
	buf_puts(&wide, "provision: [[");
	for (int j = 0; j <= SPEC_LIST_MAX; j++)
		buf_puts(&wide, "x,");
	OK(strstr(many(wide.data, "", 0, "]]"), "more than 256 words"), "%s", err.msg);
	OK(strstr(many("k: [", "1,", 65537, "]"), "more than 65536 elements"), "%s",
	   err.msg);
	OK(strstr(many("k: [",
		       "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
		       "1,1],",
		       32300, "]"),
		  "more than 1000000 values"),
	   "%s", err.msg);
	buf_clear(&wide);
}

/* Ten thousand rules and hosts are read, and an id that comes twice is found. */
static void rules_may_be_many(void)
{
	struct buf text = BUF_INIT(4 << 20);
	struct spec s;
	int r;

	buf_puts(&text, "network:\n  allowedHosts: [");
	for (int i = 0; i < 10000; i++)
		buf_printf(&text, "h%d.io,", i % 9000);
	buf_puts(&text, "]\n  rules:\n");
	for (int i = 0; i < 10000; i++)
		buf_printf(&text, "  - {id: r%d, host: h%d.io}\n", i, i);
	spec_init(&s);
	r = spec_parse(&s, text.data, text.len, "f", NULL, &err);
	OK(r == 0 && json_array_size(s.network.rules) == 10000 &&
		   s.network.allowed_hosts.n == 9000,
	   "ten thousand rules");
	spec_clear(&s);
	buf_puts(&text, "  - {id: r77, host: h.io}\n");
	spec_init(&s);
	r = spec_parse(&s, text.data, text.len, "f", NULL, &err);
	OK(r == COVE_EINVAL && strstr(err.msg, "rules[10000]: id 'r77' is given twice"),
	   "%s", err.msg);
	spec_clear(&s);
	buf_clear(&text);
}

/* ---- units ------------------------------------------------------------------------- */

static void sizes_and_durations(void)
{
	static const struct {
		const char *text;
		uint64_t unit;
		int64_t want; /* negative: -errno */
	} sizes[] =
		{
			{"1024",                  1,       1024     },
			{"2",                     1 << 20, 2 << 20  },
			{"2GiB",                  1,       2ll << 30},
			{"512M",                  1,       512 << 20},
			{"1.5g",                  1,       3ll << 29},
			{"1kb",                   1,       1000     },
			{"1KB",                   7,       1000     },
			{"2 MB",                  1,       2000000  },
			{"1t",                    1,       1ll << 40},
			{"7B",                    1000,    7        },
			{"0",                     1,       0        },
			{"0.0",                   1,       0        },
			{"",                      1,       -EINVAL  },
			{"x",                     1,       -EINVAL  },
			{"1x",                    1,       -EINVAL  },
			{"-1",                    1,       -EINVAL  },
			{"+1",                    1,       -EINVAL  },
			{" 1",                    1,       -EINVAL  },
			{"1.",                    1,       -EINVAL  },
			{".5",                    1,       -EINVAL  },
			{"1 ",                    1,       -EINVAL  },
			{"1GiBx",                 1,       -EINVAL  },
			{"1e3",                   1,       -EINVAL  },
			{"0.1",                   1,       -ERANGE  },
			{"99999999999999999999",  1,       -ERANGE  },
			{"18446744073709551615T", 1,       -ERANGE  },
        },
	  times[] = {
		  {"90", 1000, 90000},
		  {"90s", 1, 90000},
		  {"5m", 1, 300000},
		  {"2h", 1, 7200000},
		  {"1d", 1, 86400000},
		  {"250ms", 1, 250},
		  {"1.5s", 1, 1500},
		  {"1h30m", 1, 5400000},
		  {"1h 30m", 1, -EINVAL},
		  {"1h30", 1, -EINVAL},
		  {"5 m", 1, 300000},
		  {"5 ", 1, -EINVAL},
		  {"s", 1, -EINVAL},
		  {"", 1, -EINVAL},
		  {"1y", 1, -EINVAL},
		  {"-5s", 1, -EINVAL},
		  {"99999999999999999999d", 1, -ERANGE},
		  {"18446744073709551615ms1ms", 1, -ERANGE},
	  };

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		uint64_t v = 42;
		int r = spec_parse_size(sizes[i].text, sizes[i].unit, &v);

		OK(sizes[i].want < 0 ? r == sizes[i].want && v == 42
				     : r == 0 && v == (uint64_t)sizes[i].want,
		   "size '%s'", sizes[i].text);
	}
	for (size_t i = 0; i < ARRAY_LEN(times); i++) {
		uint64_t v = 42;
		int r = spec_parse_duration(times[i].text, times[i].unit, &v);

		OK(times[i].want < 0 ? r == times[i].want && v == 42
				     : r == 0 && v == (uint64_t)times[i].want,
		   "duration '%s'", times[i].text);
	}
}

static void names(void)
{
	char long_name[SPEC_NAME_MAX + 2];

	memset(long_name, 'a', sizeof(long_name));
	long_name[SPEC_NAME_MAX + 1] = '\0';
	OK(!spec_name_ok(long_name), "64 bytes are too many");
	long_name[SPEC_NAME_MAX] = '\0';
	OK(spec_name_ok(long_name), "63 are not");
	OK(spec_name_ok("a") && spec_name_ok("0_.-"), "short and odd");
	OK(!spec_name_ok("") && !spec_name_ok(".a") && !spec_name_ok("-a") &&
		   !spec_name_ok("A") && !spec_name_ok("a/b") && !spec_name_ok(".."),
	   "nothing that could be a path or a flag");
	OK(spec_target_problem("/work/x") == NULL && spec_target_problem("/etc/../x") &&
		   spec_target_problem("x"),
	   "places to mount on");
}

int main(void)
{
	defaults_are_as_documented();
	copies_and_round_trips_are_equal();
	explicit_limits_survive_the_round_trip();
	merge_takes_what_was_named();
	parse_goes_over_what_is_there();
	all_problems_come_at_once_in_order();
	the_reader_is_bounded();
	rules_may_be_many();
	sizes_and_durations();
	names();
	return tap_done();
}
