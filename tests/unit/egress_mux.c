/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine's network without a machine: the guest's pump in a network namespace, the
 * egress loop in another, and one byte stream between them. What programs see must be
 * what they see in a sandbox of processes. Then a guest that breaks the rules.
 */
#define RIG_MACHINE
#include "dns_client.h"
#include "egress/dns.h"
#include "egress_servers.h"
#include "ipc/wire.h"
#include "tap.h"

#include <sys/resource.h>

static struct rig rig;

static const char hosts[] = "127.0.0.1 echo.test\n"
			    "127.0.0.1 other.test\n";

/* clang-format off */
static const char policy[] =
	"{\"mode\": \"allowlist\", \"rules\": ["
	"{\"host\": \"echo.test\", \"addresses\": [\"loopback\"]}]}";
/* clang-format on */

#define MANY 1000
#define RESOLVER "10.9.8.7"

static double now_s(void)
{
	return (double)now_ms() / 1e3;
}

static bool receives(int s, const char *want)
{
	char buf[256] = "";
	size_t n = strlen(want);

	return recv(s, buf, n, MSG_WAITALL) == (ssize_t)n && memcmp(buf, want, n) == 0;
}

static bool echoes(int s, const char *text)
{
	return send_all(s, text, strlen(text)) && receives(s, text);
}

