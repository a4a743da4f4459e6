/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_audit - `cove audit NAME`: the audit log for people, as it is with --json, as it
 * grows with --follow, and checked with --verify.
 *
 * Arguments, paths and reasons come from inside: whatever is printed is escaped, except
 * with --json, where the log itself holds nothing but printable ASCII.
 */
#include "cli/json.h"

#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>

#define POLL_MS 200
#define PATHS_SHOWN 5
#define TEXT_MAX 2000 /* bytes of a line's text */

struct shown {
	bool json, removed;
};

/* A line in the making; what does not fit is left out. */
struct text {
	char data[TEXT_MAX + 1];
	size_t n;
};

static void put(struct text *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static void put(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->data + t->n, sizeof(t->data) - t->n, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->n = t->n + (size_t)n < TEXT_MAX ? t->n + (size_t)n : TEXT_MAX;
}

static long long number(const json_t *o, const char *key)
{
	return (long long)json_integer_value(json_object_get(o, key));
}

/* ---- what is worth telling of each event ----------------------------------------- */

/* An argument as it could be typed. */
static void put_argument(struct text *t, const char *arg)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_@%+=:,./-";
	bool bare = *arg && arg[strspn(arg, plain)] == '\0';

	put(t, "%s", bare ? "" : "'");
	for (; !bare && *arg; arg++) {
		if (*arg == '\'')
			put(t, "'\\''");
		else
			put(t, "%c", *arg);
	}
	put(t, "%s", bare ? arg : "'");
}

static void tell_exec(struct text *t, json_t *o)
{
	json_t *argv = json_object_get(o, "argv"), *arg;
	const char *cwd = cli_json_text(o, "cwd");
	size_t i;

	put(t, "#%lld ", number(o, "seq"));
	json_array_foreach(argv, i, arg)
	{
		put(t, "%s", i ? " " : "");
		put_argument(t, json_string_value(arg) ? json_string_value(arg) : "");
	}
	if (json_is_true(json_object_get(o, "argvCut")))
		put(t, " ...");
	put(t, "  (in %s, uid %lld%s%s)", cwd ? cwd : "?", number(o, "uid"),
	    json_is_true(json_object_get(o, "main")) ? ", main" : "",
	    json_is_true(json_object_get(o, "tty")) ? ", tty" : "");
}

static void tell_paths(struct text *t, const json_t *writes)
{
	static const struct {
		const char *key, *sign;
	} kinds[] = {
		{"created", "+"},
		{"changed", "~"},
		{"deleted", "-"},
	};
	json_t *paths = json_object_get(writes, "paths");
	long long all = 0;
	size_t shown = 0;

	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		long long n = number(writes, kinds[k].key);

		all += n;
		if (n)
			put(t, ", %lld %s", n, kinds[k].key);
	}
	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		json_t *list = json_object_get(paths, kinds[k].key), *p;
		size_t i;

		json_array_foreach(list, i, p) if (shown < PATHS_SHOWN && ++shown)
			put(t, "%s %s%s", shown == 1 ? ":" : "", kinds[k].sign,
			    json_string_value(p) ? json_string_value(p) : "");
	}
	if (shown && all > (long long)shown)
		put(t, " and %lld more", all - (long long)shown);
	if (json_is_true(json_object_get(writes, "truncated")))
		put(t, ", and what was not looked at");
}

static void tell_exec_end(struct text *t, json_t *o)
{
	const char *failed = cli_json_text(o, "failed"), *end = cli_json_text(o, "end");
	json_t *cpu = json_object_get(o, "cpuMs");

	put(t, "#%lld ", number(o, "id"));
	if (failed)
		put(t, "failed: %s", failed);
	else if (end)
		put(t, "ended: %s", end);
	else if (json_object_get(o, "signal"))
		put(t, "signal %lld", number(o, "signal"));
	else
		put(t, "exit %lld", number(o, "status"));
	if (json_object_get(o, "ms"))
		put(t, ", %.3f s", (double)number(o, "ms") / 1000);
	if (cpu)
		put(t, " (%.3f s cpu)", (double)json_integer_value(cpu) / 1000);
	tell_paths(t, json_object_get(o, "writes"));
}

