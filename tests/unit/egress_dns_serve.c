/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resolver as a sandbox sees it: in a network namespace of its own, on port 53 of
 * every address, with a real dnsmasq upstream whose log tells what has left.
 */
#include "egress/dns.h"

#include "base/io.h"
#include "base/util.h"
#include "dns_client.h"
#include "egress/lookup.h"
#include "egress/names.h"
#include "patient.h"
#include "tap.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#define UPSTREAM_PORT 5399
#define SILENT_PORT 5398
#define MX 15

extern char **environ;

/* ---- the namespace and dnsmasq --------------------------------------------------- */

static bool run(const char **argv)
{
	int status;
	pid_t pid;

	return posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)(void *)argv,
			    environ) == 0 &&
	       waitpid(pid, &status, 0) == pid && status == 0;
}

static void map_root(uid_t uid, gid_t gid)
{
	cleanup_fd int dir = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char text[64];

	write_knob_at(dir, "setgroups", "deny");
	snprintf(text, sizeof(text), "0 %u 1", uid);
	write_knob_at(dir, "uid_map", text);
	snprintf(text, sizeof(text), "0 %u 1", gid);
	write_knob_at(dir, "gid_map", text);
}

/* Loopback, with routes as a sandbox has them: every address is local. */
static bool enter_namespace(bool *ret_any)
{
	uid_t uid = getuid();
	gid_t gid = getgid();
	struct ifreq up = {.ifr_name = "lo", .ifr_flags = IFF_UP};

	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		return false;
	map_root(uid, gid);
	cleanup_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &up) < 0)
		return false;
	*ret_any = run((const char *[]){"ip", "route", "add", "local", "0.0.0.0/0", "dev",
					"lo", NULL}) &&
		   run((const char *[]){"ip", "-6", "route", "add", "local", "::/0",
					"dev", "lo", NULL});
	return true;
}

static pid_t start_dnsmasq(const char *log)
{
	const char *argv[] = {"dnsmasq",
			      "-d", /* changes to no other user, which this one cannot */
			      "--conf-file=/dev/null",
			      "--port=5399",
			      "--no-resolv",
			      "--no-hosts",
			      "--bind-interfaces",
			      "--listen-address=127.0.0.1",
			      "--local-ttl=30",
			      "--log-queries",
			      "--log-facility=-",
			      "--local=/test/",
			      "--host-record=both.ok.test,10.1.2.4,fd00::4",
			      "--host-record=four.ok.test,10.1.2.3",
			      "--host-record=six.ok.test,fd00::6",
			      "--txt-record=text.ok.test,hello",
			      "--host-record=denied.test,10.1.2.9",
			      NULL};
	posix_spawn_file_actions_t fa;
	pid_t pid;
	int r;

	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_addopen(&fa, 2, log, O_WRONLY | O_APPEND, 0);
	r = posix_spawnp(&pid, "dnsmasq", &fa, NULL, (char *const *)(void *)argv,
			 environ);
	posix_spawn_file_actions_destroy(&fa);
	return r == 0 ? pid : -1;
}

/* It says so once its sockets are bound. */
static bool dnsmasq_ready(const char *path)
{
	for (int64_t until = now_ms() + PATIENT_MS; now_ms() < until;) {
		cleanup_buf struct buf log = BUF_INIT(1u << 20);

		if (read_file_at(AT_FDCWD, path, &log) == 0 && log.data &&
		    strstr(log.data, "started, version"))
			return true;
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	}
	return false;
}

/* ---- our side -------------------------------------------------------------------- */

struct server {
	pid_t pid;
	int log;  /* lines of the role, in memory */
	int stop; /* closed: it ends */
};

static int bound(int family, int type, bool listening)
{
	struct sockaddr_storage sa = {0};
	int fd = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (family == AF_INET6) {
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
		((struct sockaddr_in6 *)&sa)->sin6_port = htons(53);
	} else {
		((struct sockaddr_in *)&sa)->sin_port = htons(53);
	}
	sa.ss_family = (sa_family_t)family;
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ||
	    (listening && listen(fd, 64) < 0)) {
		perror("# bind to port 53");
		abort();
	}
	return fd;
}

static void make_policy(struct egress *e, const char *text)
{
	struct cove_error err = {0};
	json_t *network = json_loads(text, 0, NULL);
	struct policy_source src = {.network = network, .generation = 1};
	struct buf image = BUF_INIT(POLICY_IMAGE_MAX);

	if (!network || policy_compile(&src, &image, &err) < 0 ||
	    policy_open(&e->policy, image.data, image.len, &err) < 0) {
		printf("# policy: %s\n", err.msg);
		abort();
	}
	json_decref(network);
}

