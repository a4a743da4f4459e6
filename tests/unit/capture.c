/* SPDX-License-Identifier: Apache-2.0 */
/* A place whose network is caught: started for real, looked at from inside its network
 * namespace, with the sockets that came out of it on the other side. */
#include "backend/backend.h"
#include "backend/proc_child_impl.h"
#include "base/io.h"
#include "base/util.h"
#include "guest_client.h"
#include "tap.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static struct place place;
static char cache[] = "/tmp/cove-capture-XXXXXX";
static char guest[PATH_MAX];

/* ---- the place ------------------------------------------------------------------ */

static struct place_config config;

static int start_place(struct spec *s, bool capture, struct cove_error *err)
{
	const struct place_config c = {
		.spec = s,
		.id = capture ? "test-capture" : "test-no-capture",
		.hostname = "test",
		.cache_dir = cache,
		.guest = guest,
		.uid = 1000,
		.gid = 1000,
		.home = "/home/agent",
		.degraded = true,
		.capture = capture,
	};

	config = c;
	return backend_process.start(&place, &c, err);
}

static void stop_place(void)
{
	backend_process.kill(&place);
	backend_process.release(&place);
}

static int enter(const char *ns)
{
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)place.pid, ns);
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	r = fd < 0 ? -1 : setns(fd, 0);
	return r;
}

/* Runs fn in the sandbox's network, without its confinement; what fn returns. */
static int inside(int (*fn)(const void *), const void *arg)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		/* As root, the user namespace is not ours to join: the network's is
		 * enough. */
		if (geteuid() != 0 && enter("user") < 0)
			_exit(99);
		if (enter("net") < 0)
			_exit(98);
		_exit(fn(arg));
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 97;
}

/* ---- addresses ------------------------------------------------------------------ */

static socklen_t address(const char *text, uint16_t port, struct sockaddr_storage *ret)
{
	struct sockaddr_in *a4 = (struct sockaddr_in *)(void *)ret;
	struct sockaddr_in6 *a6 = (struct sockaddr_in6 *)(void *)ret;

	memset(ret, 0, sizeof(*ret));
	if (inet_pton(AF_INET, text, &a4->sin_addr) == 1) {
		a4->sin_family = AF_INET;
		a4->sin_port = htons(port);
		return sizeof(*a4);
	}
	inet_pton(AF_INET6, text, &a6->sin6_addr);
	a6->sin6_family = AF_INET6;
	a6->sin6_port = htons(port);
	return sizeof(*a6);
}

static int same_address(const struct sockaddr_storage *a, const char *text, uint16_t port)
{
	struct sockaddr_storage b;
	socklen_t n = address(text, port, &b);

	/* port and address lie at the same place, with or without flow and scope */
	return a->ss_family == b.ss_family &&
	       (n == sizeof(struct sockaddr_in)
			? memcmp(a, &b, 8) == 0
			: memcmp((const char *)a + 2, (const char *)&b + 2, 2) == 0 &&
				  memcmp((const char *)a + 8, (const char *)&b + 8, 16) ==
					  0);
}

/* ---- TCP ------------------------------------------------------------------------ */

struct target {
	const char *to;
	uint16_t port;
	int expect; /* errno, or 0 and it is caught */
};

static const struct target tcp_targets[] = {
	{"8.8.8.8",         443,   0           },
	{"198.18.0.7",      22,    0           },
	{"169.254.169.254", 80,    0           },
	{"10.0.0.1",        1,     0           },
	{"192.168.255.255", 65535, 0           },
	{"fd00::5",         443,   0           },
	{"2001:db8::1",     80,    0           },
	{"64:ff9b::1",      80,    0           },
	{"224.0.0.1",       80,    EHOSTUNREACH},
	{"255.255.255.255", 80,    EHOSTUNREACH},
	{"127.0.0.1",       9999,  ECONNREFUSED},
	{"127.1.2.3",       53,    ECONNREFUSED},
	{"192.0.0.8",       9999,  ECONNREFUSED}, /* its own */
	{"::1",             9999,  ECONNREFUSED},
};

/* Connects and expects "hi". */
static int connect_tcp(const void *arg)
{
	const struct target *t = arg;
	struct sockaddr_storage to;
	socklen_t n = address(t->to, t->port, &to);
	int s = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char got[2] = "";

	alarm(5);
	if (connect(s, (struct sockaddr *)&to, n) < 0)
		return errno;
	return recv(s, got, 2, MSG_WAITALL) == 2 && memcmp(got, "hi", 2) == 0 ? 0 : 96;
}

