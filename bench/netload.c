// SPDX-License-Identifier: Apache-2.0
/*
 * netload - a server and a client that measure a way through: new connections, round
 * trips on a kept one, bulk, many held open. Static, so that it runs anywhere.
 *
 *	netload serve PORT
 *	netload [--hello NAME] connect|rate|ping|bulk|push|hold HOST PORT COUNT [PARALLEL]
 *
 * With --hello a connection begins with the ClientHello of a TLS client for NAME, which
 * the server skips: what carries it must judge it as TLS that passes through, and no
 * cipher takes part in what is measured. Then comes one line: "P\n" (every byte is
 * echoed), "B N\n" (N bytes are sent) or "U N\n" (N bytes are read, then one is sent).
 * Prints one line of JSON.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define CHUNK (256 * 1024)

static const char *hello_name;
static struct sockaddr_storage target;
static socklen_t target_len;

__attribute__((noreturn)) static void die(const char *what)
{
	fprintf(stderr, "netload: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void *room(size_t n, size_t each)
{
	void *p = calloc(n, each);

	if (!p)
		die("memory");
	return p;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- the server ------------------------------------------------------------------- */

struct peer {
	int fd;
	int skip; /* bytes of the ClientHello that are still to come; -1: not known */
	bool echo;
	uint64_t left;   /* to send */
	uint64_t expect; /* to read before one byte is sent */
	char line[64];
	int n;
};

static char zeros[CHUNK];

static void drop(struct peer *p)
{
	close(p->fd);
	free(p);
}

/* One byte of what comes before the data. */
static void begin(struct peer *p, unsigned char c)
{
	unsigned long long n;

	p->line[p->n++ % 63] = (char)c;
	if (p->skip < 0 && p->n == 1 && c != 0x16)
		p->skip = 0;
	if (p->skip < 0) {
		if (p->n == 5) {
			p->skip = ((unsigned char)p->line[3] << 8 |
				   (unsigned char)p->line[4]);
			p->n = 0;
		}
		return;
	}
	if (p->skip > 0) {
		p->skip--;
		p->n = 0;
		return;
	}
	if (c != '\n')
		return;
	p->line[p->n] = '\0';
	p->echo = p->line[0] == 'P';
	if (sscanf(p->line, "B %llu", &n) == 1)
		p->left = n;
	if (sscanf(p->line, "U %llu", &n) == 1)
		p->expect = n;
	p->n = -1;
}

/* What was read for "U": the last of it makes an answer of one byte. */
static void swallow(struct peer *p, uint64_t n)
{
	if (!p->expect)
		return;
	p->expect -= n < p->expect ? n : p->expect;
	p->left += p->expect == 0;
}

static bool serve_peer(int ep, struct peer *p, uint32_t events)
{
	static char buf[CHUNK];
	ssize_t n;

	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
		ssize_t at = 0;

		n = recv(p->fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN))
			return false;
		while (n > 0 && at < n && p->n >= 0)
			begin(p, (unsigned char)buf[at++]);
		if (p->echo && n > at &&
		    send(p->fd, buf + at, (size_t)(n - at), MSG_NOSIGNAL) < 0)
			return false;
		swallow(p, n > at ? (uint64_t)(n - at) : 0);
	}
	while (p->left) {
		n = send(p->fd, zeros, p->left < CHUNK ? p->left : CHUNK,
			 MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN)
			return false;
		if (n < 0) {
			struct epoll_event e = {.events = EPOLLIN | EPOLLOUT,
						.data.ptr = p};

			epoll_ctl(ep, EPOLL_CTL_MOD, p->fd, &e);
			return true;
		}
		p->left -= (uint64_t)n;
	}
	return true;
}

__attribute__((noreturn)) static void serve(int port)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6,
				 .sin6_port = htons((uint16_t)port)};
	int s = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), ep = epoll_create1(0),
	    one = 1;
	struct epoll_event e = {.events = EPOLLIN}, ev[64];

	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(s, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(s, 4096) < 0 ||
	    epoll_ctl(ep, EPOLL_CTL_ADD, s, &e) < 0)
		die("listen");
	for (;;) {
		int n = epoll_wait(ep, ev, 64, -1);

		for (int i = 0; i < n; i++) {
			struct peer *p = ev[i].data.ptr;

			if (p) {
				if (!serve_peer(ep, p, ev[i].events))
					drop(p);
				continue;
			}
			p = room(1, sizeof(*p));
			p->skip = -1;
			p->fd = accept4(s, NULL, NULL, SOCK_CLOEXEC);
			if (p->fd < 0) {
				free(p);
				continue;
			}
			setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
			e = (struct epoll_event){.events = EPOLLIN, .data.ptr = p};
			epoll_ctl(ep, EPOLL_CTL_ADD, p->fd, &e);
			e = (struct epoll_event){.events = EPOLLIN};
		}
	}
}

