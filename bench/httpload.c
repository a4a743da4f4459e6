// SPDX-License-Identifier: Apache-2.0
/*
 * httpload - a client that measures HTTP/1.1 on kept connections, plain or in TLS: the
 * time of a small request, requests a second, and large bodies.
 *
 *	httpload [--tls] [--header LINE] ping|rate|bulk HOST PORT PATH COUNT [PARALLEL]
 *
 * ping: COUNT requests one after another. rate: COUNT requests on each of PARALLEL
 * connections, a thread each. bulk: COUNT requests whose bodies are read and thrown away.
 * Any answer but 200 with a Content-Length ends a connection and counts as an error.
 * Certificates are not verified: that would measure the client.
 * Prints one line of JSON.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CHUNK (256 * 1024)
#define HEAD_MAX 8192
#define PARALLEL_MAX 64

static struct sockaddr_storage target;
static socklen_t target_len;
static SSL_CTX *ctx; /* NULL: plain */
static const char *host;
static char request[4096];
static size_t request_len;

struct client {
	int fd;
	SSL *ssl;
	char *buf;
	pthread_t thread;
	long count;
	double *times;
	long done;
	uint64_t bytes;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static ssize_t take(struct client *c, char *out, size_t room)
{
	return c->ssl ? SSL_read(c->ssl, out, (int)room) : recv(c->fd, out, room, 0);
}

static bool give(struct client *c)
{
	if (c->ssl)
		return SSL_write(c->ssl, request, (int)request_len) == (int)request_len;
	return send(c->fd, request, request_len, MSG_NOSIGNAL) == (ssize_t)request_len;
}

static bool open_client(struct client *c)
{
	int one = 1;

	c->buf = malloc(CHUNK);
	c->fd = socket(target.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (!c->buf || c->fd < 0)
		return false;
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(c->fd, (struct sockaddr *)&target, target_len) < 0)
		return false;
	if (!ctx)
		return true;
	c->ssl = SSL_new(ctx);
	return c->ssl && SSL_set_fd(c->ssl, c->fd) == 1 &&
	       SSL_set_tlsext_host_name(c->ssl, host) == 1 && SSL_connect(c->ssl) == 1;
}

/* The length of the body that a whole head announces, or -1. */
static int64_t body_length(const char *head)
{
	const char *at;

	if (strncmp(head, "HTTP/1.1 200 ", 13) != 0)
		return -1;
	at = strcasestr(head, "\r\ncontent-length:");
	return at ? strtoll(at + 17, NULL, 10) : -1;
}

/* Reads one answer; says how many bytes its body had, or -1. */
static int64_t read_answer(struct client *c)
{
	size_t got = 0;
	char *end = NULL;
	int64_t length, left;

	while (!end) {
		ssize_t n = got < HEAD_MAX ? take(c, c->buf + got, CHUNK - 1 - got) : -1;

		if (n <= 0)
			return -1;
		got += (size_t)n;
		c->buf[got] = '\0';
		end = strstr(c->buf, "\r\n\r\n");
	}
	*end = '\0';
	length = body_length(c->buf);
	left = length - (int64_t)(got - (size_t)(end + 4 - c->buf));
	while (length >= 0 && left > 0) {
		ssize_t n = take(c, c->buf, CHUNK);

		if (n <= 0)
			return -1;
		left -= n;
	}
	return left == 0 ? length : -1;
}

static void *run_client(void *arg)
{
	struct client *c = arg;

	while (c->done < c->count) {
		double begun = now();
		int64_t n = give(c) ? read_answer(c) : -1;

		if (n < 0)
			break;
		c->bytes += (uint64_t)n;
		if (c->times)
			c->times[c->done] = now() - begun;
		c->done++;
	}
	return NULL;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void run_ping(long count)
{
	struct client c = {.count = count,
			   .times = calloc((size_t)count, sizeof(double))};

	if (c.times && open_client(&c))
		run_client(&c);
	if (c.done)
		qsort(c.times, (size_t)c.done, sizeof(double), by_value);
	printf("{\"ping\": {\"n\": %ld, \"p50_us\": %.1f, \"p99_us\": %.1f, \"errors\": "
	       "%ld}}\n",
	       c.done, c.done ? c.times[c.done / 2] * 1e6 : 0,
	       c.done ? c.times[c.done * 99 / 100] * 1e6 : 0, count - c.done);
}

static void run_rate(long count, long parallel)
{
	static struct client c[PARALLEL_MAX];
	long done = 0;
	double begun;

	if (parallel < 1 || parallel > PARALLEL_MAX)
		parallel = 16;
	for (long i = 0; i < parallel; i++)
		c[i].count = open_client(&c[i]) ? count : 0;
	begun = now();
	for (long i = 0; i < parallel; i++)
		pthread_create(&c[i].thread, NULL, run_client, &c[i]);
	for (long i = 0; i < parallel; i++) {
		pthread_join(c[i].thread, NULL);
		done += c[i].done;
	}
	printf("{\"rate\": {\"per_second\": %.0f, \"errors\": %ld}}\n",
	       (double)done / (now() - begun), count * parallel - done);
}

static void run_bulk(long count)
{
	struct client c = {.count = count};
	double begun;

	c.count = open_client(&c) ? count : 0;
	begun = now();
	run_client(&c);
	printf("{\"bulk\": {\"gbit\": %.3f, \"errors\": %ld}}\n",
	       (double)c.bytes * 8 / (now() - begun) / 1e9, count - c.done);
}

static bool look_up(const char *port)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *r;

	if (getaddrinfo(host, port, &hints, &r) != 0)
		return false;
	memcpy(&target, r->ai_addr, r->ai_addrlen);
	target_len = r->ai_addrlen;
	freeaddrinfo(r);
	return true;
}

int main(int argc, char **argv)
{
	const char *header = NULL;
	bool tls = false;
	int at = 1;

	for (; at < argc && argv[at][0] == '-'; at++) {
		if (strcmp(argv[at], "--tls") == 0)
			tls = true;
		else if (strcmp(argv[at], "--header") == 0 && at + 1 < argc)
			header = argv[++at];
	}
	if (argc - at < 5 || (tls && !(ctx = SSL_CTX_new(TLS_client_method())))) {
		fprintf(stderr, "httpload [--tls] [--header LINE] MODE HOST PORT PATH "
				"COUNT [PARALLEL]\n");
		return 2;
	}
	argv += at;
	host = argv[1];
	if (!look_up(argv[2])) {
		fprintf(stderr, "httpload: %s: no such host\n", host);
		return 1;
	}
	request_len = (size_t)snprintf(
		request, sizeof(request), "GET %s HTTP/1.1\r\nHost: %s:%s\r\n%s%s\r\n",
		argv[3], host, argv[2], header ? header : "", header ? "\r\n" : "");
	if (request_len >= sizeof(request))
		return 2;
	if (strcmp(argv[0], "ping") == 0)
		run_ping(strtol(argv[4], NULL, 10));
	else if (strcmp(argv[0], "rate") == 0)
		run_rate(strtol(argv[4], NULL, 10),
			 argc - at > 5 ? strtol(argv[5], NULL, 10) : 16);
	else if (strcmp(argv[0], "bulk") == 0)
		run_bulk(strtol(argv[4], NULL, 10));
	else
		return 2;
	return 0;
}
