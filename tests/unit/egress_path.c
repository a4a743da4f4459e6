/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data path from a program's connect() to a server's bytes: real namespaces, real
 * capture, real policy. Servers are threads in the host's namespace.
 */
#include "egress_servers.h"
#include "tap.h"

#include <sys/resource.h>

static struct rig rig;

static const char hosts[] =
	"127.0.0.1 echo.test greet.test tls.test in.test v6.test\n"
	"127.0.0.1 local.test scoped.test fast.test\n" PUBLIC " asked.test\n"
	"127.0.0.9 two.test\n127.0.0.1 two.test\n"
	"127.0.0.7 slow.test\n127.0.0.1 slow.test\n"
	"127.0.0.7 dead.test\n"
	"169.254.169.254 meta.test\n";

/* clang-format off */
#define NEAR "\"addresses\": [\"loopback\"]"
#define RULE(host) "{\"host\": \"" host "\", " NEAR "}"
static const char policy[] =
	"{\"mode\": \"allowlist\", \"rules\": ["
	RULE("echo.test") "," RULE("greet.test") "," RULE("two.test") "," RULE("slow.test") ","
	RULE("dead.test") "," RULE("v6.test") "," RULE("fast.test") ","
	"{\"host\": \"" RAW "\"},"
	"{\"host\": \"host.cove.internal\", \"port\": 7001},"
	"{\"host\": \"local.test\"},"
	"{\"host\": \"meta.test\"},"
	"{\"host\": \"in.test\", \"methods\": [\"GET\"], " NEAR "},"
	"{\"host\": \"tls.test\", \"protocol\": \"tls\", " NEAR "}]}";
/* clang-format on */

/* ---- programs inside ------------------------------------------------------------ */

/* Everything until the end; -errno if it does not end in order. */
static ssize_t read_end(int s, char *buf, size_t size)
{
	size_t have = 0;

	while (have < size - 1) {
		ssize_t n = recv(s, buf + have, size - 1 - have, 0);

		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		have += (size_t)n;
	}
	buf[have] = '\0';
	return (ssize_t)have;
}

static ssize_t read_some(int s, char *buf, size_t size)
{
	ssize_t n = recv(s, buf, size - 1, 0);

	if (n >= 0)
		buf[n] = '\0';
	return n < 0 ? -errno : n;
}

/* Until this text has come. */
static bool read_until(int s, char *buf, size_t size, const char *text)
{
	size_t have = 0;
	ssize_t n;

	while ((n = recv(s, buf + have, size - 1 - have, 0)) > 0) {
		have += (size_t)n;
		buf[have] = '\0';
		if (strstr(buf, text))
			return true;
	}
	return false;
}

/* Connects, says something, returns what came until the end; took: how long. */
static ssize_t say(const char *host, uint16_t port, const void *p, size_t n, char *buf,
		   size_t size, int64_t *took)
{
	int64_t from = now_ms();
	cleanup_fd int s = rig_connect_saying(&rig, host, port, n ? p : NULL, n);
	ssize_t r;

	if (s < 0)
		return -errno;
	r = read_end(s, buf, size);
	if (took)
		*took = now_ms() - from;
	return r;
}

static bool with_echo(const char *host)
{
	cleanup_fd int s = rig_connect(&rig, host, ECHO);
	char c;

	return s >= 0 && send_all(s, "\x01", 1) && recv(s, &c, 1, 0) == 1;
}