static void reset(int s)
{
	struct linger now = {.l_onoff = 1};

	setsockopt(s, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(s);
}

/* ---- DNS ------------------------------------------------------------------------ */

static void names(void)
{
	struct message a = ask("echo.test", DNS_A, true), m;
	struct message six = ask("echo.test", DNS_AAAA, true);
	struct message https = ask("echo.test", DNS_HTTPS, true);
	struct message no = ask("no.test", DNS_A, true);
	cleanup_fd int s = -1;
	struct addr addr;

	m = exchange(RESOLVER, &a, PATIENT_MS);
	OK(strncmp(address(&m), "198.1", 5) == 0, "an address for a name (%s)",
	   address(&m));
	addr_parse(address(&m), &addr);
	s = rig_connect_addr(&addr, ECHO);
	OK(s >= 0 && echoes(s, "\x01hello"), "which leads to its server");
	m = exchange(RESOLVER, &six, PATIENT_MS);
	OK(rcode(&m) == 0, "one of IPv6");
	m = exchange(RESOLVER, &https, PATIENT_MS);
	OK(rcode(&m) == 0 && answers(&m) == 0, "none of other types");
	m = exchange(RESOLVER, &no, PATIENT_MS);
	OK(rcode(&m) == DNS_NXDOMAIN, "a name that is not allowed is not there");
	if (rig.six) {
		m = exchange("2001:db8::53", &a, PATIENT_MS);
		OK(rcode(&m) == 0, "a resolver's address can be of IPv6");
	}
	memset(a.b + 12, 63, sizeof(a.b) - 12);
	a.n = sizeof(a.b);
	m = exchange(RESOLVER, &a, PATIENT_MS);
	OK(rcode(&m) == DNS_FORMERR, "a question that is too long is told so");
}

static void names_over_tcp(void)
{
	cleanup_fd int s = client(SOCK_STREAM, RESOLVER);
	struct message q = ask("echo.test", DNS_A, true), out = {.n = 0}, m;

	put_framed(&out, &q);
	OK(s >= 0 && send_all(s, out.b, out.n) && read_framed(s, &m) == 1 &&
		   answers(&m) == 1,
	   "names over TCP");
}

/* ---- bytes ---------------------------------------------------------------------- */

static void small_ones(void)
{
	cleanup_fd int s = rig_connect(&rig, "echo.test", ECHO);
	double from = now_s();
	bool ok = s >= 0 && echoes(s, "\x01");

	for (int i = 0; ok && i < 2000; i++)
		ok = echoes(s, "x");
	OK(ok, "2000 small answers");
	printf("# %.0f us each\n", (now_s() - from) / 2000 * 1e6);
}

struct flood {
	int fd;
	bool ok;
};

static void *flood_in(void *arg)
{
	static uint32_t block[65536 / 4];
	struct flood *f = arg;
	uint32_t at = 0;
	ssize_t n = 1;

	f->ok = f->fd >= 0;
	while (f->ok && (n = recv(f->fd, block, sizeof(block), MSG_WAITALL)) > 0)
		for (uint32_t i = 0; i < (uint32_t)n / 4; i++, at++)
			f->ok &= block[i] == at * 2654435761u;
	f->ok &= n == 0 && at == BULK / 4;
	close(f->fd);
	return NULL;
}

static bool flood_out(int s)
{
	static char block[65536];
	char want[32];
	bool ok = s >= 0;

	memset(block, 1, sizeof(block));
	for (uint32_t i = 0; ok && i < BULK; i += sizeof(block))
		ok = send_all(s, block, sizeof(block));
	ok = ok && shutdown(s, SHUT_WR) == 0;
	snprintf(want, sizeof(want), "%u", BULK);
	ok = ok && receives(s, want);
	close(s);
	return ok;
}

static void bulk(void)
{
	struct flood in = {.fd = rig_connect(&rig, "echo.test", FLOOD)}, beside;
	int s = rig_connect(&rig, "echo.test", SINK);
	double t0 = now_s(), t1, t2, t3;
	pthread_t t;
	bool out;

	flood_in(&in);
	t1 = now_s();
	out = flood_out(s);
	t2 = now_s();
	OK(in.ok, "bulk comes in whole and in order");
	OK(out, "bulk goes out, and half a close arrives behind it");
	beside.fd = rig_connect(&rig, "echo.test", FLOOD);
	s = rig_connect(&rig, "echo.test", SINK);
	pthread_create(&t, NULL, flood_in, &beside);
	out = flood_out(s);
	pthread_join(t, NULL);
	t3 = now_s();
	OK(beside.ok && out, "both at once");
	printf("# %u MiB: in %.0f MiB/s, out %.0f, both ways %.0f\n", BULK >> 20,
	       (BULK >> 20) / (t1 - t0), (BULK >> 20) / (t2 - t1),
	       2 * (BULK >> 20) / (t3 - t2));
}

/* Programs that do not read hold up nobody but themselves. */
static void unread(void)
{
	int fd[40];
	double from, took;
	bool ok = true;

	for (size_t i = 0; i < ARRAY_LEN(fd); i++)
		fd[i] = rig_connect(&rig, "echo.test", i % 2 ? FLOOD : DEAF);
	for (size_t i = 0; i < ARRAY_LEN(fd); i += 2) {
		char block[65536] = "\x01";

		fcntl(fd[i], F_SETFL, O_NONBLOCK);
		while (send(fd[i], block, sizeof(block), MSG_NOSIGNAL) > 0)
			;
	}
	usleep(300000);
	from = now_s();
	for (int i = 0; i < 20; i++) {
		cleanup_fd int s = rig_connect(&rig, "echo.test", ECHO);

		ok = ok && s >= 0 && echoes(s, "\x01now");
	}
	took = now_s() - from;
	OK(ok && took < PROMPT_MS / 1e3,
	   "20 others work beside 40 that stand still (%.0f ms)", took * 1e3);
	for (size_t i = 0; i < ARRAY_LEN(fd); i++)
		reset(fd[i]);
	OK(rig_idle(&rig), "and all of them end with a reset");
}

/* ---- ends ----------------------------------------------------------------------- */

static void ends(void)
{
	int s = rig_connect(&rig, "echo.test", SNAP);
	char c;

	OK(s >= 0 && send_all(s, "\x01", 1) && recv(s, &c, 1, 0) < 0 &&
		   errno == ECONNRESET,
	   "a server's reset is a reset");
	close(s);
	s = rig_connect(&rig, "echo.test", ECHO);
	OK(s >= 0 && echoes(s, "\x01") && shutdown(s, SHUT_WR) == 0 &&
		   recv(s, &c, 1, 0) == 0,
	   "an end is an end");
	close(s);
	rig_idle(&rig);
	s = rig_connect(&rig, "echo.test", ECHO);
	OK(s >= 0 && echoes(s, "\x01"), "one that is there");
	reset(s);
	OK(rig_idle(&rig) && rig_logged(&rig, "the program reset the connection"),
	   "and is reset by the program");
	s = rig_connect(&rig, "echo.test", NOBODY);
	OK(s >= 0 && recv(s, &c, 1, 0) < 0 && errno == ECONNRESET,
	   "where nobody listens: a reset");
	close(s);
}

/* After the server's end, which the program has seen, the program's reset. */
static void late_reset(void)
{
	int s = rig_connect(&rig, "echo.test", BYE);
	char c;

	OK(s >= 0 && receives(s, "bye") && recv(s, &c, 1, 0) == 0 &&
		   send_all(s, "\x01", 1),
	   "one with half an end");
	reset(s);
	OK(rig_idle(&rig), "is reset too");
}

static void refusals(void)
{
	cleanup_fd int s = rig_connect(&rig, "other.test", WEB);
	cleanup_fd int raw = rig_connect(&rig, "203.0.113.9", ECHO);
	static const char request[] = "GET / HTTP/1.1\r\nHost: other.test\r\n\r\n";
	char buf[2048] = "";
	size_t n = 0;
	ssize_t r;

	send_all(s, request, strlen(request));
	while ((r = recv(s, buf + n, sizeof(buf) - 1 - n, 0)) > 0)
		n += (size_t)r;
	OK(r == 0 && strncmp(buf, "HTTP/1.1 403", 12) == 0 &&
		   strstr(buf, "denied by cove"),
	   "a request is refused with words");
	OK(raw >= 0 && send_all(raw, "\x01\x02\x03\x04", 4) && recv(raw, buf, 1, 0) < 0 &&
		   errno == ECONNRESET,
	   "something else with a reset");
}

static void web_server(void)
{
	cleanup_fd int s = rig_connect(&rig, "echo.test", WEB);

	OK(s >= 0 && send_all(s, "GET /a HTTP/1.1\r\nHost: echo.test\r\n\r\n", 36) &&
		   receives(s, "HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n"
			       "GET /a HTTP/1.1"),
	   "requests are read and passed");
}

/* ---- many ----------------------------------------------------------------------- */

static long rss_kib(void)
{
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f && fscanf(f, "%*d %ld", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages * 4;
}

static void many(void)
{
	static int fd[MANY];
	long before = rss_kib();
	double t0 = now_s(), t1, t2;
	bool ok = true;
	int n = 0;

	while (n < MANY && (fd[n] = rig_connect(&rig, "echo.test", ECHO)) >= 0)
		n++;
	t1 = now_s();
	for (int i = 0; i < n; i++)
		ok = ok && echoes(fd[i], "\x01here");
	t2 = now_s();
	OK(n == MANY && ok, "%d connections at once", n);
	printf("# %.0f us to connect, %.0f us to answer, %.1f KiB each, both sides\n",
	       (t1 - t0) / n * 1e6, (t2 - t1) / n * 1e6,
	       (double)(rss_kib() - before) / n);
	for (int i = 0; i < n; i++)
		close(fd[i]);
	OK(rig_idle(&rig), "and none is left");
}

static void set_conns(struct rig *r, void *arg)
{
	r->e.limits.conns = *(unsigned *)arg;
}

static void too_many(void)
{
	int fd[20], turned_away = 0;
	unsigned was = rig.e.limits.conns;
	char c;

	rig_do(&rig, set_conns, &(unsigned){15}); /* three descriptors each, not two */
	for (size_t i = 0; i < ARRAY_LEN(fd); i++) {
		fd[i] = rig_connect(&rig, "echo.test", ECHO);
		if (i >= 10)
			turned_away += recv(fd[i], &c, 1, 0) < 0 && errno == ECONNRESET;
	}
	OK(turned_away == 10 && rig_logged(&rig, "too many connections"),
	   "beyond the limit: a reset at once, and a line in the log");
	OK(echoes(fd[0], "\x01still"), "the others are not touched");
	for (size_t i = 0; i < ARRAY_LEN(fd); i++)
		close(fd[i]);
	rig_do(&rig, set_conns, &was);
	rig_idle(&rig);
}

/* ---- who ------------------------------------------------------------------------ */

static void set_who(struct rig *r, void *arg)
{
	r->e.who_always = *(bool *)arg;
}

/* The next packet of this kind. */
static json_t *packet(const char *kind)
{
	char in[70000];

	for (int64_t until = now_ms() + PATIENT_MS; now_ms() < until;) {
		ssize_t n = recv(rig.control, in, sizeof(in), MSG_DONTWAIT);
		json_t *o = n > 0 ? json_loadb(in, (size_t)n, 0, NULL) : NULL;
		const char *t = json_string_value(json_object_get(o, "t"));

		if (t && strcmp(t, kind) == 0)
			return o;
		json_decref(o);
		if (n <= 0)
			usleep(5000);
	}
	return NULL;
}

static void reply(json_t *answer)
{
	char *text = json_dumps(answer, 0);

	send(rig.control, text, strlen(text), 0);
	free(text);
	json_decref(answer);
}

/* A child connects; its parent is the "first process". */
static pid_t connect_as_child(int result)
{
	pid_t pid;
	struct rig_name q = {.name = "echo.test"};

	rig_do(&rig, rig_get_name, &q);
	pid = fork();
	if (pid == 0) {
		int s = rig_connect_addr(&q.addr, ECHO);
		char ok = s >= 0 && echoes(s, "\x01me");

		_exit(write(result, &ok, 1) != 1);
	}
	return pid;
}

static void who_says(const char *what, json_t *answer, bool want)
{
	int result[2];
	json_t *who, *guest;
	pid_t pid;
	char ok = 2;

	if (pipe2(result, O_CLOEXEC) < 0)
		abort();
	pid = connect_as_child(result[1]);
	who = packet("who");
	guest = json_object_get(who, "guest");
	OK(json_integer_value(json_object_get(guest, "pid")) == pid &&
		   json_integer_value(json_object_get(guest, "root")) == pid &&
		   json_integer_value(json_object_get(guest, "started")) > 0 &&
		   strcmp(json_string_value(json_object_get(guest, "program")),
			  "egress_mux") == 0,
	   "the guest says which process it is");
	json_object_set(answer, "id", json_object_get(who, "id"));
	reply(answer);
	OK(read(result[0], &ok, 1) == 1 && ok == want, "%s", what);
	waitpid(pid, NULL, 0);
	json_decref(who);
	close(result[0]);
	close(result[1]);
}

static void who(void)
{
	char in[70000], c;
	cleanup_fd int s = -1;
	json_t *packet_;

	while (recv(rig.control, in, sizeof(in), MSG_DONTWAIT) > 0)
		;
	rig_do(&rig, set_who, &(bool){true});
	who_says("whom the host knows may connect",
		 json_pack("{s:s, s:s}", "t", "answer", "exec", "1"), true);
	who_says("whom it does not know may not",
		 json_pack("{s:s, s:b}", "t", "answer", "unknown", 1), false);
	who_says("nor one that is offline",
		 json_pack("{s:s, s:s, s:b}", "t", "answer", "exec", "1", "offline", 1),
		 false);
	/* We ourselves are the first process: nobody. */
	rig_limit(&rig, &rig.e.limits.who_ms, 500);
	rig_limit(&rig, &rig.e.limits.refuse_ms, 300);
	s = rig_connect(&rig, "echo.test", ECHO);
	packet_ = packet("who");
	OK(packet_ && json_integer_value(json_object_get(
			      json_object_get(packet_, "guest"), "pid")) == 0,
	   "whom the guest does not know is nobody");
	json_decref(packet_);
	send_all(s, "\x01\x02\x03", 3);
	OK(recv(s, &c, 1, 0) < 0 && errno == ECONNRESET,
	   "and is refused when the host does not answer");
	rig_limit(&rig, &rig.e.limits.who_ms, PATIENT_MS);
	rig_limit(&rig, &rig.e.limits.refuse_ms, PATIENT_MS);
	rig_do(&rig, set_who, &(bool){false});
	rig_idle(&rig);
}

/* ---- another host's end --------------------------------------------------------- */

static void stop_network(struct rig *r, void *arg)
{
	(void)arg;
	egress_unlisten(&r->e);
}

static void take_stream(int fd, const uint8_t *nonce)
{
	struct rig_stream s = {.fd = fd};

	if (nonce)
		memcpy(s.nonce, nonce, sizeof(s.nonce));
	rig_do(&rig, rig_take_stream, &s);
}

/* As when a machine goes on from a saved state, with another egress role. */
static void begun_anew(void)
{
	static const uint8_t nonce[NETMUX_NONCE] = "sixteen unknown";
	cleanup_fd int s = rig_connect(&rig, "echo.test", ECHO);
	cleanup_fd int later = -1;
	char c;

	OK(s >= 0 && echoes(s, "\x01"), "one that is there");
	rig_do(&rig, stop_network, NULL);
	send_all(s, "lost", 4);
	take_stream(fcntl(rig.port, F_DUPFD_CLOEXEC, 0), nonce);
	OK(netpump_restart(nonce) == 0 && recv(s, &c, 1, 0) < 0 && errno == ECONNRESET,
	   "is reset when the host's end is another");
	later = rig_connect(&rig, "echo.test", ECHO);
	OK(later >= 0 && echoes(later, "\x01again"), "new ones work");
}

static void host_gone(void)
{
	cleanup_fd int s = rig_connect(&rig, "echo.test", ECHO);
	struct rig_name q = {.name = "echo.test"};
	char c;
	int later = -1;

	echoes(s, "\x01");
	close(rig.port);
	rig_do(&rig, stop_network, NULL);
	OK(recv(s, &c, 1, 0) < 0 && errno == ECONNRESET,
	   "without the host's end, connections are reset");
	rig_do(&rig, rig_get_name, &q);
	for (int64_t until = now_ms() + PATIENT_MS; now_ms() < until; usleep(1000)) {
		later = rig_connect_addr(&q.addr, ECHO);
		if (later < 0)
			break;
		close(later);
	}
	OK(later < 0 && errno == ECONNREFUSED, "and later ones refused");
}

/* ---- a hostile guest ------------------------------------------------------------ */

struct script {
	uint8_t b[300000];
	size_t n;
};

static void frame(struct script *s, uint8_t type, uint32_t id, const void *p, size_t n)
{
	netmux_put_header(s->b + s->n, type, id, n);
	if (n)
		memcpy(s->b + s->n + NETMUX_HEADER, p, n);
	s->n += NETMUX_HEADER + n;
}

static void begin(struct script *s)
{
	static const uint8_t none[NETMUX_NONCE];

	netmux_put_hello(s->b, none);
	s->n = NETMUX_HELLO;
}

static void open_to(struct script *s, uint32_t id, bool udp, const char *to,
		    uint16_t port)
{
	struct netmux_ends e = {.udp = udp};
	uint8_t out[NETMUX_ENDS];
	struct addr a;

	addr_parse(to, &a);
	addr_to_sockaddr(&a, 1234, &e.from);
	addr_to_sockaddr(&a, port, &e.to);
	netmux_put_ends(out, &e);
	frame(s, NETMUX_OPEN, id, out, sizeof(out));
}

static void has_mux(struct rig *r, void *arg)
{
	*(bool *)arg = r->e.mux != NULL;
}

static int play_guest(const struct script *s)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		abort();
	take_stream(pair[0], NULL);
	fcntl(pair[1], F_SETFL, 0);
	send_all(pair[1], s->b, s->n);
	return pair[1];
}

static bool has_no_mux(void *arg)
{
	bool there;

	rig_do(arg, has_mux, &there);
	return !there;
}

/* Plays the script as a guest; does the host's end stay, or go, as it should? */
static bool plays(const struct script *s, bool stays)
{
	cleanup_fd int fd = play_guest(s);
	bool gone = false;

	if (!stays)
		gone = becomes(has_no_mux, &rig);
	for (int i = 0; stays && !gone && i < 10;
	     i++, usleep(2000)) /* turns of the loop */
		gone = has_no_mux(&rig);
	rig_do(&rig, stop_network, NULL);
	if (!rig_idle(&rig))
		printf("# connections are left\n");
	return gone != stays;
}

#define BAD(what, code) \
	do { \
		begin(&s); \
		code; \
		OK(plays(&s, false), "%s ends it", what); \
	} while (0)
#define FINE(what, code) \
	do { \
		begin(&s); \
		code; \
		OK(plays(&s, true), "%s does not", what); \
	} while (0)

static void add_u32(struct script *s, uint8_t type, uint32_t id, uint32_t v)
{
	uint8_t p[4];

	wire_set32(p, v);
	frame(s, type, id, p, 4);
}

static void hostile(void)
{
	static uint8_t block[NETMUX_DATA_MAX];
	static struct script s;
	uint32_t id = 1 << 16 | 5;

	BAD("an unknown type", frame(&s, 77, 1, NULL, 0));
	BAD("type 0", frame(&s, 0, 1, NULL, 0));
	BAD("DATA without bytes", frame(&s, NETMUX_DATA, 1, NULL, 0));
	BAD("a connection without an id", open_to(&s, 0, false, "10.0.0.1", 80));
	BAD("a connection of datagrams", open_to(&s, id, true, "10.0.0.1", 80));
	BAD("a datagram with an id", frame(&s, NETMUX_DGRAM, 9, block, 60));
	BAD("half an OPEN", frame(&s, NETMUX_OPEN, id, block, 20));
	BAD("an OPEN of no family", frame(&s, NETMUX_OPEN, id, block, NETMUX_ENDS));
	BAD("the host's own question", frame(&s, NETMUX_WHO, id, block, NETMUX_ENDS));
	BAD("a slot that is in use", {
		open_to(&s, id, false, "10.0.0.1", 80);
		open_to(&s, id + NETMUX_SLOTS, false, "10.0.0.1", 80);
	});
	BAD("more than there was credit for", {
		open_to(&s, id, false, "10.0.0.1", 53);
		for (int i = 0; i < 3; i++)
			frame(&s, NETMUX_DATA, id, block, sizeof(block));
	});
	BAD("credit of nothing", {
		open_to(&s, id, false, "10.0.0.1", 53);
		add_u32(&s, NETMUX_WINDOW_ADD, id, 0);
	});
	BAD("endless credit", {
		open_to(&s, id, false, "10.0.0.1", 53);
		add_u32(&s, NETMUX_WINDOW_ADD, id, UINT32_MAX - 100);
	});
	BAD("two ends", {
		open_to(&s, id, false, "10.0.0.1", 53);
		frame(&s, NETMUX_EOF, id, NULL, 0);
		frame(&s, NETMUX_EOF, id, NULL, 0);
	});
	BAD("DATA behind the end", {
		open_to(&s, id, false, "10.0.0.1", 53);
		frame(&s, NETMUX_EOF, id, NULL, 0);
		frame(&s, NETMUX_DATA, id, "x", 1);
	});
	FINE("a frame of a connection that has ended", {
		frame(&s, NETMUX_DATA, id, "x", 1);
		frame(&s, NETMUX_RESET, id, NULL, 0);
		frame(&s, NETMUX_CLOSE, id, NULL, 0);
		add_u32(&s, NETMUX_WINDOW_ADD, id, 7);
	});
	FINE("an answer that nobody asked for",
	     frame(&s, NETMUX_WHO_IS, 1, block, NETMUX_WHO_SIZE));
	FINE("a slot that is used again", {
		for (uint32_t i = 1; i < 500; i++) {
			open_to(&s, i * NETMUX_SLOTS + 1, false, "10.0.0.1", 80);
			frame(&s, NETMUX_RESET, i * NETMUX_SLOTS + 1, NULL, 0);
		}
	});
	FINE("a connection to loopback", open_to(&s, id, false, "127.0.0.1", ECHO));
	begin(&s);
	memmove(s.b + 1000, s.b, s.n);
	memset(s.b, 'c', 1000);
	s.n += 1000;
	open_to(&s, id, false, "10.0.0.1", 53);
	OK(plays(&s, true), "what comes before a HELLO does not");
}

/* Opens all there are, asks for bytes, and reads nothing. */
static void greedy(void)
{
	cleanup_fd int fd = -1;
	struct rig_name q = {.name = "echo.test"};
	static struct script s;
	char text[ADDR_TEXT];
	long before = rss_kib();
	bool there;

	begin(&s);
	rig_do(&rig, rig_get_name, &q);
	addr_text(&q.addr, text);
	for (uint32_t i = 0; i < 200; i++) {
		open_to(&s, NETMUX_SLOTS + i, false, text, FLOOD);
		add_u32(&s, NETMUX_WINDOW_ADD, NETMUX_SLOTS + i, 8u << 20);
	}
	fd = play_guest(&s);
	usleep(700000);
	rig_do(&rig, has_mux, &there);
	OK(there && rss_kib() - before < 60000,
	   "a guest that asks for much and reads nothing (%ld KiB)", rss_kib() - before);
	rig_do(&rig, stop_network, NULL);
	OK(rig_idle(&rig), "is got rid of");
}

static void raise_descriptors(void)
{
	struct rlimit l;

	getrlimit(RLIMIT_NOFILE, &l);
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &l);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	raise_descriptors();
	if (rig_start(&rig, hosts, policy, servers) < 0) {
		SKIP("no namespaces or no transparent proxying here");
		return tap_done();
	}
	names();
	names_over_tcp();
	small_ones();
	bulk();
	unread();
	ends();
	late_reset();
	refusals();
	web_server();
	many();
	too_many();
	who();
	begun_anew();
	host_gone();
	hostile();
	greedy();
	rig_stop(&rig);
	servers_stop();
	return tap_done();
}