static void serve_one(const struct target *t)
{
	int which = strchr(t->to, ':') ? CAPTURE_TCP6 : CAPTURE_TCP4;
	struct pollfd p = {.fd = place.capture[which], .events = POLLIN};
	struct sockaddr_storage to;
	socklen_t n = sizeof(to);
	int s;

	if (poll(&p, 1, 5000) != 1)
		_exit(1);
	s = accept4(p.fd, NULL, NULL, SOCK_CLOEXEC);
	if (s < 0 || getsockname(s, (struct sockaddr *)&to, &n) < 0)
		_exit(2);
	if (!same_address(&to, t->to, t->port))
		_exit(3);
	_exit(write(s, "hi", 2) == 2 ? 0 : 4);
}

static void try_tcp(const struct target *t)
{
	pid_t server = -1;
	int status = 0, r;

	if (!t->expect && (server = fork()) == 0)
		serve_one(t);
	r = inside(connect_tcp, t);
	if (server > 0)
		waitpid(server, &status, 0);
	OK(r == t->expect && status == 0, "tcp %s port %u: %s (%d, server %d)", t->to,
	   t->port, t->expect ? strerror(t->expect) : "caught", r, status);
}

/* ---- UDP ------------------------------------------------------------------------ */

static const struct target udp_targets[] = {
	{"8.8.8.8",         53,   0           },
	{"127.0.0.53",      53,   0           },
	{"2001:db8::53",    53,   0           },
	{"::1",             53,   0           },
	{"8.8.8.8",         443,  ECONNREFUSED},
	{"2001:db8::1",     443,  ECONNREFUSED},
	{"127.0.0.1",       5353, ECONNREFUSED},
	{"224.0.0.251",     5353, EHOSTUNREACH},
	{"255.255.255.255", 67,   EHOSTUNREACH},
	{"ff0e::fb",        5353, EHOSTUNREACH},
};

static int exchange_udp(const void *arg)
{
	const struct target *t = arg;
	struct sockaddr_storage to;
	socklen_t n = address(t->to, t->port, &to);
	int s = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char got[8];

	alarm(5);
	setsockopt(s, SOL_SOCKET, SO_BROADCAST, &(int){1}, sizeof(int));
	if (connect(s, (struct sockaddr *)&to, n) < 0 || send(s, "ask", 3, 0) < 0)
		return errno;
	/* connected: only an answer from the very address that was asked arrives */
	return recv(s, got, sizeof(got), 0) == 3 ? 0 : errno;
}

/* Answers from the address that was asked, as the role does. */
static void answer_one(const struct target *t)
{
	bool six = strchr(t->to, ':') != NULL;
	int s = place.capture[six ? CAPTURE_UDP6 : CAPTURE_UDP4], on = 1;
	struct pollfd p = {.fd = s, .events = POLLIN};
	struct sockaddr_storage from;
	char data[8], control[128] __attribute__((aligned(8)));
	struct iovec iov = {data, sizeof(data)};
	struct msghdr m = {.msg_name = &from,
			   .msg_namelen = sizeof(from),
			   .msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	ssize_t n;

	setsockopt(s, six ? IPPROTO_IPV6 : IPPROTO_IP,
		   six ? IPV6_RECVPKTINFO : IP_PKTINFO, &on, sizeof(on));
	if (poll(&p, 1, 5000) != 1)
		_exit(1);
	n = recvmsg(s, &m, 0);
	if (n != 3)
		_exit(2);
	iov.iov_len = (size_t)n;
	if (!six) { /* to be sent from where it was sent to */
		struct in_pktinfo *i = (struct in_pktinfo *)(void *)CMSG_DATA(
			(struct cmsghdr *)(void *)control);

		i->ipi_spec_dst = i->ipi_addr;
	}
	if (sendmsg(s, &m, 0) != n) {
		printf("# answer to %s: %s\n", t->to, strerror(errno));
		fflush(stdout);
		_exit(3);
	}
	_exit(0);
}

static void try_udp(const struct target *t)
{
	pid_t server = -1;
	int status = 0, r;

	if (!t->expect && (server = fork()) == 0)
		answer_one(t);
	if (server > 0)
		usleep(20000); /* PKTINFO is on before the question comes */
	r = inside(exchange_udp, t);
	if (server > 0)
		waitpid(server, &status, 0);
	OK(r == t->expect && status == 0, "udp %s port %u: %s (%d, server %d)", t->to,
	   t->port, t->expect ? strerror(t->expect) : "answered", r, status);
}

/* ---- rules ---------------------------------------------------------------------- */

static int list_rules(const void *arg)
{
	dup2(*(const int *)arg, 1);
	execlp("nft", "nft", "list", "ruleset", NULL);
	execl("/usr/sbin/nft", "nft", "list", "ruleset", NULL);
	return 127;
}

static void try_rules(void)
{
	static const char *const lines[] = {
		"table inet cove {",
		"type filter hook prerouting priority mangle; policy accept;",
		"meta l4proto tcp ip daddr != 127.0.0.0/8 ip daddr != 192.0.0.8 "
		"tproxy ip to 127.255.255.254:1",
		"meta l4proto tcp ip6 daddr != ::1 tproxy ip6 to [::1]:1",
	};
	char text[2048] = "";
	int p[2], r;
	ssize_t n;

	if (pipe2(p, O_CLOEXEC) < 0)
		return;
	r = inside(list_rules, &p[1]);
	close(p[1]);
	n = read(p[0], text, sizeof(text) - 1);
	close(p[0]);
	if (r == 127 || n <= 0) {
		SKIP("no nft here to read the rules with");
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		OK(strstr(text, lines[i]), "nft reads the rule as meant: %s", lines[i]);
	if (tap_failed)
		fprintf(stderr, "%s", text);
}

/* ---- what else ------------------------------------------------------------------ */

static void try_attest(bool capture)
{
	const char *want =
		capture ? "every connection caught" : "no route to any address";
	struct cove_error err = {0};
	json_t *items = json_array(), *item;
	bool found = false;
	size_t i;

	backend_process.attest(&place, &config, items, &err);
	json_array_foreach(items, i, item)
	{
		if (strcmp(json_string_value(json_object_get(item, "item")), "network"))
			continue;
		found = json_is_true(json_object_get(item, "ok")) &&
			strcmp(json_string_value(json_object_get(item, "actual")),
			       want) == 0;
	}
	OK(found, "attest: %s", want);
	json_decref(items);
}

/* A kernel without IPv6 has the other half, and as many sockets. */
static void try_without_ipv6(void)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		struct netcapture n;
		int fds[CAPTURE_COUNT];

		netcapture_build(&n, false);
		_exit(unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0 ? 1
		      : child_loopback_up() < 0                 ? 2
		      : capture_open(&n, fds) < 0               ? 3
								: 0);
	}
	waitpid(pid, &status, 0);
	OK(status == 0, "half of it works without IPv6 (%d)", status >> 8);
}

