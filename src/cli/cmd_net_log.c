/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_net_log - what a sandbox's network did, line by line.
 *
 * Names, programs and paths come from inside: whatever is printed is escaped, except with
 * --json, where the log itself holds nothing but printable ASCII.
 */
#include "cli/net.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <time.h>

#define POLL_MS 100

struct shown {
	bool json, denied, head;
	int64_t since_ms; /* wall clock; 0: all */
	/* --tail: the last lines, in a ring */
	char **ring;
	size_t room, n;
};

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- one line -------------------------------------------------------------------- */

static void put_time(const json_t *o)
{
	json_int_t ms = json_integer_value(json_object_get(o, "time_ms"));
	time_t s = (time_t)(ms / 1000);
	struct tm tm;
	char text[32] = "?";

	if (localtime_r(&s, &tm))
		strftime(text, sizeof(text), "%m-%d %H:%M:%S", &tm);
	printf("%s.%03d", text, (int)(ms % 1000));
}

/* A column; the last one before a longer text is never cut. */
static void put(const char *text, int width)
{
	cleanup_free char *safe = cli_escape(text && *text ? text : "-");
	size_t n = safe ? cli_width(safe) : 0;

	printf("  %s%*s", safe ? safe : "?", n < (size_t)width ? width - (int)n : 0, "");
}

/* What is not a connection: a change of the policy, a problem. */
static void print_policy(const json_t *o)
{
	const char *error = cli_json_text(o, "error"),
		   *change = cli_json_text(o, "change");
	cleanup_free char *safe = cli_escape(error ? error : "");
	cleanup_free char *what = cli_escape(change ? change : "policy");
	cleanup_free char *detail =
		cli_escape(cli_json_text(o, "detail") ? cli_json_text(o, "detail") : "");

	put_time(o);
	if (error)
		printf("  policy: %s: %s\n", what ? what : "?", safe ? safe : "?");
	else
		printf("  policy: %s%s%s: generation %lld, rules %lld, in force after "
		       "%.1f "
		       "ms, connections closed %lld\n",
		       what ? what : "?", detail && *detail ? " " : "",
		       detail ? detail : "",
		       (long long)json_integer_value(json_object_get(o, "generation")),
		       (long long)json_integer_value(json_object_get(o, "rules")),
		       json_number_value(json_object_get(o, "us")) / 1000,
		       (long long)json_integer_value(json_object_get(o, "closed")));
}

static void put_tail(const json_t *o)
{
	const char *reason = cli_json_text(o, "reason"),
		   *method = cli_json_text(o, "method");
	const char *path = cli_json_text(o, "path"), *secret = cli_json_text(o, "secret");
	json_int_t sent = json_integer_value(json_object_get(o, "sent"));
	json_int_t received = json_integer_value(json_object_get(o, "received"));
	char text[700] = "";
	size_t n = 0;

	if (method)
		n += (size_t)snprintf(text, sizeof(text), "%s %s ", method,
				      path ? path : "");
	if (secret && n < sizeof(text))
		n += (size_t)snprintf(text + n, sizeof(text) - n, "secret %s ", secret);
	if (reason && n < sizeof(text))
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s ", reason);
	if ((sent || received) && n < sizeof(text)) {
		char up[32], down[32];

		snprintf(text + n, sizeof(text) - n, "%s out, %s in",
			 cli_bytes((double)sent, up, sizeof(up)),
			 cli_bytes((double)received, down, sizeof(down)));
	}
	cleanup_free char *safe = cli_escape(text);
	printf("  %s\n", safe ? safe : "?");
}

static void print_event(struct shown *s, const json_t *o)
{
	const char *verdict = cli_json_text(o, "verdict"),
		   *kind = cli_json_text(o, "kind");
	const char *exec = cli_json_text(o, "exec");
	char host[340], number[32];

	if (kind && strcmp(kind, "policy") == 0) {
		print_policy(o);
		return;
	}
	if (!s->head)
		printf("%-18s  %-5s  %-12s  %-7s  %-36s  %-20s  %s\n", "TIME", "EXEC",
		       "PROGRAM", "VERDICT", "HOST:PORT", "RULE", "REASON, BYTES");
	s->head = true;
	net_host_port(o, host, sizeof(host));
	if (!exec)
		exec = cli_json_scalar(json_object_get(o, "exec"), number,
				       sizeof(number));
	put_time(o);
	put(exec, 5);
	put(cli_json_text(o, "program"), 12);
	put(kind && strcmp(kind, "secret") == 0 && !verdict ? "secret" : verdict, 7);
	put(host, 36);
	put(cli_json_text(o, "rule"), 20);
	put_tail(o);
}

