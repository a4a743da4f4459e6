/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The edges of the data path: what a hostile program does with TCP itself, policies that
 * change in the middle, a host that does not read, and a disk that is full.
 */
#include "egress_servers.h"
#include "tap.h"

#include <netinet/tcp.h>
#include <sys/resource.h>

static struct rig rig;

static const char hosts[] = "127.0.0.1 echo.test\n"
			    "127.0.0.7 dead.test\n";

/* clang-format off */
#define NEAR "\"addresses\": [\"loopback\"]"
#define RULE(host) "{\"host\": \"" host "\", " NEAR "}"
static const char policy[] =
	"{\"mode\": \"allowlist\", \"rules\": ["
	RULE("echo.test") "," RULE("dead.test") ","
	"{\"host\": \"" RAW "\"}," RULE("front.test") "]}";
static const char no_addresses[] =
	"{\"mode\": \"allowlist\", \"rules\": ["
	RULE("echo.test") ", {\"host\": \"dead.test\"}, {\"host\": \"" RAW "\"}]}";
/* clang-format on */

/* Until the end, or until as much has come. -errno if it does not end in order. */
static ssize_t read_up_to(int s, char *buf, size_t size)
{
	size_t have = 0;

	while (have < size) {
		ssize_t n = recv(s, buf + have, size - have, 0);

		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

/* ---- bytes that are not where they seem to be ------------------------------------- */

/* The kernel takes an urgent byte out of the stream, and puts it back when another one
 * follows: what was looked at must be what is sent. */
static void urgent_bytes_stay(void)
{
	cleanup_fd int s = rig_connect(&rig, "echo.test", ECHO);
	char buf[8] = "";

	OK(s >= 0 &&
		   send_all(s,
			    "\x01"
			    "a",
			    2) &&
		   send(s, "b", 1, MSG_OOB) == 1 && send_all(s, "c", 1) &&
		   read_up_to(s, buf, 4) == 4 &&
		   memcmp(buf,
			  "\x01"
			  "abc",
			  4) == 0,
	   "an urgent byte stays where it was sent");
}

/* A look at the socket ends at an urgent byte; the end of the stream behind it does not
 * make what was seen all there is. */
static void urgent_end(void)
{
	static const char rest[] = "ET /fronted HTTP/1.1\r\nHost: other.test\r\n\r\n";
	cleanup_fd int s = rig_connect(&rig, "echo.test", WEB);
	char buf[512] = "";

	send_all(s, "G", 1);
	send(s, "", 0, 0);
	send(s, "E", 1, MSG_OOB);
	send_all(s, rest + 1, strlen(rest) - 1);
	shutdown(s, SHUT_WR);
	read_up_to(s, buf, sizeof(buf) - 1);
	OK(!strstr(buf, "200 OK"), "a request behind an urgent byte and an end");
}

/* More than is looked at, and then the end. */
static void long_gap(void)
{
	static const char rest[] = "/x HTTP/1.1\r\nHost: other.test\r\n\r\n";
	cleanup_fd int s = rig_connect(&rig, "echo.test", SINK);
	cleanup_free char *gap = malloc(80000);
	char buf[512] = "";
	ssize_t n;

	memset(gap, ' ', 80000);
	memcpy(gap, "FOO", 3);
	send_all(s, gap, 80000);
	send_all(s, rest, strlen(rest));
	shutdown(s, SHUT_WR);
	n = read_up_to(s, buf, sizeof(buf) - 1);
	OK(n <= 0 || buf[0] == 'H', "a request line with a long gap reaches nobody");
}

/* ---- ends ---------------------------------------------------------------------------
 */

/* The server does not read, and the program goes away with a reset. */
static void reset_while_stuck(void)
{
	int s = rig_connect(&rig, "echo.test", DEAF);
	struct linger now = {.l_onoff = 1};
	char block[65536];
	ssize_t n;

	memset(block, 1, sizeof(block));
	fcntl(s, F_SETFL, O_NONBLOCK);
	for (int quiet = 0; quiet < 20;) { /* until nobody takes any more */
		n = send(s, block, sizeof(block), MSG_NOSIGNAL);
		quiet = n > 0 ? 0 : quiet + 1;
		if (n <= 0)
			usleep(10000);
	}
	setsockopt(s, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(s);
	OK(rig_idle(&rig), "a program's reset ends it although the server is stuck");
}

/* The server says nothing, and the program has nothing more to say. */
static void half_closed(void)
{
	cleanup_fd int s = rig_connect(&rig, "echo.test", DEAF);
	int64_t from = now_ms();
	char c;

	rig_limit(&rig, &rig.e.limits.half_ms, 200);
	OK(send_all(s, "\x01", 1) && shutdown(s, SHUT_WR) == 0 && recv(s, &c, 1, 0) < 0 &&
		   errno == ECONNRESET && now_ms() - from >= 200,
	   "half a connection does not stay for ever");
	rig_limit(&rig, &rig.e.limits.half_ms, 0);
}

/* ---- policies that change ------------------------------------------------------------
 */

static void get_stage(struct rig *r, void *arg)
{
	*(bool *)arg = r->e.conns && r->e.conns->stage == CONN_DIAL;
}

static bool is_dialling(void *arg)
{
	bool there;

	rig_do(arg, get_stage, &there);
	return there;
}

static void review_while_dialling(void)
{
	cleanup_fd int s = -1;
	char c;

	rig_idle(&rig);                            /* none but this one */
	s = rig_connect(&rig, "dead.test", GREET); /* nobody answers */
	becomes(is_dialling, &rig);
	OK(rig_policy(&rig, no_addresses) == 1,
	   "an address that may no longer be dialled: the attempt ends");
	OK(recv(s, &c, 1, 0) < 0 && errno == ECONNRESET, "with a reset");
	rig_policy(&rig, policy);
}

static size_t client_hello(uint8_t *out, const char *name)
{
	uint8_t *p = out;
	size_t n = strlen(name), ext = n + 9, body = 41 + 2 + ext;

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
	PUT2(0);
	PUT2(n + 5);
	PUT2(n + 3);
	*p++ = 0;
	PUT2(n);
	p = (uint8_t *)memcpy(p, name, n) + n;
#undef PUT2
	return (size_t)(p - out);
}

/* An address was dialled, and the hello named a host that a rule allows. */
static void review_of_a_name_in_a_hello(void)
{
	uint8_t hello[512];
	char buf[512];
	size_t n = client_hello(hello, "front.test");
	cleanup_fd int s = -1;

	rig_idle(&rig);
	s = rig_connect(&rig, RAW, ECHO);
	OK(s >= 0 && send_all(s, hello, n) && read_up_to(s, buf, n) == (ssize_t)n,
	   "an address, with a name that is allowed");
	OK(rig_policy(&rig, no_addresses) == 1, "and no longer is: it ends");
	rig_policy(&rig, policy);
}

/* ---- the host ------------------------------------------------------------------------
 */

static void drain(void)
{
	char in[70000];

	while (recv(rig.control, in, sizeof(in), MSG_DONTWAIT) > 0)
		;
}

/* Whether a packet of this kind comes; n: its number. */
static bool packet(const char *kind, json_int_t *ret_n)
{
	char in[70000];
	bool found = false;

	for (int64_t until = now_ms() + PATIENT_MS; !found && now_ms() < until;) {
		ssize_t n = recv(rig.control, in, sizeof(in), MSG_DONTWAIT);
		json_t *o = n > 0 ? json_loadb(in, (size_t)n, 0, NULL) : NULL;

		if (!o) {
			usleep(5000);
			continue;
		}
		found = strcmp(json_string_value(json_object_get(o, "t")), kind) == 0;
		if (found)
			*ret_n = json_integer_value(json_object_get(o, "n"));
		json_decref(o);
	}
	return found;
}

static void fill(struct rig *r, void *arg)
{
	(void)arg;
	for (int i = 0; i < 5000; i++)
		control_event(&r->e, json_pack("{s:i}", "filler", i));
}

static void violate(struct rig *r, void *arg)
{
	struct conn c = {.egress = &r->e, .port = 443};

	(void)arg;
	control_violation(&r->e, &c, "KEY");
}

static void a_host_that_does_not_read(void)
{
	int64_t from;
	json_int_t n;

	drain();
	rig_do(&rig, fill, NULL);
	from = now_ms();
	rig_do(&rig, violate, NULL);
	OK(now_ms() - from < PROMPT_MS, "nobody waits for a host that does not read");
	OK(packet("violation", &n), "and what it must know comes later");
}

static void deny_many(struct rig *r, void *arg)
{
	(void)arg;
	r->e.events_until_ms = 0; /* a new second */
	for (int i = 0; i < 350; i++)
		egress_record(&r->e, &(struct record){.kind = "dns",
						      .verdict = "deny",
						      .name = "no.test"});
}

static void turn(struct rig *r, void *arg)
{
	(void)r;
	(void)arg;
}

static void events_are_counted(void)
{
	json_int_t lost = 0, n;

	usleep(1100000); /* by now it is told what was lost before, */
	rig_do(&rig, turn, NULL);
	rig_do(&rig, turn, NULL); /* or was in this turn of the loop */
	drain();
	rig_do(&rig, deny_many, NULL);
	while (lost < 250 && packet("lost", &n))
		lost += n;
	OK(lost == 250, "of 350 events, 250 are only counted (%d)", (int)lost);
}

static void unheard_question(void)
{
	struct egress e = {.log_fd = -1};
	struct sockaddr_in a = {.sin_family = AF_INET};
	struct question *q = calloc(1, sizeof(*q));

	if (!q || loop_new(&e.loop) < 0)
		abort();
	control_who(&e, q, "tcp", (struct sockaddr *)&a, (struct sockaddr *)&a, 700,
		    NULL);
	control_forget(&e, q);
	OK(q->timer.slot == 0, "a question that nobody heard can be forgotten");
	timer_stop(e.loop, &q->timer);
	free(q);
	loop_free(e.loop);
}

/* ---- the log -------------------------------------------------------------------------
 */

struct full {
	off_t limit;
};

static void log_until_full(struct rig *r, void *arg)
{
	const struct full *f = arg;
	struct rlimit l, was;

	getrlimit(RLIMIT_FSIZE, &was);
	egress_log_flush(&r->e);
	l = was;
	l.rlim_cur = (rlim_t)f->limit;
	for (int i = 0; i < 3; i++)
		egress_record(&r->e, &(struct record){.kind = "dns",
						      .verdict = "deny",
						      .name = "unwritten.test"});
	setrlimit(RLIMIT_FSIZE, &l);
	egress_log_flush(&r->e);
	setrlimit(RLIMIT_FSIZE, &was);
	egress_record(&r->e, &(struct record){.kind = "dns",
					      .verdict = "deny",
					      .name = "written.test"});
	egress_log_flush(&r->e);
}

static void a_full_disk(void)
{
	char path[] = "/tmp/egress_edge.XXXXXX", text[16384];
	cleanup_fd int fd = mkostemp(path, O_APPEND | O_CLOEXEC);
	struct full f = {.limit = 150};
	int was = rig.e.log_fd;
	unsigned whole = 0, broken = 0;
	bool told = false, after = false;
	ssize_t n;

	unlink(path);
	signal(SIGXFSZ, SIG_IGN);
	rig.e.log_fd = fd; /* the loop's thread waits for calls now */
	rig_do(&rig, log_until_full, &f);
	rig.e.log_fd = was;
	n = pread(fd, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	for (char *line = text, *end; *line; line = end) {
		json_t *o;

		end = strchrnul(line, '\n');
		if (*end)
			*end++ = '\0';
		o = json_loads(line, 0, NULL);
		whole += o != NULL;
		broken += !o;
		told |= strstr(line, "could not be written") != NULL;
		after |= o && strstr(line, "\"written.test\"");
		json_decref(o);
	}
	OK(broken == 1 && after, "a line that was cut short spoils no other (%u, %u)",
	   whole, broken);
	OK(told, "and the log says that lines are missing");
}

int main(void)
{
	unheard_question();
	if (rig_start(&rig, hosts, policy, servers) < 0) {
		SKIP("no namespaces or no transparent proxying here");
		return tap_done();
	}
	urgent_bytes_stay();
	urgent_end();
	long_gap();
	rig_idle(&rig);
	reset_while_stuck();
	half_closed();
	review_while_dialling();
	review_of_a_name_in_a_hello();
	a_host_that_does_not_read();
	events_are_counted();
	a_full_disk();
	rig_stop(&rig);
	servers_stop();
	return tap_done();
}
