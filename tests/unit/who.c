/* SPDX-License-Identifier: Apache-2.0 */
/* Whose socket is it: real processes, a family of which the "first" one is a child of
 * ours. Each case opens sockets in one way and names the process that must be found. */
#include "os/who.h"
#include "base/util.h"
#include "core/execs.h"
#include "policy/addr.h"
#include "tap.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

struct shared {
	volatile pid_t root, holder; /* that should be found */
	volatile uint16_t port;      /* of the socket */
	volatile int ready;
};
static struct shared *shared;
static int diag, listener4, listener6, server_udp;
static uint16_t port4, port6, port_udp;

static int listen_on(int family, int type, uint16_t *ret)
{
	struct sockaddr_in a4 = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6,
				  .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr *a =
		family == AF_INET ? (struct sockaddr *)&a4 : (struct sockaddr *)&a6;
	socklen_t n = family == AF_INET ? sizeof(a4) : sizeof(a6);
	int s = socket(family, type | SOCK_CLOEXEC, 0);

	if (bind(s, a, n) < 0 || (type == SOCK_STREAM && listen(s, 64) < 0) ||
	    getsockname(s, a, &n) < 0)
		perror("listen");
	*ret = ntohs(family == AF_INET ? a4.sin_port : a6.sin6_port);
	return s;
}

/* ---- the ways to have a socket -------------------------------------------------- */

static void note_port(int s)
{
	struct sockaddr_in6 a;
	socklen_t n = sizeof(a);

	getsockname(s, (struct sockaddr *)&a, &n);
	shared->port = ntohs(a.sin6_port); /* at the same place for both families */
}

static int open_v4(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(port4),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int s = socket(AF_INET, SOCK_STREAM, 0);

	if (connect(s, (struct sockaddr *)&to, sizeof(to)) < 0)
		perror("connect");
	note_port(s);
	return s;
}

static int open_v6(const char *host, uint16_t port)
{
	struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	int s = socket(AF_INET6, SOCK_STREAM, 0);

	inet_pton(AF_INET6, host, &to.sin6_addr);
	if (connect(s, (struct sockaddr *)&to, sizeof(to)) < 0)
		perror("connect");
	note_port(s);
	return s;
}

/* Not connected: known by its port only. */
static int open_udp(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(port_udp),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int s = socket(AF_INET, SOCK_DGRAM, 0);

	sendto(s, "x", 1, 0, (struct sockaddr *)&to, sizeof(to));
	note_port(s);
	return s;
}

static void *sleep_forever(void *arg)
{
	(void)arg;
	shared->ready = 1;
	for (;;)
		pause();
	return NULL;
}

static void wait_forever(void)
{
	shared->ready = 1;
	for (;;)
		pause();
}

static void hold(void)
{
	shared->holder = getpid();
	wait_forever();
}

/* ---- cases: what runs as the first process -------------------------------------- */

static pid_t spawn(void (*fn)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		fn();
		_exit(0);
	}
	return pid;
}

static void exec_v4(void)
{
	open_v4();
	hold();
}

static void exec_grandchild(void)
{
	if (fork() == 0 && fork() == 0) {
		open_v4();
		hold();
	}
	for (;;)
		pause();
}

static void exec_v6(void)
{
	open_v6("::1", port6);
	hold();
}

static void exec_mapped(void)
{
	open_v6("::ffff:127.0.0.1", port4);
	hold();
}

static void exec_udp(void)
{
	open_udp();
	hold();
}

static void exec_threads(void)
{
	pthread_t t;

	open_v4();
	shared->holder = getpid();
	pthread_create(&t, NULL, sleep_forever, NULL);
	pthread_exit(NULL); /* the first thread is gone, the process is not */
}

static void exec_many_files(void)
{
	for (int i = 0; i < 500; i++)
		(void)!open("/dev/null", O_RDONLY);
	open_v4();
	hold();
}

static void exec_closed(void)
{
	close(open_v4());
	hold();
}

/* Nobody has the socket that is asked for; this one only listens on its port. */
static void exec_listens(void)
{
	uint16_t port;

	listen_on(AF_INET, SOCK_STREAM, &port);
	shared->port = port;
	hold();
}

/* Another exec beside it, with sockets and children of its own. */
static void noise(void)
{
	fork();
	for (;;)
		pause();
}

static void forker(void)
{
	for (;;) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(0);
		waitpid(pid, NULL, 0);
	}
}

static void (*exec_of_case)(void);

static void first_one_exec(void)
{
	spawn(noise);
	shared->root = spawn(exec_of_case);
	spawn(noise);
	for (;;)
		pause();
}

static void first_busy(void)
{
	spawn(forker);
	first_one_exec();
}

static void first_shared(void)
{
	open_v4();
	spawn(wait_forever);
	spawn(wait_forever);
	for (;;)
		pause();
}

static void first_own(void)
{
	open_v4();
	hold();
}

static void orphan_maker(void)
{
	if (fork() == 0) {
		while (!shared->root || getppid() == shared->root)
			usleep(1000);
		open_v4();
		hold();
	}
}

static void first_orphan(void)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	shared->root = spawn(orphan_maker);
	for (;;)
		wait(NULL);
}

/* ---- running a case ------------------------------------------------------------- */

