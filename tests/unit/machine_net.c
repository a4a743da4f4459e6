/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's pump and the real, confined cove-egress, as the keeper starts it: what the
 * role may do must be enough for a machine's network, and whom the guest names must reach
 * the keeper.
 */
#include "base/util.h"
#include "core/egress.h"
#include "dns_client.h"
#include "guest/machine_root.h"
#include "guest/netpump.h"
#include "tap.h"

#include <arpa/inet.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define SERVER "203.0.113.5" /* an address of documentation, on the host's lo */
#define PORT 7001
#define BULK (16u << 20)

static struct egress_host *host;
static struct egress_who asked;
static volatile bool stop;

int machine_loopback(void)
{
	cleanup_fd int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq q = {.ifr_name = "lo", .ifr_flags = IFF_UP};

	return ioctl(s, SIOCSIFFLAGS, &q);
}

/* ---- the host ------------------------------------------------------------------- */

static void add_address(void)
{
	cleanup_fd int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq q = {.ifr_name = "lo:1"};
	struct sockaddr_in a = {.sin_family = AF_INET};

	inet_pton(AF_INET, SERVER, &a.sin_addr);
	memcpy(&q.ifr_addr, &a, sizeof(a));
	if (ioctl(s, SIOCSIFADDR, &q) < 0)
		abort();
}

static bool send_all(int s, const char *p, size_t n)
{
	while (n) {
		ssize_t w = send(s, p, n, MSG_NOSIGNAL);

		if (w <= 0)
			return false;
		p += w;
		n -= (size_t)w;
	}
	return true;
}

/* Sends back what comes; to a request of HTTP, an answer. */
static void serve_one(int s)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
	char b[65536];
	ssize_t n;

	while ((n = recv(s, b, sizeof(b), 0)) > 0) {
		bool http = memcmp(b, "GET ", 4) == 0;

		if (!send_all(s, http ? answer : b, http ? strlen(answer) : (size_t)n))
			break;
	}
	_exit(0);
}

static pid_t serve(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	pid_t pid;

	if (bind(s, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(s, 64) < 0)
		abort();
	pid = fork();
	if (pid)
		close(s);
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGCHLD, pid ? SIG_DFL : SIG_IGN);
	while (pid == 0) {
		int c = accept(s, NULL, NULL);

		if (fork() == 0)
			serve_one(c);
		close(c);
	}
	return pid;
}

static void on_who(void *arg, const struct egress_who *q, json_t *answer)
{
	(void)arg;
	asked = *q;
	json_object_set_new(answer, "exec", json_string("1"));
}

static int start_role(struct cove_error *err)
{
	static const char text[] = "network:\n  mode: allowlist\n  rules:\n"
				   "  - host: " SERVER "\n";
	cleanup_buf struct buf problems = BUF_INIT(4096);
	static struct spec s;
	struct egress_config c = {
		.name = "test", .spec = &s, .log = -1, .owner = {.who = on_who}};

	spec_init(&s);
	if (spec_parse(&s, text, strlen(text), "test", &problems, err) < 0)
		return err->code;
	return egress_start(&host, &c, err);
}

static void *turn(void *arg)
{
	struct cove_error err = {0};

	(void)arg;
	while (!stop) {
		struct pollfd p = {.fd = egress_fd(host), .events = POLLIN};

		if (poll(&p, 1, 50) > 0 && egress_turn(host, &err) < 0) {
			printf("# %s\n", err.msg);
			break;
		}
	}
	return NULL;
}

/* ---- a program ------------------------------------------------------------------ */

static int connect_to(const char *host_, uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, host_, &a.sin_addr);
	if (connect(s, (struct sockaddr *)&a, sizeof(a)) < 0)
		close_fd(&s);
	return s;
}

static bool hears(int s, const char *text)
{
	char b[512] = "";
	size_t n = 0;
	ssize_t r;

	while (n < sizeof(b) - 1 && !strstr(b, text) &&
	       (r = recv(s, b + n, sizeof(b) - 1 - n, 0)) > 0)
		n += (size_t)r;
	return strstr(b, text) != NULL;
}