/* ---- the client ------------------------------------------------------------------- */

static void look_up(const char *host, const char *port)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *r;

	if (getaddrinfo(host, port, &hints, &r) != 0)
		die(host);
	memcpy(&target, r->ai_addr, r->ai_addrlen);
	target_len = r->ai_addrlen;
	freeaddrinfo(r);
}

/* A ClientHello of TLS 1.2 with one cipher and SNI; enough for whoever reads it. */
static size_t client_hello(char *out)
{
	size_t n = strlen(hello_name), ext = 9 + n,
	       body = 2 + 32 + 1 + 2 + 2 + 2 + 2 + ext;
	unsigned char *p = (unsigned char *)out;
	size_t at = 0;
#define PUT(...) \
	do { \
		const unsigned char b_[] = {__VA_ARGS__}; \
		memcpy(p + at, b_, sizeof(b_)); \
		at += sizeof(b_); \
	} while (0)
#define WORD(v) (unsigned char)((v) >> 8), (unsigned char)(v)
	PUT(0x16, 3, 1, WORD(body + 4), 1, 0, WORD(body), 3, 3);
	memset(p + at, 7, 32);
	at += 32;
	PUT(0, 0, 2, 0xc0, 0x2b, 1, 0, WORD(ext), 0, 0, WORD(n + 5), WORD(n + 3), 0,
	    WORD(n));
	memcpy(p + at, hello_name, n);
	return at + n;
}

static size_t greeting(char *out, const char *line)
{
	size_t n = hello_name ? client_hello(out) : 0;

	memcpy(out + n, line, strlen(line));
	return n + strlen(line);
}

static int dial(const char *line)
{
	char text[1024];
	size_t n = greeting(text, line);
	int s = socket(target.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	const struct timeval patience = {.tv_sec = 10};

	if (s < 0)
		return -1;
	setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	/* A way that stalls is an error, not the end of the benchmark. */
	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(s, (struct sockaddr *)&target, target_len) < 0 ||
	    send(s, text, n, MSG_NOSIGNAL) != (ssize_t)n) {
		close(s);
		return -1;
	}
	return s;
}