static void allowed_passes(void)
{
	char buf[256];
	cleanup_fd int s = rig_connect(&rig, "echo.test", ECHO);
	cleanup_fd int t = -1;
	struct rig_name q = {.name = "v6.test", .v6 = true};

	OK(s >= 0 && send_all(s, "\x01 one", 5) && read_some(s, buf, sizeof(buf)) == 5 &&
		   memcmp(buf, "\x01 one", 5) == 0,
	   "bytes come back");
	OK(send_all(s, "two", 3) && shutdown(s, SHUT_WR) == 0 &&
		   read_end(s, buf, sizeof(buf)) == 3,
	   "half a close, and what the server says after it");
	OK(rig_logs(&rig, "\"sent\":8,\"received\":8"), "bytes are in the log");
	rig_do(&rig, rig_get_name, &q);
	t = rig.six ? rig_connect_addr(&q.addr, ECHO) : -1;
	OK(!rig.six || (t >= 0 && send_all(t, "\x02", 1) &&
			read_some(t, buf, sizeof(buf)) == 1),
	   "through the IPv6 address too");
}

static void server_first(void)
{
	char buf[256];
	cleanup_fd int s = rig_connect(&rig, "greet.test", GREET);

	OK(s >= 0 && read_some(s, buf, sizeof(buf)) == 11, "the server may speak first");
	OK(send_all(s, "EHLO x.test\r\n", 13) && read_some(s, buf, sizeof(buf)) == 13,
	   "and is answered");
	OK(send_all(s, "GET / HTTP/1.1\r\n", 16) && read_some(s, buf, sizeof(buf)) == 16,
	   "what looks like HTTP later is not");
}