struct ender {
	struct watch watch;
	struct loop *loop;
};

static void on_stop(struct watch *w, uint32_t events)
{
	(void)events;
	loop_stop(container_of(w, struct ender, watch)->loop);
}

static void serve(const char *policy, uint16_t upstream, bool who_always, int log,
		  int end)
{
	struct egress e = {.log_fd = log, .who_always = who_always};
	struct ender w;
	char servers[32];
	int r;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(servers, sizeof(servers), "127.0.0.1#%u", upstream);
	e.limits = (struct egress_limits){.conns = 64, .undecided = 64, .inspected = 8};
	make_policy(&e, policy);
	if (loop_new(&e.loop) < 0 || names_new(&e.names, NAMES_MAX) < 0 ||
	    lookup_new(&e.lookup, e.loop) < 0 ||
	    lookup_configure(e.lookup, servers, "10.5.5.5 db\n10.5.5.6 named\n") < 0 ||
	    egress_listen(&e, bound(AF_INET, SOCK_STREAM, true), -1,
			  bound(AF_INET, SOCK_DGRAM, false),
			  bound(AF_INET6, SOCK_DGRAM, false)) < 0 ||
	    watch_start(e.loop, &w.watch, end, EPOLLIN, on_stop) < 0)
		abort();
	w.loop = e.loop;
	r = loop_run(e.loop);
	egress_unlisten(&e); /* with whatever is under way */
	egress_log_flush(&e);
	lookup_free(e.lookup);
	names_free(e.names);
	loop_free(e.loop);
	exit(r < 0);
}

static struct server start(const char *policy, uint16_t upstream, bool who_always)
{
	struct server s = {.log = memfd_create("log", MFD_CLOEXEC)};
	int end[2], port;

	fcntl(s.log, F_SETFL, O_APPEND);
	if (pipe2(end, O_CLOEXEC) < 0)
		abort();
	s.stop = end[1];
	fflush(stdout);
	s.pid = fork();
	if (s.pid == 0) {
		close(end[1]);
		serve(policy, upstream, who_always, s.log, end[0]);
	}
	close(end[0]);
	for (int64_t until = now_ms() + PATIENT_MS; now_ms() < until;) { /* it listens? */
		struct sockaddr_in sa = {.sin_family = AF_INET,
					 .sin_port = htons(53),
					 .sin_addr.s_addr = htonl(0x7f000002)};

		port = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		int r = connect(port, (struct sockaddr *)&sa, sizeof(sa));

		close(port);
		if (r == 0)
			break;
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	}
	return s;
}

static void stop(struct server *s)
{
	int status = -1;

	close(s->stop);
	waitpid(s->pid, &status, 0);
	OK(status == 0, "the role ends in order");
	close(s->log);
}

static unsigned lines(const struct server *s, const char *text)
{
	static char log[1 << 20];
	unsigned count = 0;
	ssize_t n = pread(s->log, log, sizeof(log) - 1, 0);

	log[n > 0 ? n : 0] = '\0';
	for (const char *p = log; (p = strstr(p, text)); p += strlen(text))
		count++;
	return count;
}

/* How often a text is in the log, once it is there and had time to come again. */
static unsigned logged(const struct server *s, const char *text)
{
	for (int64_t until = now_ms() + PATIENT_MS; now_ms() < until && !lines(s, text);)
		usleep(2000);
	usleep(100000);
	return lines(s, text);
}

/* ---- tests ----------------------------------------------------------------------- */