static const struct test {
	const char *what;
	void (*first)(void), (*exec)(void);
	bool udp, six;
	int expect;
} tests[] = {
	{"a socket of the exec's first process", first_one_exec, exec_v4,         false, false,
	 0											    },
	{"a grandchild's",                       first_one_exec, exec_grandchild, false, false, 0     },
	{"an IPv6 one",			  first_one_exec, exec_v6,         false, true,  0     },
	{"an IPv4 connection of an IPv6 socket", first_one_exec, exec_mapped,     false,
	 false,										 0     },
	{"a UDP socket that is not connected",   first_one_exec, exec_udp,        true,  false, 0     },
	{"a process whose first thread ended",   first_one_exec, exec_threads,    false, false,
	 0											    },
	{"one among 500 descriptors",            first_one_exec, exec_many_files, false, false, 0     },
	{"with processes that come and go",      first_busy,     exec_v4,         false, false, 0     },
	{"a closed socket is nobody's",          first_one_exec, exec_closed,     false, false,
	 -ESRCH										       },
	{"nor is one whose port is listened on", first_one_exec, exec_listens,    false,
	 false,										 -ESRCH},
	{"what two execs hold is nobody's",      first_shared,   NULL,            false, false, -ESRCH},
	{"the first process is no exec",         first_own,      NULL,            false, false, -ESRCH},
};

static void end_group(pid_t first)
{
	/* Ours to wait for, all of them: init may take seconds. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	kill(-first, SIGKILL);
	while (waitpid(-first, NULL, 0) > 0)
		;
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	while (kill(-first, 0) == 0) /* who was an orphan before is init's */
		usleep(1000);
}

static pid_t begin(void (*first)(void), void (*exec)(void))
{
	pid_t pid;

	*shared = (struct shared){0};
	exec_of_case = exec;
	pid = fork();
	if (pid == 0) {
		setpgid(0, 0);
		first();
		_exit(0);
	}
	setpgid(pid, pid);
	/* Both of them, and either may be the last: an exec's process and who spawned it.
	 */
	for (int i = 0; (!shared->ready || (exec && !shared->root)) && i < 5000; i++)
		usleep(1000);
	usleep(2000);
	return pid;
}

static int look(pid_t first, bool udp, bool six, struct who *w)
{
	struct sockaddr_storage from, to;
	struct addr a;

	addr_parse(six ? "::1" : "127.0.0.1", &a);
	addr_to_sockaddr(&a, shared->port, &from);
	addr_to_sockaddr(&a, udp ? port_udp : six ? port6 : port4, &to);
	return who_has(diag, first, udp, (struct sockaddr *)&from, (struct sockaddr *)&to,
		       w);
}

static void run(const struct test *t)
{
	pid_t first = begin(t->first, t->exec);
	struct who w = {0};
	int r = look(first, t->udp, t->six, &w);

	if (t->expect)
		OK(r == t->expect && w.pid == 0, "%s (%d)", t->what, r);
	else
		OK(r == 0 && w.pid == shared->holder &&
			   w.root == (uint32_t)shared->root &&
			   strcmp(w.program, "who") == 0 && w.started > 0 &&
			   w.started <= who_now(),
		   "%s (%d, pid %d of %d, root %u of %d, %s)", t->what, r, (int)w.pid,
		   (int)shared->holder, w.root, (int)shared->root, w.program);
	end_group(first);
}

/* Its parents are gone: it is its own root, which is no exec's number. */
static void try_orphan(void)
{
	pid_t first = begin(first_orphan, NULL);
	struct who w = {0};
	int r = look(first, false, false, &w);

	OK(r == 0 && w.root == (uint32_t)shared->holder &&
		   w.root != (uint32_t)shared->root,
	   "an orphan is not taken for a part of the exec that left it");
	end_group(first);
}

/* An exec's number, given out again after its end, does not make somebody that exec. */
static void try_numbers(void)
{
	struct execs x = {0};
	const struct exec_info *e;

	execs_sent(&x, 7, NULL, 0);
	OK(!execs_find(&x, 42, 10), "an exec without a process is not found");
	execs_started(&x, 7, 42, 1000);
	e = execs_find(&x, 42, 1000);
	OK(e && e->number == 1, "its first process is");
	execs_ended(&x, 7);
	OK(execs_find(&x, 42, 999) == e, "also after the stream's end");
	OK(!execs_find(&x, 42, 1001), "a later process of that number is not");
	for (uint32_t i = 0; i < 2 * EXECS_MAX; i++) {
		if (execs_sent(&x, 8 + i % 100, NULL, 0) < 0)
			OK(false, "number %u", i);
		execs_ended(&x, 8 + i % 100);
	}
	OK(x.n == EXECS_MAX, "those that have ended make room");
	execs_clear(&x);
}

static void show_time(void)
{
	pid_t first = begin(first_one_exec, exec_v4);
	struct timespec a, b;
	struct who w;

	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < 200; i++)
		look(first, false, false, &w);
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("# %.0f us for one of 6 processes\n",
	       ((double)(b.tv_sec - a.tv_sec) * 1e6 +
		(double)(b.tv_nsec - a.tv_nsec) / 1e3) /
		       200);
	end_group(first);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	diag = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	listener4 = listen_on(AF_INET, SOCK_STREAM, &port4);
	listener6 = listen_on(AF_INET6, SOCK_STREAM, &port6);
	server_udp = listen_on(AF_INET, SOCK_DGRAM, &port_udp);
	for (size_t i = 0; i < ARRAY_LEN(tests); i++)
		run(&tests[i]);
	try_orphan();
	try_numbers();
	show_time();
	return tap_done();
}