static void refusals(void)
{
	static const char get[] = "GET /x HTTP/1.1\r\nHost: no.test\r\n\r\n";
	static const char hello[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
	char buf[2048];
	int64_t took;

	OK(say("no.test", 80, get, strlen(get), buf, sizeof(buf), &took) > 0 &&
		   strncmp(buf, "HTTP/1.1 403 ", 13) == 0 &&
		   strstr(buf, "{\"error\":\"denied by cove\"") &&
		   strstr(buf, "\"host\":\"no.test\",\"port\":80") && took < PROMPT_MS,
	   "HTTP: 403 and the reason");
	OK(say("no.test", 80, "HEAD / HTTP/1.1\r\n\r\n", 19, buf, sizeof(buf), NULL) >
			   0 &&
		   strncmp(buf, "HTTP/1.1 403 ", 13) == 0 && !strchr(buf, '{'),
	   "HEAD: no body");
	OK(say("no.test", 443, hello, sizeof(hello) - 1, buf, sizeof(buf), &took) == 7 &&
		   memcmp(buf, "\x15\x03\x03\0\x02\x02\x31", 7) == 0 && took < PROMPT_MS,
	   "TLS: alert access_denied");
	OK(say("no.test", 22, "SSH-2.0-x\r\n", 11, buf, sizeof(buf), &took) ==
			   -ECONNRESET &&
		   took < PROMPT_MS,
	   "others: a reset at once");
	rig_limit(&rig, &rig.e.limits.refuse_ms, 300);
	OK(say("no.test", 80, "POST / HTTP/1.1\r\nX: ", 20, buf, sizeof(buf), &took) >
			   0 &&
		   strncmp(buf, "HTTP/1.1 403 ", 13) == 0 && took < PROMPT_MS,
	   "half a head is answered too");
	OK(say("no.test", 22, "", 0, buf, sizeof(buf), &took) == -ECONNRESET &&
		   took < PROMPT_MS,
	   "silence: a reset");
	rig_limit(&rig, &rig.e.limits.refuse_ms, PATIENT_MS);
	OK(rig_logged(&rig, "\"host\":\"no.test\",\"port\":443,\"verdict\":\"deny\""),
	   "and a line in the log");
}

static void addresses(void)
{
	static const char get[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
	char buf[2048];
	cleanup_fd int s = -1;

	OK(say("local.test", ECHO, get, strlen(get), buf, sizeof(buf), NULL) > 0 &&
		   strstr(buf, "loopback"),
	   "a name may not resolve to the host's loopback");
	OK(say("meta.test", 80, get, strlen(get), buf, sizeof(buf), NULL) > 0 &&
		   strstr(buf, "metadata"),
	   "nor to a cloud's metadata");
	OK(say("203.0.113.6", SINK, get, strlen(get), buf, sizeof(buf), NULL) > 0 &&
		   strncmp(buf, "HTTP/1.1 403 ", 13) == 0,
	   "an address that nobody named");
	s = rig_connect(&rig, RAW, SINK);
	OK(s >= 0 && send_all(s, "\x01yz", 3) && shutdown(s, SHUT_WR) == 0 &&
		   read_end(s, buf, sizeof(buf)) == 1 && buf[0] == '3',
	   "an address that a rule names");
	OK(say("198.18.200.200", 80, get, strlen(get), buf, sizeof(buf), NULL) > 0 &&
		   strstr(buf, "look it up again"),
	   "a synthetic address without a name");
	OK(say("127.255.255.254", 1, get, strlen(get), buf, sizeof(buf), NULL) ==
		   -ECONNRESET,
	   "the listener itself");
}

static void next_address(void)
{
	char buf[64];
	int64_t took, from = now_ms();
	cleanup_fd int s = rig_connect(&rig, "two.test", GREET);

	OK(s >= 0 && read_some(s, buf, sizeof(buf)) == 11 && now_ms() - from < PROMPT_MS,
	   "the second address is tried when the first refuses");
	OK(say("echo.test", NOBODY, "\x01", 1, buf, sizeof(buf), &took) == -ECONNRESET &&
		   took < PROMPT_MS,
	   "a server that is not there: a reset");
	OK(rig_logged(&rig, "\"reason\":\"Connection refused\""), "with the reason");
	OK(say("echo.test", SNAP, "\x01", 1, buf, sizeof(buf), NULL) == -ECONNRESET,
	   "a reset by the server is a reset inside");
}

static void no_answer(void)
{
	char buf[64];
	int64_t took, from = now_ms();
	cleanup_fd int s = rig_connect(&rig, "slow.test", GREET);

	OK(s >= 0 && read_some(s, buf, sizeof(buf)) == 11 && now_ms() - from < PROMPT_MS,
	   "the second address is tried when the first does not answer");
	rig_limit(&rig, &rig.e.limits.dial_ms, 1000);
	OK(say("dead.test", GREET, "", 0, buf, sizeof(buf), &took) == -ECONNRESET &&
		   took < PROMPT_MS,
	   "nobody answers: a reset in the end");
	rig_limit(&rig, &rig.e.limits.dial_ms, PATIENT_MS);
	OK(with_echo(HOST_INTERNAL), "the host itself, on the port that a rule names");
	OK(say(HOST_INTERNAL, GREET, "\x01", 1, buf, sizeof(buf), NULL) == -ECONNRESET,
	   "and on no other");
}

static void requests(void)
{
	static const char good[] = "GET /a HTTP/1.1\r\nHost: echo.test:7006\r\n\r\n";
	static const char bad[] = "GET /b HTTP/1.1\r\nHost: tls.test:7006\r\n\r\n";
	char buf[2048];
	cleanup_fd int s = rig_connect(&rig, "echo.test", WEB);

	OK(send_all(s, good, strlen(good)) &&
		   read_until(s, buf, sizeof(buf), "GET /a HTTP/1.1") &&
		   strstr(buf, "200 OK"),
	   "a request to the host that was connected to");
	OK(send_all(s, bad, strlen(bad)) && read_until(s, buf, sizeof(buf), "}") &&
		   strstr(buf, " 403 ") && !strstr(buf, "200 OK"),
	   "a second one to another host on the same connection is refused");
}

/* ---- TLS ------------------------------------------------------------------------ */

static size_t client_hello(uint8_t *out, const char *name)
{
	uint8_t *p = out;
	size_t n = name ? strlen(name) : 0, ext = name ? n + 9 : 0, body = 41 + 2 + ext;

#define PUT2(v) (*p++ = (uint8_t)((v) >> 8), *p++ = (uint8_t)(v))
	*p++ = 22;
	PUT2(0x0301);
	PUT2(body + 4);
	*p++ = 1;
	*p++ = 0;
	PUT2(body);
	PUT2(0x0303);
	p = (uint8_t *)memset(p, 7, 32) + 32;
	*p++ = 0;
	PUT2(2);
	PUT2(0x1301);
	*p++ = 1;
	*p++ = 0;
	PUT2(ext);
	if (name) {
		PUT2(0);
		PUT2(n + 5);
		PUT2(n + 3);
		*p++ = 0;
		PUT2(n);
		p = (uint8_t *)memcpy(p, name, n) + n;
	}
#undef PUT2
	return (size_t)(p - out);
}

/* Does the echo server see the hello? 0: it was refused with an alert. */
static bool hello_passes(const char *host, const char *name)
{
	uint8_t hello[512];
	char buf[512];
	size_t n = client_hello(hello, name);
	cleanup_fd int s = rig_connect(&rig, host, ECHO);

	return s >= 0 && send_all(s, hello, n) &&
	       read_some(s, buf, sizeof(buf)) == (ssize_t)n;
}

static void server_names(void)
{
	uint8_t hello[512];
	size_t n = client_hello(hello, "tls.test");
	char buf[512];
	int64_t took;
	cleanup_fd int s = rig_connect(&rig, "tls.test", ECHO);

	OK(hello_passes("tls.test", "tls.test"), "TLS with the right name");
	OK(hello_passes("echo.test", "ECHO.test"), "in any case, with a rule for all");
	OK(!hello_passes("tls.test", "echo.test"), "another name is refused");
	OK(!hello_passes("tls.test", NULL), "no name is refused");
	OK(send_all(s, hello, 9) && usleep(50000) == 0 && send_all(s, hello + 9, n - 9) &&
		   read_some(s, buf, sizeof(buf)) == (ssize_t)n,
	   "in pieces");
	OK(say("tls.test", ECHO, "\x01\x02", 2, buf, sizeof(buf), NULL) == -ECONNRESET,
	   "a rule for TLS lets nothing else through");
	OK(say("in.test", ECHO, "\x01\x02", 2, buf, sizeof(buf), NULL) == -ECONNRESET,
	   "nor does one with methods");
	rig_limit(&rig, &rig.e.limits.first_bytes_ms, 300);
	rig_limit(&rig, &rig.e.limits.refuse_ms, 300);
	OK(say("tls.test", ECHO, hello, 20, buf, sizeof(buf), &took) == 7 &&
		   took < PROMPT_MS,
	   "half a hello ends");
	OK(say("in.test", ECHO, "", 0, buf, sizeof(buf), &took) == -ECONNRESET &&
		   took < PROMPT_MS,
	   "and silence there ends");
	rig_limit(&rig, &rig.e.limits.first_bytes_ms, PATIENT_MS);
	rig_limit(&rig, &rig.e.limits.refuse_ms, PATIENT_MS);
}

/* ---- much ----------------------------------------------------------------------- */

static void bulk(void)
{
	static char buf[1 << 20];
	cleanup_fd int s = rig_connect(&rig, "echo.test", FLOOD);
	cleanup_fd int t = -1;
	uint32_t at = 0;
	size_t have = 0, total = 0, wrong = 0;
	ssize_t n;
	char text[64];

	usleep(200000); /* every buffer on the way is full by now */
	while ((n = recv(s, buf + have, sizeof(buf) - have, 0)) > 0) {
		size_t words;

		total += (size_t)n;
		have += (size_t)n;
		words = have / 4;
		for (size_t i = 0; i < words; i++, at++) {
			uint32_t w;

			memcpy(&w, buf + 4 * i, 4);
			wrong += w != at * 2654435761u;
		}
		memmove(buf, buf + 4 * words, have - 4 * words);
		have -= 4 * words;
	}
	OK(n == 0 && total == BULK && wrong == 0, "much comes in, in order and whole");
	t = rig_connect(&rig, RAW, SINK); /* now: who says nothing for long is dropped */
	for (total = 0; total < BULK; total += sizeof(buf))
		if (!send_all(t, buf, sizeof(buf)))
			break;
	snprintf(text, sizeof(text), "%u", BULK);
	OK(shutdown(t, SHUT_WR) == 0 && read_end(t, buf, sizeof(buf)) > 0 &&
		   strcmp(buf, text) == 0,
	   "much goes out");
}

static void get_counters(struct rig *r, void *arg)
{
	struct egress *copy = arg;

	*copy = r->e;
}

static void limits(void)
{
	static int fd[300];
	static struct egress now;
	unsigned open = 0, reset = 0;
	char c;

	OK(rig_idle(&rig), "all that ended is gone");
	rig_do(&rig, get_counters, &now);
	OK(now.n_undecided == 0, "and nothing is undecided");
	rig.e.limits.conns = 100;
	for (size_t i = 0; i < ARRAY_LEN(fd); i++)
		fd[i] = rig_connect(&rig, "fast.test", ECHO);
	for (size_t i = 0; i < ARRAY_LEN(fd); i++) {
		bool ok = fd[i] >= 0 && send_all(fd[i], "\x01", 1) &&
			  recv(fd[i], &c, 1, 0) == 1;

		open += ok;
		reset += !ok;
	}
	OK(open == 100 && reset == 200, "as many as there may be, the rest is reset");
	rig_do(&rig, get_counters, &now);
	OK(now.limited == 200 && rig_logged(&rig, "too many connections"), "and counted");
	for (size_t i = 0; i < ARRAY_LEN(fd); i++)
		close_fd(&fd[i]);
	rig.e.limits.conns = 20000;
}

/* Many connections from another process; says how many worked. */
static void open_many(int from, int to, const struct addr *a)
{
	int fd[60];
	unsigned ok = 0;
	char c;

	if (read(from, &c, 1) != 1)
		_exit(1);
	for (size_t i = 0; i < ARRAY_LEN(fd); i++)
		fd[i] = rig_connect_addr(a, ECHO);
	for (size_t i = 0; i < ARRAY_LEN(fd); i++)
		ok += fd[i] >= 0 && send_all(fd[i], "\x01", 1) &&
		      recv(fd[i], &c, 1, 0) == 1;
	_exit(write(to, &ok, sizeof(ok)) != sizeof(ok));
}

static void no_descriptors(void)
{
	struct rig_name q = {.name = "fast.test"};
	struct rlimit was, low;
	unsigned ok = 99;
	int go[2], said[2], probe;
	int64_t from;
	pid_t p;

	rig_do(&rig, rig_get_name, &q);
	if (pipe(go) < 0 || pipe(said) < 0 || getrlimit(RLIMIT_NOFILE, &was) < 0)
		abort();
	p = fork();
	if (p == 0)
		open_many(go[0], said[1], &q.addr);
	rig_idle(&rig); /* what was closed before this is closed */
	probe = dup(0);
	close(probe);
	low = (struct rlimit){(rlim_t)probe + 12, was.rlim_max};
	from = now_ms();
	if (setrlimit(RLIMIT_NOFILE, &low) < 0 || write(go[1], "", 1) != 1 ||
	    read(said[0], &ok, sizeof(ok)) != sizeof(ok))
		abort();
	setrlimit(RLIMIT_NOFILE, &was);
	waitpid(p, NULL, 0);
	OK(ok < 10 && now_ms() - from < PROMPT_MS,
	   "without descriptors: %u work, none hangs", ok);
	usleep(100000);
	OK(with_echo("fast.test"), "and it goes on when there are some again");
	for (int i = 0; i < 2; i++) {
		close(go[i]);
		close(said[i]);
	}
}

/* ---- the policy changes, questions are asked ------------------------------------ */

static void review(void)
{
	cleanup_fd int a = -1, b = -1;
	char buf[64];

	rig_idle(&rig); /* none but these */
	a = rig_connect(&rig, "echo.test", ECHO);
	b = rig_connect(&rig, "greet.test", GREET);
	OK(send_all(a, "\x01", 1) && read_some(a, buf, sizeof(buf)) == 1 &&
		   read_some(b, buf, sizeof(buf)) == 11,
	   "two connections");
	OK(rig_policy(&rig, "{\"mode\": \"allowlist\", \"rules\": [" RULE(
				    "greet.test") "]}") == 1,
	   "a policy without one of them closes one");
	OK(read_some(a, buf, sizeof(buf)) == -ECONNRESET, "it is reset");
	OK(send_all(b, "x\n", 2) && read_some(b, buf, sizeof(buf)) == 2,
	   "the other goes on");
	OK(rig_policy(&rig, policy) == 0, "the policy before it closes none");
}

/* The host's answer to the next question. */
static void *answer_next(void *arg)
{
	const char *text = arg;
	char in[4096], out[512];
	const char *kind;
	ssize_t n;
	json_t *q;

	fcntl(rig.control, F_SETFL, 0);
	do {
		n = recv(rig.control, in, sizeof(in), 0);
		q = n > 0 ? json_loadb(in, (size_t)n, 0, NULL) : NULL;
		if (!q)
			abort();
		kind = json_string_value(json_object_get(q, "t"));
		if (strcmp(kind, "who") == 0 || strcmp(kind, "ask") == 0)
			break;
		json_decref(q); /* an event */
	} while (true);
	n = snprintf(out, sizeof(out), "{\"t\": \"answer\", \"id\": %lld, %s}",
		     json_integer_value(json_object_get(q, "id")), text);
	json_decref(q);
	if (send(rig.control, out, (size_t)n, 0) != n)
		abort();
	return NULL;
}

static bool with_answer(const char *text, const char *host)
{
	pthread_t t;
	char *copy = strdup(text), old[4096];
	bool ok;

	/* Who the connections before this one were, was asked for the log. */
	while (recv(rig.control, old, sizeof(old), MSG_DONTWAIT) > 0)
		;
	if (pthread_create(&t, NULL, answer_next, copy) != 0)
		abort();
	ok = with_echo(host);
	pthread_join(t, NULL);
	free(copy);
	return ok;
}

static void questions(void)
{
	rig_policy(&rig,
		   "{\"mode\": \"allowlist\", \"rules\": [{\"host\": \"scoped.test\", "
		   "\"addresses\": [\"loopback\"], \"scope\": {\"tool\": \"web\"}}]}");
	OK(with_answer("\"tool\": \"web\", \"exec\": \"e1\", \"program\": \"curl\"",
		       "scoped.test"),
	   "a rule for a tool lets that tool through");
	OK(!with_answer("\"tool\": \"sh\"", "scoped.test"), "and no other");
	OK(!with_answer("\"unknown\": true", "scoped.test"), "nor somebody unknown");
	OK(rig_logs(&rig, "\"exec\":\"e1\"") && rig_logs(&rig, "\"program\":\"curl\""),
	   "the log says who");
	rig_policy(&rig, "{\"mode\": \"allowlist\", \"ask\": true, "
			 "\"allowedHosts\": [\"a.test\"]}");
	OK(with_answer("\"allow\": true", "asked.test"), "a question answered with yes");
	OK(!with_answer("\"allow\": false", "asked.test"), "and with no");
	rig_policy(&rig, policy);
}

int main(void)
{
	if (rig_start(&rig, hosts, policy, servers) < 0) {
		SKIP("no namespaces or no transparent proxying here");
		return tap_done();
	}
	allowed_passes();
	server_first();
	refusals();
	addresses();
	next_address();
	no_answer();
	requests();
	server_names();
	bulk();
	limits();
	no_descriptors();
	review();
	questions();
	rig_stop(&rig);
	servers_stop();
	return tap_done();
}