static void tell_spec(struct text *t, json_t *o)
{
	json_t *keys = json_object_get(o, "keys"), *key;
	json_t *old = json_object_get(o, "old"), *new = json_object_get(o, "new");
	size_t i;

	json_array_foreach(keys, i, key)
	{
		const char *name = json_string_value(key);
		json_t *a = name ? json_object_get(old, name) : NULL;
		json_t *b = name ? json_object_get(new, name) : NULL;
		cleanup_free char *was =
			a ? json_dumps(a, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
		cleanup_free char *is =
			b ? json_dumps(b, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;

		put(t, "%s%s", i ? ", " : "", name ? name : "?");
		if (was && is)
			put(t, ": %s -> %s", was, is);
	}
}

static void tell_findings(struct text *t, json_t *o)
{
	json_t *list = json_object_get(o, "findings"), *f;
	size_t i;

	put(t, "%zu finding%s", json_array_size(list),
	    json_array_size(list) == 1 ? "" : "s");
	json_array_foreach(list, i, f)
	{
		const char *rule = cli_json_text(f, "rule"),
			   *path = cli_json_text(f, "path");

		if (i < PATHS_SHOWN)
			put(t, "%s %s %s:%lld", i ? "," : ":", rule ? rule : "?",
			    path ? path : "?", number(f, "line"));
	}
}

/* Of an event without words of its own: every plain value, and how long lists are. */
static void tell_any(struct text *t, json_t *o)
{
	static const char *const frame[] = {"seq",  "time", "event",  "prev",
					    "hash", "spec", "sandbox"};
	const char *key;
	json_t *value;
	bool first = true;

	json_object_foreach(o, key, value)
	{
		char buf[64];
		bool skip = false;

		for (size_t i = 0; i < ARRAY_LEN(frame); i++)
			skip |= strcmp(key, frame[i]) == 0;
		if (skip || json_is_null(value))
			continue;
		if (json_is_array(value) && json_array_size(value) == 0)
			continue;
		put(t, "%s%s=", first ? "" : " ", key);
		first = false;
		if (json_is_array(value))
			put(t, "%zu", json_array_size(value));
		else if (json_is_object(value))
			put(t, "{%zu}", json_object_size(value));
		else
			put(t, "%s", cli_json_scalar(value, buf, sizeof(buf)));
	}
}

static const struct {
	const char *event;
	void (*tell)(struct text *t, json_t *o);
} tellers[] = {
	{"exec",     tell_exec    },
	{"exec-end", tell_exec_end},
	{"spec",     tell_spec    },
	{"gate",     tell_findings},
};

/* ---- printing -------------------------------------------------------------------- */

static void print_record(json_t *o)
{
	const char *event = cli_json_text(o, "event"), *when = cli_json_text(o, "time");
	struct text t = {.n = 0};
	bool told = false;

	for (size_t i = 0; event && i < ARRAY_LEN(tellers); i++)
		if (strcmp(event, tellers[i].event) == 0) {
			tellers[i].tell(&t, o);
			told = true;
		}
	if (!told)
		tell_any(&t, o);
	cleanup_free char *safe = cli_escape(t.data);
	cleanup_free char *safe_event = cli_escape(event ? event : "?");
	cleanup_free char *safe_when = cli_escape(when ? when : "?");
	printf("%s  %-9s %s%s\n", safe_when ? safe_when : "?",
	       safe_event ? safe_event : "?", safe ? safe : "out of memory",
	       t.n == TEXT_MAX ? "..." : "");
}

static int print_line(void *arg, const char *line, size_t n)
{
	struct shown *s = arg;
	json_t *o = json_loadb(line, n, 0, NULL);
	const char *event = cli_json_text(o, "event");

	if (event && strcmp(event, "removed") == 0)
		s->removed = true;
	if (s->json && o) {
		fwrite(line, 1, n, stdout);
		putchar('\n');
	} else if (o) {
		print_record(o);
	} else {
		cli_note("cove audit: a line is damaged; --verify says where");
	}
	json_decref(o);
	return ferror(stdout) ? 1 : 0;
}

/* Until the sandbox is removed or the reader goes away. */
static int follow(const char *name, uint64_t next, struct shown *s)
{
	struct pollfd out = {.fd = STDOUT_FILENO};
	struct cove_error err = {0};

	while (!s->removed && !ferror(stdout)) {
		int64_t r;

		if (fflush(stdout) != 0)
			break;
		if (poll(&out, 1, POLL_MS) > 0 && (out.revents & (POLLERR | POLLHUP)))
			break;
		r = cove_audit(name, next, print_line, s, &err);
		if (r < 0)
			return cli_fail("audit", &err);
		if ((uint64_t)r > next)
			next = (uint64_t)r;
	}
	return cli_flush("audit", 0);
}

static int verify(const char *name, bool json)
{
	struct cove_error err = {0};
	uint64_t n = 0;
	int r = cove_audit_verify(name, &n, &err);
	json_t *o;

	if (r < 0 && r != COVE_EDAMAGED)
		return cli_fail("audit", &err);
	if (json) {
		o = r < 0 ? json_pack("{s:b, s:s}", "whole", 0, "problem", err.msg)
			  : json_pack("{s:b, s:I}", "whole", 1, "records", (json_int_t)n);
		json_dumpf(o, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
		putchar('\n');
		json_decref(o);
	} else if (r == 0) {
		printf("%" PRIu64 " record%s, whole\n", n, n == 1 ? "" : "s");
	}
	if (r < 0 && !json)
		cli_fail("audit", &err);
	return cli_flush("audit", r < 0 ? EXIT_FINDINGS : 0);
}

/* The first record to show: with --tail N the N-th from the end. */
static int first_wanted(const struct args *a, uint64_t *ret)
{
	const char *tail = cli_value(a, F_TAIL);
	struct cove_error err = {0};
	unsigned long long lines;
	int64_t next;
	char *end;

	*ret = 0;
	if (!tail)
		return 0;
	errno = 0;
	lines = strtoull(tail, &end, 10);
	if (errno || *tail < '0' || *tail > '9' || *end)
		return cli_usage(a->cmd, "--tail %s: not a number of records", tail);
	next = cove_audit(a->words[0], UINT64_MAX, NULL, NULL, &err);
	if (next < 0)
		return cli_fail("audit", &err);
	*ret = (uint64_t)next > lines ? (uint64_t)next - lines : 1;
	return 0;
}

static void say_if_removed(const char *name)
{
	cleanup_string char *text = NULL;
	struct cove_error err = {0};

	if (cove_inspect_json(name, &text, &err) == COVE_ENOENT)
		cli_note("cove audit: %s was removed; this is its log", name);
}

int cmd_audit(const struct args *a)
{
	struct shown s = {.json = cli_has(a, F_JSON)};
	const char *name = a->words[0];
	struct cove_error err = {0};
	uint64_t from = 0;
	int64_t next;
	int code;

	if (cli_has(a, F_VERIFY) && (cli_has(a, F_FOLLOW) || cli_has(a, F_TAIL)))
		return cli_usage(a->cmd,
				 "--verify looks at the whole log: leave --%s away",
				 cli_has(a, F_FOLLOW) ? "follow" : "tail");
	if (cli_has(a, F_VERIFY))
		return verify(name, s.json);
	code = first_wanted(a, &from);
	if (code)
		return code;
	next = cove_audit(name, from, print_line, &s, &err);
	if (next < 0)
		return cli_fail("audit", &err);
	say_if_removed(name);
	if (cli_has(a, F_FOLLOW))
		return follow(name, (uint64_t)next, &s);
	return cli_flush("audit", 0);
}