static void names_that_are_allowed(void)
{
	struct message r = look("four.ok.test", DNS_A);
	struct message b;

	OK(strcmp(address(&r), "198.18.1.0") == 0, "A: %s", address(&r));
	r = look("four.ok.test", DNS_AAAA);
	OK(strcmp(address(&r), "fd63:6f76:65::100") == 0,
	   "AAAA too, though it has only A: %s", address(&r));
	r = look("six.ok.test", DNS_A);
	OK(strcmp(address(&r), "198.18.1.1") == 0, "and A for what has only AAAA: %s",
	   address(&r));
	r = look("FOUR.ok.TEST", DNS_A);
	OK(strcmp(address(&r), "198.18.1.0") == 0 && contains(&r, "\4FOUR\2ok\4TEST"),
	   "the same name in other letters, which come back");
	OK(r.n > 18 && r.b[r.n - 18] > 20 && r.b[r.n - 18] <= 30, "upstream's TTL");
	r = look("text.ok.test", DNS_A);
	OK(rcode(&r) == 0 && answers(&r) == 0, "a name without addresses");
	r = look("nobody.ok.test", DNS_A);
	OK(rcode(&r) == DNS_NXDOMAIN, "a name that is not there");
	r = look("x.broken.example", DNS_A);
	OK(rcode(&r) == DNS_SERVFAIL && contains(&r, "resolver"), "a name that fails");
	r = look("0.1.18.198.in-addr.arpa", DNS_PTR);
	OK(rcode(&r) == 0 && answers(&r) == 1 && contains(&r, "\4four\2ok\4test"), "PTR");
	r = look("9.9.9.9.in-addr.arpa", DNS_PTR);
	OK(rcode(&r) == DNS_NXDOMAIN, "PTR of an address that is not ours");
	r = look("db", DNS_A);
	b = look("named", DNS_A);
	OK(rcode(&r) == DNS_NXDOMAIN && answers(&b) == 1,
	   "without a dot: only what a rule names");
	r = look("a.localhost", DNS_A);
	OK(strcmp(address(&r), "127.0.0.1") == 0, "localhost is the sandbox");
	r = look(HOST_INTERNAL, DNS_A);
	OK(strncmp(address(&r), "198.18.1.", 9) == 0, "the host, which a rule names");
}

static void other_types(void)
{
	static const unsigned types[] = {DNS_TXT, MX, DNS_HTTPS, DNS_SVCB,
					 DNS_ANY, 33, 2};
	unsigned good = 0, refused = 0;

	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		struct message r = look("text.ok.test", types[i]);
		struct message d = look("data.in.labels.evil.example", types[i]);

		good += rcode(&r) == 0 && answers(&r) == 0;
		refused += rcode(&d) == DNS_NXDOMAIN;
	}
	OK(good == ARRAY_LEN(types), "other types of an allowed name: no data (%u)",
	   good);
	OK(refused == ARRAY_LEN(types), "of others: no such name (%u)", refused);
}

static void names_that_are_not(const struct server *s)
{
	struct message m, r = look("denied.test", DNS_A);
	char name[80];

	OK(rcode(&r) == DNS_NXDOMAIN && r.b[11] == 1 && contains(&r, "no rule"),
	   "NXDOMAIN with the reason");
	look("denied.test", DNS_A);
	look("DENIED.test", DNS_AAAA);
	OK(logged(s, "\"denied.test\"") == 1, "one line for three questions");
	m = ask("denied.test", DNS_A, false);
	r = exchange("127.0.0.53", &m, PATIENT_MS);
	OK(rcode(&r) == DNS_NXDOMAIN && r.b[11] == 0, "without EDNS: no reason");
	m = ask("a b.ok.test", DNS_A, false);
	r = exchange("127.0.0.53", &m, PATIENT_MS);
	OK(rcode(&r) == DNS_NXDOMAIN, "no host name");
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "c2VjcmV0-%d.evil.example", i);
		r = look(name, i % 2 ? DNS_A : DNS_TXT);
		if (rcode(&r) != DNS_NXDOMAIN)
			break;
	}
	OK(rcode(&r) == DNS_NXDOMAIN && logged(s, "more names in one second") >= 1 &&
		   lines(s, "evil.example") < 100,
	   "300 at once: a summary in the log (%u lines)", lines(s, "evil.example"));
}

static void forms(void)
{
	struct message m = ask("four.ok.test", DNS_AXFR, false), r;

	r = exchange("127.0.0.53", &m, PATIENT_MS);
	OK(rcode(&r) == DNS_REFUSED, "AXFR");
	m = ask("version.bind", DNS_TXT, false);
	m.b[m.n - 1] = 3;
	r = exchange("127.0.0.53", &m, PATIENT_MS);
	OK(rcode(&r) == DNS_REFUSED, "another class");
	m = ask("four.ok.test", DNS_A, false);
	m.b[2] = 5 << 3;
	r = exchange("127.0.0.53", &m, PATIENT_MS);
	OK(rcode(&r) == DNS_NOTIMP, "another operation");
	m = ask("four.ok.test", DNS_A, true);
	m.b[m.n - 5] = 1;
	r = exchange("127.0.0.53", &m, PATIENT_MS);
	OK(rcode(&r) == 0 && answers(&r) == 0 && r.b[r.n - 6] == 1, "EDNS 1");
	m = ask("four.ok.test", DNS_A, false);
	m.n -= 3;
	r = exchange("127.0.0.53", &m, PATIENT_MS);
	OK(rcode(&r) == DNS_FORMERR, "cut");
	m = ask("four.ok.test", DNS_A, false);
	m.n = sizeof(m.b);
	r = exchange("127.0.0.53", &m, PATIENT_MS);
	OK(rcode(&r) == DNS_FORMERR, "far too long");
	m = ask("four.ok.test", DNS_A, false);
	m.b[2] |= 0x80;
	r = exchange("127.0.0.53", &m, 200);
	OK(r.n == 0, "an answer gets none");
}

