/* SPDX-License-Identifier: Apache-2.0 */
/* dns_client.h - asks a resolver on port 53 over UDP and TCP, and looks at what it says.
 */
#ifndef COVE_DNS_CLIENT_H
#define COVE_DNS_CLIENT_H

#include "base/util.h"
#include "policy/addr.h"

#include <poll.h>
#include <sys/time.h>

struct message {
	uint8_t b[1500];
	size_t n;
};

static inline void put(struct message *m, const void *p, size_t n)
{
	memcpy(m->b + m->n, p, n);
	m->n += n;
}

static inline struct message ask(const char *name, unsigned type, bool edns)
{
	struct message m = {.n = 0};

	put(&m, (uint8_t[]){0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, edns}, 12);
	while (*name) {
		size_t n = strcspn(name, ".");

		put(&m, &(uint8_t){(uint8_t)n}, 1);
		put(&m, name, n);
		name += n + (name[n] == '.');
	}
	put(&m, (uint8_t[]){0, (uint8_t)(type >> 8), (uint8_t)type, 0, 1}, 5);
	if (edns)
		put(&m, (uint8_t[]){0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 0}, 11);
	return m;
}

static inline int client(int type, const char *server)
{
	struct sockaddr_storage sa;
	struct addr a;
	struct timeval limit = {.tv_sec = 60};
	socklen_t n;
	int fd;

	addr_parse(server, &a);
	n = addr_to_sockaddr(&a, 53, &sa);
	fd = socket(sa.ss_family, type | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (connect(fd, (struct sockaddr *)&sa, n) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* From an address, to a connected socket: an answer from another would be dropped. */
static inline struct message exchange(const char *server, const struct message *m,
				      int wait_ms)
{
	cleanup_fd int fd = client(SOCK_DGRAM, server);
	struct message r = {.n = 0};
	struct pollfd p = {.fd = fd, .events = POLLIN};
	ssize_t n = -1;

	if (fd >= 0 && send(fd, m->b, m->n, 0) == (ssize_t)m->n &&
	    poll(&p, 1, wait_ms) == 1)
		n = recv(fd, r.b, sizeof(r.b), 0);
	r.n = n > 0 ? (size_t)n : 0;
	return r;
}

static inline struct message look(const char *name, unsigned type)
{
	struct message m = ask(name, type, true);

	return exchange("127.0.0.53", &m, 30000);
}

static inline unsigned rcode(const struct message *m)
{
	return m->n >= 12 ? m->b[3] & 15u : 99;
}

static inline unsigned answers(const struct message *m)
{
	return m->n >= 12 ? m->b[7] : 99;
}

/* The one address of an answer to a question with EDNS. */
static inline const char *address(const struct message *m)
{
	static char text[ADDR_TEXT];
	struct addr a = {
		{[10] = 0xff, [11] = 0xff}
        };
	size_t end = m->n - 11;

	if (rcode(m) != 0 || answers(m) != 1 || m->n < 50)
		return "none";
	if (m->b[end - 5] == 4)
		memcpy(a.b + 12, m->b + end - 4, 4);
	else
		memcpy(a.b, m->b + end - 16, 16);
	return addr_text(&a, text);
}

static inline bool contains(const struct message *m, const char *text)
{
	return memmem(m->b, m->n, text, strlen(text)) != NULL;
}

/* ---- TCP: each message has its length in front ----------------------------------- */

static inline void put_framed(struct message *out, const struct message *m)
{
	put(out, (uint8_t[]){(uint8_t)(m->n >> 8), (uint8_t)m->n}, 2);
	put(out, m->b, m->n);
}

/* 1: a message; 0: the end. */
static inline int read_framed(int fd, struct message *m)
{
	uint8_t head[2];

	if (recv(fd, head, 2, MSG_WAITALL) != 2)
		return 0;
	m->n = (size_t)head[0] << 8 | head[1];
	return m->n <= sizeof(m->b) && recv(fd, m->b, m->n, MSG_WAITALL) == (ssize_t)m->n;
}

#endif