/* ---- which lines ------------------------------------------------------------------ */

static bool wanted(const struct shown *s, const json_t *o)
{
	const char *verdict = cli_json_text(o, "verdict");

	if (s->denied && (!verdict || strcmp(verdict, "deny") != 0))
		return false;
	return json_integer_value(json_object_get(o, "time_ms")) >= s->since_ms;
}

static void print_line(struct shown *s, const char *line)
{
	json_t *o = json_loads(line, 0, NULL);

	if (s->json)
		puts(line);
	else if (o)
		print_event(s, o);
	json_decref(o);
}

static void keep(struct shown *s, char *line)
{
	size_t at = s->n++ % s->room;

	free(s->ring[at]);
	s->ring[at] = line;
}

static int take_line(void *arg, const char *line, size_t n)
{
	struct shown *s = arg;
	json_t *o = json_loadb(line, n, 0, NULL);
	char *copy = o && wanted(s, o) ? strndup(line, n) : NULL;

	json_decref(o);
	if (copy && s->ring) {
		keep(s, copy);
	} else if (copy) {
		print_line(s, copy);
		free(copy);
	}
	return ferror(stdout) ? 1 : 0;
}

static void print_ring(struct shown *s)
{
	size_t first = s->n > s->room ? s->n - s->room : 0;

	for (size_t i = first; i < s->n; i++)
		print_line(s, s->ring[i % s->room]);
	for (size_t i = 0; i < s->room; i++)
		free(s->ring[i]);
	free(s->ring);
	s->ring = NULL;
}

static int parse_flags(const struct args *a, struct shown *s)
{
	const char *tail = cli_value(a, F_TAIL), *since = cli_value(a, F_SINCE);
	int64_t ms;
	char *end;

	if (since && cli_duration(since, &ms) < 0)
		return cli_usage(a->cmd, "--since %s: not a time, such as 1h", since);
	if (since)
		s->since_ms = now_ms() - ms;
	if (!tail)
		return 0;
	errno = 0;
	s->room = strtoul(tail, &end, 10);
	if (errno || *tail < '0' || *tail > '9' || *end || s->room > 1000000)
		return cli_usage(a->cmd, "--tail %s: not a number of lines", tail);
	s->room = s->room ? s->room : 1;
	s->ring = calloc(s->room, sizeof(*s->ring));
	return s->ring ? 0 : cli_failf("net", NULL, "out of memory");
}

static int follow(const char *name, uint64_t *cursor, struct shown *s)
{
	struct pollfd out = {.fd = STDOUT_FILENO};
	struct cove_error err = {0};

	while (!ferror(stdout) && fflush(stdout) == 0) {
		if (poll(&out, 1, POLL_MS) > 0 && (out.revents & (POLLERR | POLLHUP)))
			break;
		if (cove_net_log(name, cursor, take_line, s, &err) < 0)
			return err.code == COVE_ENOENT ? 0 : cli_fail("net", &err);
	}
	return 0;
}

int net_log(const struct args *a)
{
	struct shown s = {.json = cli_has(a, F_JSON), .denied = cli_has(a, F_DENIED)};
	struct cove_error err = {0};
	uint64_t cursor = 0;
	int code = parse_flags(a, &s);

	if (code)
		return code;
	if (cove_net_log(a->words[1], &cursor, take_line, &s, &err) < 0)
		code = cli_fail("net", &err);
	if (s.ring)
		print_ring(&s);
	if (code == 0 && cli_has(a, F_FOLLOW))
		code = follow(a->words[1], &cursor, &s);
	return cli_flush("net", code);
}
