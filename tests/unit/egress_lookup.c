/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lookups against a real dnsmasq on loopback, and against a server of this test that
 * answers badly or not at all.
 */
#include "egress/lookup.h"

#include "base/util.h"
#include "egress/names.h"
#include "egress/upstream.h"
#include "patient.h"
#include "tap.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

struct asked {
	struct lookup_wait wait;
	struct lookup_result result;
	struct addr addrs[LOOKUP_ADDRS_MAX];
	unsigned calls;
	struct asked *cancel; /* from inside the callback */
};

static struct loop *loop;
static struct lookup *lookup;
static unsigned waiting_for;
static struct timer guard;

static void on_result(struct lookup_wait *w, const struct lookup_result *r)
{
	struct asked *a = container_of(w, struct asked, wait);

	a->calls++;
	a->result = *r;
	if (r->n)
		memcpy(a->addrs, r->addrs, r->n * sizeof(*r->addrs));
	if (a->cancel)
		lookup_cancel(&a->cancel->wait);
	if (waiting_for && --waiting_for == 0)
		loop_stop(loop);
}

static void on_guard(struct timer *t)
{
	(void)t;
	loop_stop(loop);
}

static void turn(unsigned results, int64_t at_most_ms)
{
	waiting_for = results;
	timer_start(loop, &guard, at_most_ms, on_guard);
	loop_run(loop);
	timer_stop(loop, &guard);
	waiting_for = 0;
}

static void start(struct asked *a, const char *name)
{
	*a = (struct asked){.calls = 0};
	lookup_start(lookup, name, &a->wait, on_result);
}

static struct asked look(const char *name)
{
	struct asked a;

	start(&a, name);
	if (!a.calls)
		turn(1, PATIENT_MS);
	return a;
}

static bool has(const struct asked *a, const char *text)
{
	char out[ADDR_TEXT];

	for (size_t i = 0; i < a->result.n; i++)
		if (strcmp(addr_text(&a->addrs[i], out), text) == 0)
			return true;
	return false;
}

static int udp_socket(uint16_t *ret_port)
{
	struct sockaddr_in sa = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ||
	    getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
		abort();
	*ret_port = ntohs(sa.sin_port);
	return fd;
}

static void configure(uint16_t port, const char *hosts)
{
	char servers[64];

	snprintf(servers, sizeof(servers), "127.0.0.1#%u", port);
	if (lookup_configure(lookup, servers, hosts) < 0)
		abort();
}

/* ---- dnsmasq --------------------------------------------------------------------- */

static pid_t start_dnsmasq(uint16_t port)
{
	char port_text[32];
	const char *argv[] = {"dnsmasq",
			      "-k",
			      "--conf-file=/dev/null",
			      port_text,
			      "--pid-file=",
			      "--no-resolv",
			      "--no-hosts",
			      "--bind-interfaces",
			      "--listen-address=127.0.0.1",
			      "--local-ttl=30",
			      "--local=/test/",
			      "--host-record=both.test,10.1.2.4,fd00::4",
			      "--address=/four.test/10.1.2.3",
			      "--host-record=six.test,fd00::6",
			      "--host-record=soon.test,10.1.2.5,1",
			      "--host-record=late.test,10.1.2.6,99999",
			      "--cname=alias.test,both.test,7",
			      "--txt-record=text.test,hello",
			      NULL};
	pid_t pid;

	snprintf(port_text, sizeof(port_text), "--port=%u", port);
	if (posix_spawnp(&pid, "dnsmasq", NULL, NULL, (char *const *)(void *)argv,
			 environ) != 0 &&
	    posix_spawn(&pid, "/usr/sbin/dnsmasq", NULL, NULL,
			(char *const *)(void *)argv, environ) != 0)
		return -1;
	return pid;
}

static bool ready(uint16_t port)
{
	for (int64_t until = now_ms() + PATIENT_MS; now_ms() < until;) {
		configure(port, NULL);
		if (look("four.test").result.status == LOOKUP_OK)
			return true;
		nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	}
	return false;
}