static void any_address(void)
{
	static const char *const servers[] = {"127.0.0.1",    "127.9.9.9", "8.8.8.8",
					      "198.51.100.7", "::1",       "2001:db8::53",
					      "fd00:ec2::253"};
	struct message m = ask("four.ok.test", DNS_A, true);

	for (size_t i = 0; i < ARRAY_LEN(servers); i++) {
		struct message r = exchange(servers[i], &m, PATIENT_MS);

		OK(strcmp(address(&r), "198.18.1.0") == 0, "asked at %s", servers[i]);
	}
}

/* ---- TCP ------------------------------------------------------------------------- */

static void tcp_byte_by_byte(void)
{
	int fd = client(SOCK_STREAM, "127.0.0.53");
	struct message m = ask("both.ok.test", DNS_A, true), out = {.n = 0}, r;

	put_framed(&out, &m);
	for (size_t i = 0; i < out.n; i++)
		send(fd, out.b + i, 1, MSG_NOSIGNAL);
	OK(read_framed(fd, &r) && strncmp(address(&r), "198.18.1.", 9) == 0,
	   "over TCP, byte by byte");
	shutdown(fd, SHUT_WR);
	OK(!read_framed(fd, &r), "and its end");
	close(fd);
}

static void tcp_pipelined(void)
{
	int fd = client(SOCK_STREAM, "127.0.0.53");
	unsigned ok = 0, denied = 0;
	struct message r;
	char name[64];

	for (int i = 0; i < 50; i++) {
		struct message out = {.n = 0}, m;

		snprintf(name, sizeof(name),
			 i % 2 ? "n%d.wild.ok.test" : "n%d.evil.example", i);
		m = ask(name, DNS_A, true);
		put_framed(&out, &m);
		send(fd, out.b, out.n, MSG_NOSIGNAL);
	}
	shutdown(fd, SHUT_WR);
	while (read_framed(fd, &r)) {
		ok += contains(&r, "wild");
		denied += rcode(&r) == DNS_NXDOMAIN && contains(&r, "evil");
	}
	OK(ok == 25 && denied == 25, "50 questions at once, then half closed: %u and %u",
	   ok, denied);
	close(fd);
}

static void tcp_hostile(void)
{
	int fd = client(SOCK_STREAM, "127.0.0.53");
	struct message r, out = {.n = 0}, m = ask("both.ok.test", DNS_A, true);

	send(fd, "\xff\xff", 2, MSG_NOSIGNAL);
	OK(!read_framed(fd, &r), "a question of 64 KiB ends it");
	close(fd);
	fd = client(SOCK_STREAM, "127.0.0.53");
	m.b[2] |= 0x80;
	put_framed(&out, &m);
	send(fd, out.b, out.n, MSG_NOSIGNAL);
	OK(!read_framed(fd, &r), "so does an answer");
	close(fd);
	fd = client(SOCK_STREAM, "127.0.0.53");
	send(fd, "\0\0", 2, MSG_NOSIGNAL);
	OK(!read_framed(fd, &r), "and nothing");
	close(fd);
}

/* ---- other policies -------------------------------------------------------------- */

static void what_left(const char *path)
{
	cleanup_buf struct buf log = BUF_INIT(4u << 20);

	OK(read_file_at(AT_FDCWD, path, &log) == 0 && strstr(log.data, "four.ok.test"),
	   "dnsmasq saw allowed names");
	OK(!strstr(log.data, "denied.test") && !strstr(log.data, "evil") &&
		   !strstr(log.data, "asked") && !strstr(log.data, "scoped") &&
		   !strstr(log.data, "cove.internal"),
	   "and no other");
	OK(!strstr(log.data, "query[TXT]") && !strstr(log.data, "query[HTTPS]") &&
		   !strstr(log.data, "query[PTR]"),
	   "and no type but A and AAAA");
}