static bool echo_byte(int s)
{
	char c = 'x';

	return send(s, &c, 1, MSG_NOSIGNAL) == 1 && recv(s, &c, 1, 0) == 1;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void tell(const char *what, double *t, long n, long errors)
{
	qsort(t, (size_t)n, sizeof(*t), by_value);
	printf("{\"%s\": {\"n\": %ld, \"p50_us\": %.1f, \"p99_us\": %.1f, \"errors\": "
	       "%ld}}\n",
	       what, n, n ? t[n / 2] * 1e6 : 0, n ? t[n * 99 / 100] * 1e6 : 0, errors);
}

static void run_connect(long count)
{
	double *t = room((size_t)count, sizeof(*t));
	long n = 0, errors = 0;

	for (long i = 0; i < count; i++) {
		double begun = now();
		int s = dial("P\nx");
		char c;

		if (s < 0 || recv(s, &c, 1, 0) != 1)
			errors++;
		else
			t[n++] = now() - begun;
		if (s >= 0)
			close(s);
	}
	tell("connect", t, n, errors);
}

static void run_ping(long count)
{
	double *t = room((size_t)count, sizeof(*t));
	long n = 0;
	int s = dial("P\n");

	for (long i = 0; s >= 0 && i < count; i++) {
		double begun = now();

		if (!echo_byte(s))
			break;
		t[n++] = now() - begun;
	}
	tell("ping", t, n, count - n);
}

static void run_bulk(long megabytes)
{
	char line[64], *buf = room(1, CHUNK);
	uint64_t want = (uint64_t)megabytes << 20, got = 0;
	double begun;
	ssize_t n = 1;
	int s;

	snprintf(line, sizeof(line), "B %llu\n", (unsigned long long)want);
	begun = now();
	s = dial(line);
	while (s >= 0 && got < want && (n = recv(s, buf, CHUNK, 0)) > 0)
		got += (uint64_t)n;
	printf("{\"bulk\": {\"gbit\": %.3f, \"errors\": %d}}\n",
	       (double)got * 8 / (now() - begun) / 1e9, got < want);
}

static void run_push(long megabytes)
{
	char line[64], c;
	uint64_t want = (uint64_t)megabytes << 20, left = want;
	double begun;
	ssize_t n = 0;
	int s;

	snprintf(line, sizeof(line), "U %llu\n", (unsigned long long)want);
	begun = now();
	s = dial(line);
	while (s >= 0 && left &&
	       (n = send(s, zeros, left < CHUNK ? left : CHUNK, MSG_NOSIGNAL)) > 0)
		left -= (uint64_t)n;
	if (s < 0 || left || recv(s, &c, 1, 0) != 1)
		left++;
	printf("{\"push\": {\"gbit\": %.3f, \"errors\": %d}}\n",
	       (double)(want - left) * 8 / (now() - begun) / 1e9, left != 0);
}

/* Opens all, without blocking, at most `parallel` of them unfinished at a time. */
static void run_rate(long count, long parallel)
{
	int ep = epoll_create1(0);
	long begun_n = 0, done = 0, errors = 0;
	double begun = now();
	struct epoll_event ev[64];
	char text[1024];
	size_t len = greeting(text, "P\nx");

	while (done + errors < count) {
		int n;

		while (begun_n < count && begun_n - done - errors < parallel) {
			struct epoll_event e = {.events = EPOLLOUT};
			int s = socket(target.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);

			begun_n++;
			e.data.fd = s;
			if (s < 0 ||
			    (connect(s, (struct sockaddr *)&target, target_len) < 0 &&
			     errno != EINPROGRESS)) {
				errors++;
				continue;
			}
			epoll_ctl(ep, EPOLL_CTL_ADD, s, &e);
		}
		n = epoll_wait(ep, ev, 64, 5000);
		if (n <= 0)
			break;
		for (int i = 0; i < n; i++) {
			int s = ev[i].data.fd;
			char c;

			if (ev[i].events & EPOLLIN) {
				if (recv(s, &c, 1, 0) == 1)
					done++;
				else
					errors++;
				close(s);
			} else if (ev[i].events & (EPOLLHUP | EPOLLERR)) {
				errors++;
				close(s);
			} else if (send(s, text, len, MSG_NOSIGNAL) != (ssize_t)len) {
				errors++;
				close(s);
			} else {
				struct epoll_event e = {.events = EPOLLIN, .data.fd = s};

				epoll_ctl(ep, EPOLL_CTL_MOD, s, &e);
			}
		}
	}
	printf("{\"rate\": {\"per_second\": %.0f, \"errors\": %ld}}\n",
	       (double)done / (now() - begun), errors + (count - done - errors));
}

/* Opens count, says how many answer, and waits for a line (or the end) on stdin. */
static void run_hold(long count)
{
	int *s = room((size_t)count, sizeof(*s));
	long open = 0, alive = 0;
	char c;

	for (long i = 0; i < count; i++) {
		s[i] = dial("P\n");
		if (s[i] >= 0 && echo_byte(s[i]))
			open++;
	}
	printf("{\"held\": %ld}\n", open);
	fflush(stdout);
	while (read(0, &c, 1) == 1 && c != '\n')
		;
	for (long i = 0; i < count; i++)
		alive += s[i] >= 0 && echo_byte(s[i]);
	printf("{\"alive\": %ld}\n", alive);
}

int main(int argc, char **argv)
{
	struct rlimit l;
	long count, parallel;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0) {
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
	}
	if (argc > 2 && strcmp(argv[1], "serve") == 0)
		serve((int)strtol(argv[2], NULL, 10));
	if (argc > 2 && strcmp(argv[1], "--hello") == 0) {
		hello_name = argv[2];
		argv += 2;
		argc -= 2;
	}
	if (argc < 5) {
		fprintf(stderr,
			"netload [--hello NAME] MODE HOST PORT COUNT [PARALLEL]\n");
		return 2;
	}
	look_up(argv[2], argv[3]);
	count = strtol(argv[4], NULL, 10);
	parallel = argc > 5 ? strtol(argv[5], NULL, 10) : 16;
	if (strcmp(argv[1], "connect") == 0)
		run_connect(count);
	else if (strcmp(argv[1], "ping") == 0)
		run_ping(count);
	else if (strcmp(argv[1], "bulk") == 0)
		run_bulk(count);
	else if (strcmp(argv[1], "rate") == 0)
		run_rate(count, parallel);
	else if (strcmp(argv[1], "push") == 0)
		run_push(count);
	else if (strcmp(argv[1], "hold") == 0)
		run_hold(count);
	else
		return 2;
	return 0;
}