static void http(void)
{
	static const char good[] = "GET / HTTP/1.1\r\nHost: " SERVER ":7001\r\n\r\n";
	static const char bad[] = "GET / HTTP/1.1\r\nHost: 192.0.2.1:7001\r\n\r\n";
	cleanup_fd int s = connect_to(SERVER, PORT);
	bool told = false;

	OK(s >= 0 && send(s, good, strlen(good), 0) > 0 && hears(s, "200 OK"),
	   "a request that is allowed");
	/* Who says nothing for 300 ms gets no words: more than one chance on a slow
	 * machine. */
	for (int i = 0; i < 20 && !told; i++) {
		cleanup_fd int no = connect_to("192.0.2.1", PORT);

		told = no >= 0 && send(no, bad, strlen(bad), MSG_NOSIGNAL) > 0 &&
		       hears(no, "denied by cove");
	}
	OK(told, "one that is not");
}

static void *send_bulk(void *arg)
{
	static char block[65536];
	int s = *(int *)arg;

	for (uint32_t n = 0; n < BULK; n += sizeof(block))
		if (!send_all(s, block, sizeof(block)))
			return NULL;
	shutdown(s, SHUT_WR);
	return NULL;
}

static void bulk(void)
{
	cleanup_fd int s = connect_to(SERVER, PORT);
	static char block[65536];
	size_t n = 0;
	ssize_t r;
	pthread_t t;

	pthread_create(&t, NULL, send_bulk, &s);
	while ((r = recv(s, block, sizeof(block), 0)) > 0)
		n += (size_t)r;
	pthread_join(t, NULL);
	OK(n == BULK && r == 0, "bulk, there and back, and its end");
}

static void names(void)
{
	struct message q = ask("no.test", 1, true), m;

	m = exchange("10.1.2.3", &q, 30000);
	OK(rcode(&m) == 3, "a name that nobody may ask for");
}

/* A child of ours, which stands for the first process, is an exec. */
static void who(void)
{
	static const char good[] = "GET / HTTP/1.1\r\nHost: " SERVER ":7001\r\n\r\n";
	struct cove_error err = {0};
	pid_t pid = -1;
	int status = -1;

	OK(egress_who_always(host, &err) == 0, "everybody's name is asked %s", err.msg);
	/* An answer has 700 ms: more than one chance on a slow machine. */
	for (int i = 0; i < 20 && status != 0; i++) {
		pid = fork();
		if (pid == 0) {
			int s = connect_to(SERVER, PORT);

			_exit(!(s >= 0 && send(s, good, strlen(good), 0) > 0 &&
				hears(s, "200 OK")));
		}
		while (waitpid(pid, &status, WNOHANG) == 0) {
			struct pollfd p = {.fd = egress_fd(host), .events = POLLIN};

			if (poll(&p, 1, 50) > 0)
				egress_turn(host, &err);
		}
	}
	OK(status == 0, "and who has one may connect");
	OK(asked.told && asked.guest.pid == pid && asked.guest.root == (uint32_t)pid &&
		   strcmp(asked.guest.program, "machine_net") == 0,
	   "as the guest says");
}

static bool find_role(void)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 32);
	char *slash;

	path[n > 0 ? n : 0] = '\0';
	for (int i = 0; i < 2; i++)
		if ((slash = strrchr(path, '/')))
			*slash = '\0';
	strncat(path, "/cove-egress", 31);
	return access(path, X_OK) == 0 && setenv("COVE_EGRESS", path, 0) == 0;
}

int main(void)
{
	struct cove_error err = {0};
	pthread_t t;
	pid_t server;
	int pair[2];

	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGPIPE, SIG_IGN);
	alarm(300); /* whatever waits for ever fails the whole */
	if (!find_role() || unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0 ||
	    machine_loopback() < 0) {
		SKIP("no namespaces here, or no cove-egress beside");
		return tap_done();
	}
	add_address();
	server = serve();
	OK(start_role(&err) == 0, "the role starts %s", err.msg);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) <
		    0 ||
	    unshare(CLONE_NEWNET) < 0)
		return 1;
	OK(egress_take_stream(host, &pair[0], &err) == 0 && pair[0] == -1,
	   "it takes a machine's stream %s", err.msg);
	if (netpump_start(pair[1]) < 0) {
		SKIP("no transparent proxying here");
		return tap_done();
	}
	pthread_create(&t, NULL, turn, NULL);
	http();
	bulk();
	names();
	/* From here on this thread takes the answers. */
	stop = true;
	pthread_join(t, NULL);
	who();
	egress_stop(host);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	return tap_done();
}