static void asking(void)
{
	struct server s = start("{\"mode\": \"allowlist\", \"ask\": true,"
				" \"allowedHosts\": [\"four.ok.test\"]}",
				UPSTREAM_PORT, false);
	struct message r = look("x.asked.test", DNS_A);

	OK(strcmp(address(&r), "198.18.1.0") == 0,
	   "asking: an address for a name unknown");
	r = look("four.ok.test", DNS_A);
	OK(strcmp(address(&r), "198.18.1.1") == 0, "and for one that is allowed");
	r = look("asked", DNS_A);
	OK(rcode(&r) == DNS_NXDOMAIN, "not without a dot");
	stop(&s);
}

static void by_who(void)
{
	struct server s = start("{\"mode\": \"open\"}", UPSTREAM_PORT, true);
	struct message r = look("x.scoped.test", DNS_A);

	OK(strcmp(address(&r), "198.18.1.0") == 0,
	   "where it matters who asks, nothing leaves before the connect");
	stop(&s);
}

/* Asks for a name that nobody may ask for, and reads until that is answered: by then all
 * questions before it have been read. The number of others that were told to wait. */
static unsigned catch_up(int fd, bool *ret_others)
{
	struct message m = ask("denied.test", DNS_A, true), r;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	unsigned busy = 0;

	send(fd, m.b, m.n, 0);
	while (poll(&p, 1, PATIENT_MS) == 1) {
		r.n = (size_t)recv(fd, r.b, sizeof(r.b), 0);
		if (rcode(&r) == DNS_NXDOMAIN)
			return busy;
		if (rcode(&r) != DNS_SERVFAIL || !contains(&r, "too many"))
			break;
		busy++;
	}
	*ret_others = true;
	return busy;
}

static void flood(void)
{
	struct server s =
		start("{\"mode\": \"allowlist\", \"allowedHosts\": [\"**.ok.test\"]}",
		      SILENT_PORT, false);
	int fd = client(SOCK_DGRAM, "127.0.0.53"), large = 4 << 20;
	unsigned busy = 0, sent = 700;
	bool others = false;
	struct message m;
	char name[64];

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &large, sizeof(large));
	for (unsigned i = 0; i < sent; i++) {
		snprintf(name, sizeof(name), "n%u.ok.test", i);
		m = ask(name, DNS_A, true);
		send(fd, m.b, m.n, 0);
		if (i % 20 == 19) /* what does not fit its buffer is lost */
			busy += catch_up(fd, &others);
	}
	OK(busy == sent - 512, "512 wait for upstream, others are told to: %u", busy);
	OK(!others, "and what needs no upstream is answered meanwhile");
	stop(&s);
	close(fd);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	char log[] = "/tmp/cove-dns-XXXXXX";
	bool any = false;
	pid_t dnsmasq;

	if (!enter_namespace(&any)) {
		SKIP("no network namespace can be made here");
		return tap_done();
	}
	close(mkstemp(log));
	dnsmasq = start_dnsmasq(log);
	if (dnsmasq < 0) {
		SKIP("dnsmasq is not installed");
		unlink(log);
		return tap_done();
	}
	OK(dnsmasq_ready(log), "dnsmasq is there");
	struct server s = start("{\"mode\": \"allowlist\", \"allowedHosts\":"
				" [\"**.ok.test\", \"**.broken.example\", \"named\"],"
				" \"rules\": [{\"host\": \"host.cove.internal\","
				" \"port\": 80}]}",
				UPSTREAM_PORT, false);
	names_that_are_allowed();
	other_types();
	names_that_are_not(&s);
	forms();
	if (any)
		any_address();
	else
		SKIP("ip(8) cannot add routes here");
	tcp_byte_by_byte();
	tcp_pipelined();
	tcp_hostile();
	stop(&s);
	asking();
	by_who();
	int silent = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in sa = {.sin_family = AF_INET,
				 .sin_port = htons(SILENT_PORT),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	OK(bind(silent, (struct sockaddr *)&sa, sizeof(sa)) == 0,
	   "an upstream that is silent");
	flood();
	close(silent);
	what_left(log);
	kill(dnsmasq, SIGTERM);
	waitpid(dnsmasq, NULL, 0);
	unlink(log);
	return tap_done();
}