static void real_answers(void)
{
	struct asked a = look("both.test");

	OK(a.result.status == LOOKUP_OK && a.result.n == 2 && has(&a, "10.1.2.4") &&
		   has(&a, "fd00::4"),
	   "both families");
	OK(a.result.ttl > 25 && a.result.ttl <= 30, "its TTL: %u", a.result.ttl);
	a = look("four.test");
	OK(a.result.n == 1 && has(&a, "10.1.2.3"), "IPv4 only");
	a = look("six.test");
	OK(a.result.n == 1 && has(&a, "fd00::6"), "IPv6 only");
	a = look("alias.test");
	OK(a.result.n == 2 && has(&a, "10.1.2.4") && a.result.ttl <= 7,
	   "an alias, with the least TTL: %u", a.result.ttl);
	a = look("soon.test");
	OK(a.result.ttl >= 4 && a.result.ttl <= 5, "at least 5 s: %u", a.result.ttl);
	a = look("late.test");
	OK(a.result.ttl >= 299 && a.result.ttl <= 300, "at most 5 min: %u", a.result.ttl);
	a = look("nothing.test");
	OK(a.result.status == LOOKUP_NXDOMAIN && a.result.n == 0, "no such name");
	a = look("text.test");
	OK(a.result.status == LOOKUP_OK && a.result.n == 0, "a name without an address");
	a = look("elsewhere.example");
	OK(a.result.status == LOOKUP_FAILED && a.result.why, "refused: %s", a.result.why);
}

static void cached_and_shared(void)
{
	struct asked a[4];

	start(&a[0], "both.test");
	OK(a[0].calls == 1, "cached: answered before the call returns");
	lookup_cancel(&a[0].wait);
	for (int i = 0; i < 4; i++)
		start(&a[i], "alias2.four.test");
	OK(a[0].calls == 0, "not cached: later");
	lookup_cancel(&a[1].wait);
	lookup_cancel(&a[1].wait);
	turn(3, PATIENT_MS);
	OK(a[0].calls == 1 && a[2].calls == 1 && a[3].calls == 1 &&
		   has(&a[3], "10.1.2.3"),
	   "three of four are told");
	OK(a[1].calls == 0, "the cancelled one is not");
	for (int i = 0; i < 3; i++)
		start(&a[i], "alias3.four.test");
	for (int i = 0; i < 3; i++) /* whoever comes first */
		a[i].cancel = &a[(i + 1) % 3];
	turn(2, PATIENT_MS);
	turn(1, 100);
	OK(a[0].calls + a[1].calls + a[2].calls == 2,
	   "a waiter that cancels the next one from inside");
}

static void hosts_first(uint16_t port)
{
	struct asked a;

	configure(port, "10.9.9.9 both.test\n10.9.9.8 short\n127.0.0.9 " HOST_INTERNAL);
	a = look("both.test");
	OK(a.calls == 1 && a.result.n == 1 && has(&a, "10.9.9.9"),
	   "the hosts file is first");
	a = look("short");
	OK(a.result.n == 1 && has(&a, "10.9.9.8"), "single labels too");
	a = look(HOST_INTERNAL);
	OK(a.result.n == 2 && has(&a, "127.0.0.1") && has(&a, "::1"),
	   "the host itself is loopback, whatever a file says");
	configure(port, NULL);
	a = look("both.test");
	OK(a.result.n == 2 && has(&a, "10.1.2.4"), "without it, and with an empty cache");
}

static void with_dnsmasq(void)
{
	uint16_t port;
	int status;
	pid_t pid;

	close(udp_socket(&port));
	pid = start_dnsmasq(port);
	if (pid < 0) {
		SKIP("dnsmasq is not installed");
		return;
	}
	OK(ready(port), "dnsmasq answers");
	real_answers();
	cached_and_shared();
	hosts_first(port);
	kill(pid, SIGTERM);
	waitpid(pid, &status, 0);
}

/* ---- servers that do not behave -------------------------------------------------- */

/* What a server does; the first letter of the name that is asked for. */
enum manner {
	SILENT = 'n',
	DROP_AAAA = 'd',
	WRONG_ID = 'i',
	WRONG_NAME = 'w',
	MANY = 'm',
	GARBAGE = 'g',
	SERVFAIL = 's'
};

static size_t add_address(uint8_t *p, size_t n, unsigned low)
{
	const uint8_t record[] = {0xc0,        0x0c, 0,  1, 0,
				  1,           0,    0,  0, 60,
				  0,           4,    10, 7, (uint8_t)(low >> 8),
				  (uint8_t)low};

	memcpy(p + n, record, sizeof(record));
	p[7]++;
	return n + sizeof(record);
}

static size_t answer(uint8_t *p, size_t n)
{
	size_t question = 12 + strlen((char *)p + 12) + 5;
	enum manner manner = (enum manner)p[13];
	bool v6 = p[question - 3] == 28;

	if (manner == SILENT || (manner == DROP_AAAA && v6))
		return 0;
	if (manner == GARBAGE)
		memset(p + 4, 0xff, n - 4);
	p[2] |= 0x80;
	p[3] = 0x80 | (manner == SERVFAIL ? 2 : 0);
	if (manner == GARBAGE)
		return n;
	p[1] ^= manner == WRONG_ID;
	p[13] ^= manner == WRONG_NAME;
	p[11] = 0;
	n = question;
	for (unsigned i = 0; !v6 && i < (manner == MANY ? 60 : 1); i++)
		n = add_address(p, n, i);
	return n;
}

