/* SPDX-License-Identifier: Apache-2.0 */
/*
 * egress_servers.h - what the tests of the data path talk to: small servers on every
 * address of the host's namespace, in a process of their own.
 */
#ifndef COVE_EGRESS_SERVERS_H
#define COVE_EGRESS_SERVERS_H

#include "egress_rig.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define BULK (48u << 20)    /* what FLOOD sends */
#define RAW "203.0.113.5"   /* addresses of the host's lo: one of documentation, */
#define PUBLIC "93.184.0.5" /* and one that could be anybody's */

enum { ECHO = 7001, GREET, FLOOD, SNAP, SINK, WEB, DEAF, BYE, NOBODY = 7099 };

static pid_t server_pid;

/* As much as comes; false at the end or an error. */
static bool send_all(int s, const void *p, size_t n)
{
	while (n) {
		ssize_t w = send(s, p, n, MSG_NOSIGNAL);

		if (w <= 0)
			return false;
		p = (const char *)p + w;
		n -= (size_t)w;
	}
	return true;
}

static void echo(int s)
{
	char buf[65536];
	ssize_t n;

	while ((n = recv(s, buf, sizeof(buf), 0)) > 0)
		if (!send_all(s, buf, (size_t)n))
			return;
}

static void greet(int s)
{
	if (send_all(s, "220 hello\r\n", 11))
		echo(s);
}

static void flood(int s)
{
	static uint32_t block[16384];

	for (uint32_t i = 0; i < BULK; i += sizeof(block)) {
		for (uint32_t k = 0; k < ARRAY_LEN(block); k++)
			block[k] = (i / 4 + k) * 2654435761u;
		if (!send_all(s, block, sizeof(block)))
			return;
	}
}

static void snap(int s)
{
	struct linger now = {.l_onoff = 1};
	char c;

	if (recv(s, &c, 1, 0) == 1)
		setsockopt(s, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

/* Counts what comes until the end, and says how much that was. */
static void sink(int s)
{
	char buf[65536], text[32];
	uint64_t total = 0;
	ssize_t n;

	while ((n = recv(s, buf, sizeof(buf), 0)) > 0)
		total += (uint64_t)n;
	snprintf(text, sizeof(text), "%llu", (unsigned long long)total);
	send_all(s, text, strlen(text));
}

/* One request after the other; each is answered with its first line. */
static void web(int s)
{
	char in[4096], out[512];
	size_t have = 0;
	ssize_t n;

	while ((n = recv(s, in + have, sizeof(in) - 1 - have, 0)) > 0) {
		char *end;

		have += (size_t)n;
		in[have] = '\0';
		end = strstr(in, "\r\n\r\n");
		if (!end)
			continue;
		have = 0;
		*strchr(in, '\r') = '\0';
		n = snprintf(out, sizeof(out),
			     "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s",
			     strlen(in), in);
		if (!send_all(s, out, (size_t)n))
			return;
	}
}

/* Takes what fits into its buffers, and no more. */
static void deaf(int s)
{
	struct pollfd p = {.fd = s};

	poll(&p, 1, -1); /* until it is reset */
}

/* Has nothing more to say from the beginning, and listens. */
static void bye(int s)
{
	char buf[64];

	if (send_all(s, "bye", 3) && shutdown(s, SHUT_WR) == 0)
		while (recv(s, buf, sizeof(buf), 0) > 0)
			;
}

struct server {
	uint16_t port;
	void (*serve)(int s);
	int fd;
};
static struct server all[] = {
	{ECHO,  echo,  -1},
        {GREET, greet, -1},
        {FLOOD, flood, -1},
        {SNAP,  snap,  -1},
	{SINK,  sink,  -1},
        {WEB,   web,   -1},
        {DEAF,  deaf,  -1},
        {BYE,   bye,   -1},
};

struct client {
	const struct server *server;
	int fd;
};

static void *serve_one(void *arg)
{
	struct client c = *(struct client *)arg;

	free(arg);
	c.server->serve(c.fd);
	close(c.fd);
	return NULL;
}

static void *serve(void *arg)
{
	const struct server *s = arg;
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 512u << 10);
	for (;;) {
		int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);
		struct client *c = fd < 0 ? NULL : malloc(sizeof(*c));

		if (!c)
			return NULL;
		*c = (struct client){s, fd};
		if (pthread_create(&t, &attr, serve_one, c) != 0)
			abort();
	}
}

static void add_address(const char *alias, const char *text)
{
	cleanup_fd int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq q = {0};
	struct sockaddr_in a = {.sin_family = AF_INET};

	snprintf(q.ifr_name, sizeof(q.ifr_name), "%s", alias);
	inet_pton(AF_INET, text, &a.sin_addr);
	memcpy(&q.ifr_addr, &a, sizeof(a));
	if (ioctl(s, SIOCSIFADDR, &q) < 0)
		abort();
}

/* A listener at 127.0.0.7 whose queue is full: it does not answer. */
static void add_stuck(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(GREET)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_addr.s_addr = htonl(0x7f000007);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 0) < 0)
		abort();
	for (int i = 0; i < 4; i++) { /* they stay */
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		connect(fd, (struct sockaddr *)&a, sizeof(a));
	}
}

static void servers(void)
{
	add_address("lo:1", RAW);
	add_address("lo:2", PUBLIC);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct sockaddr_in a = {.sin_family = AF_INET,
					.sin_port = htons(all[i].port)};

		if (all[i].port == GREET) /* so that two.test finds nobody at 127.0.0.9 */
			a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		all[i].fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (bind(all[i].fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
		    listen(all[i].fd, 512) < 0)
			abort();
	}
	add_stuck();
	/* A process of their own: ours will be short of descriptors. */
	server_pid = fork();
	for (size_t i = 0; server_pid == 0 && i < ARRAY_LEN(all); i++) {
		pthread_t t;

		if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
		    pthread_create(&t, NULL, serve, &all[i]) != 0)
			abort();
	}
	while (server_pid == 0)
		pause();
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		close(all[i].fd);
}

static void servers_stop(void)
{
	kill(server_pid, SIGKILL);
	waitpid(server_pid, NULL, 0);
}

#endif