static void try_probe(void)
{
	json_t *checks = json_array(), *c;
	struct cove_error err = {0};
	bool found = false;
	size_t i;

	backend_process.probe(&(struct place_config){0}, checks, &err);
	json_array_foreach(checks, i, c)
	{
		if (strcmp(json_string_value(json_object_get(c, "name")), "network") == 0)
			found = json_is_true(json_object_get(c, "ok"));
	}
	OK(found, "the probe says that it works here");
	json_decref(checks);
}

/* ---- time ----------------------------------------------------------------------- */

static double start_ms(struct spec *s, bool capture)
{
	struct timespec a, b;
	struct cove_error err = {0};

	clock_gettime(CLOCK_MONOTONIC, &a);
	if (start_place(s, capture, &err) < 0)
		return 1e9;
	clock_gettime(CLOCK_MONOTONIC, &b);
	stop_place();
	return (double)(b.tv_sec - a.tv_sec) * 1e3 +
	       (double)(b.tv_nsec - a.tv_nsec) / 1e6;
}

static void show_cost(struct spec *s)
{
	double best[2] = {1e9, 1e9};

	for (int i = 0; i < 20; i++) {
		double t = start_ms(s, i & 1);

		if (t < best[i & 1])
			best[i & 1] = t;
	}
	printf("# start: %.2f ms, with capture %.2f ms\n", best[0], best[1]);
}

int main(void)
{
	struct cove_error err = {0};
	struct spec s;

	signal(SIGPIPE, SIG_IGN);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!client_guest_path(guest, sizeof(guest)) || !mkdtemp(cache))
		return 1;
	spec_init(&s);
	if (start_place(&s, false, &err) < 0) {
		printf("1..0 # SKIP no place here: %s\n", err.msg);
		return 0;
	}
	OK(place.capture[0] == -1 && place.capture[CAPTURE_DIAG] == -1,
	   "without capture there are no sockets");
	OK(inside(connect_tcp, &tcp_targets[0]) == ENETUNREACH,
	   "and nothing is reachable");
	try_attest(false);
	stop_place();
	OK(start_place(&s, true, &err) == 0, "a place with capture starts %s", err.msg);
	if (err.code < 0)
		return tap_done();
	for (size_t i = 0; i < CAPTURE_COUNT; i++)
		OK(place.capture[i] >= 0 &&
			   (fcntl(place.capture[i], F_GETFD) & FD_CLOEXEC),
		   "socket %zu is there and does not outlive an exec", i);
	try_attest(true);
	try_probe();
	try_without_ipv6();
	try_rules();
	for (size_t i = 0; i < ARRAY_LEN(tcp_targets); i++)
		try_tcp(&tcp_targets[i]);
	for (size_t i = 0; i < ARRAY_LEN(udp_targets); i++)
		try_udp(&udp_targets[i]);
	stop_place();
	show_cost(&s);
	spec_clear(&s);
	remove_tree_at(AT_FDCWD, cache); /* the copy of /etc */
	return tap_done();
}