static void serve(struct watch *w, uint32_t events)
{
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);
	uint8_t p[2048];
	ssize_t n = recvfrom(w->fd, p, 1000, 0, (struct sockaddr *)&from, &len);

	(void)events;
	if (n < 17)
		return;
	p[n] = 0;
	size_t out = answer(p, (size_t)n);

	if (out)
		sendto(w->fd, p, out, 0, (struct sockaddr *)&from, len);
}

static void bad_servers(void)
{
	int64_t began = now_ms();
	struct asked a = look("d.test"), bad[3];

	OK(a.result.n == 1 && has(&a, "10.7.0.0") && now_ms() - began < UPSTREAM_MS,
	   "AAAA is never answered: A is enough after %lld ms",
	   (long long)(now_ms() - began));
	OK(a.result.ttl <= 5, "and kept for a short time");
	a = look("m.test");
	OK(a.result.status == LOOKUP_OK && a.result.n == LOOKUP_ADDRS_MAX &&
		   a.result.ttl > 55,
	   "of 60 addresses the first 32");
	began = now_ms();
	a = look("s.test");
	OK(a.result.status == LOOKUP_FAILED && now_ms() - began < UPSTREAM_MS,
	   "SERVFAIL: %s", a.result.why);
	began = now_ms();
	start(&bad[0], "g.test");
	start(&bad[1], "i.test");
	start(&bad[2], "w.test");
	turn(3, PATIENT_MS);
	for (int i = 0; i < 3; i++)
		OK(bad[i].calls == 1 && bad[i].result.status == LOOKUP_FAILED &&
			   now_ms() - began < PROMPT_MS,
		   "%s is no answer: %s",
		   (const char *[]){"garbage", "another id", "another name"}[i],
		   bad[i].result.why);
}

/* All at once, as each takes the full time. */
static void bounds(void)
{
	static struct asked many[LOOKUP_PENDING_MAX + 8];
	unsigned busy = 0, failed = 0;
	char name[32];
	int64_t began = now_ms();

	for (unsigned i = 0; i < ARRAY_LEN(many); i++) {
		snprintf(name, sizeof(name), "n%u.test", i);
		start(&many[i], name);
		busy += many[i].calls && many[i].result.status == LOOKUP_BUSY;
	}
	OK(busy == 8, "%d pending, then busy (%u)", LOOKUP_PENDING_MAX, busy);
	turn(LOOKUP_PENDING_MAX, PATIENT_MS);
	for (unsigned i = 0; i < ARRAY_LEN(many); i++)
		failed += many[i].calls == 1 && many[i].result.status == LOOKUP_FAILED;
	OK(failed == LOOKUP_PENDING_MAX && now_ms() - began < PROMPT_MS,
	   "nobody answers: all %u end after %lld ms", failed,
	   (long long)(now_ms() - began));
	start(&many[0], "n1.test");
	OK(many[0].calls == 1 && many[0].result.status == LOOKUP_FAILED,
	   "a failure is remembered");
	start(&many[1], "nagain.test");
	OK(many[1].calls == 0, "and there is room again");
}

static void no_server(void)
{
	struct asked a;

	lookup_configure(lookup, "", NULL);
	start(&a, "x.test");
	OK(a.calls == 1 && a.result.status == LOOKUP_FAILED, "no server: %s",
	   a.result.why);
	lookup_configure(lookup, "garbage,127.0.0.1#99999,1.2.3.4#,fe80::1%eth0", NULL);
	start(&a, "y.test");
	OK(a.calls == 1 && a.result.status == LOOKUP_FAILED, "no usable one: %s",
	   a.result.why);
}

int main(void)
{
	struct watch server;
	uint16_t port;

	if (loop_new(&loop) < 0 || lookup_new(&lookup, loop) < 0)
		abort();
	no_server();
	with_dnsmasq();
	int fd = udp_socket(&port);

	if (watch_start(loop, &server, fd, EPOLLIN, serve) < 0)
		abort();
	configure(port, NULL);
	bad_servers();
	bounds();
	watch_stop(loop, &server);
	close(fd);
	lookup_free(lookup); /* with questions under way */
	loop_free(loop);
	return tap_done();
}
