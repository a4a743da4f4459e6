/* SPDX-License-Identifier: Apache-2.0 */
/* What was sent before a reset arrives, in a program that is slow to read it; and a
 * program's own reset is heard at once. Both ends of a mux, a TCP connection at the one
 * and half of a socket pair at the other. */
#include "base/util.h"
#include "ipc/muxend.h"
#include "tap.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#define WINDOWS (3 * NETMUX_WINDOW) /* more than there is credit for */
#define SECONDS 20

static struct muxend *host, *guest;
static struct mux_stream *accepted;
static int half = -1;    /* what the egress role would have */
static int program = -1; /* what a program inside has */
static bool over, was_reset;
static uint8_t bytes[WINDOWS];

static void on_open(void *arg, struct mux_stream *s, const struct netmux_ends *e)
{
	int pair[2];

	(void)arg;
	(void)e;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) <
		    0 ||
	    muxend_attach(s, &pair[0]) < 0)
		abort();
	half = pair[1];
	accepted = s;
	muxend_own(s, &half);
}

static void on_ended(void *arg, void *owner, bool reset)
{
	(void)arg;
	(void)owner;
	over = true;
	was_reset = reset;
}

static const struct muxend_ops host_ops = {.open = on_open, .ended = on_ended};
static const struct muxend_ops guest_ops = {0};

static void turn(void)
{
	if (muxend_turn(guest, 0) < 0 || muxend_turn(host, 1) < 0)
		abort();
}

static time_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

/* A TCP connection: the program's end, and the one that the guest has accepted. */
static int connect_tcp(struct netmux_ends *e)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);
	int small = 4096, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;

	if (bind(listener, (struct sockaddr *)&a, n) < 0 || listen(listener, 1) < 0 ||
	    getsockname(listener, (struct sockaddr *)&a, &n) < 0)
		abort();
	program = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(program, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	if (connect(program, (struct sockaddr *)&a, n) < 0)
		abort();
	fcntl(program, F_SETFL, O_NONBLOCK);
	fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	close(listener);
	memcpy(&e->from, &a, sizeof(a));
	memcpy(&e->to, &a, sizeof(a));
	return fd;
}

static void begin(void)
{
	static const uint8_t nonce[NETMUX_NONCE] = {1};
	struct netmux_ends e = {0};
	int port[2], fd;

	over = was_reset = false;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, port) <
		    0 ||
	    muxend_new(&host, &port[0], nonce, 10, &host_ops, NULL) < 0 ||
	    muxend_new(&guest, &port[1], nonce, 10, &guest_ops, NULL) < 0)
		abort();
	fd = connect_tcp(&e);
	if (muxend_open(guest, &fd, &e) < 0)
		abort();
	for (time_t since = now(); now() - since < SECONDS && half < 0;)
		turn();
}

static void end(void)
{
	close_fd(&half);
	close_fd(&program);
	muxend_free(guest);
	muxend_free(host);
}

/* As much as the pair takes at once, and what is read goes on until the end. */
static size_t say(void)
{
	size_t sent = 0;

	for (time_t since = now(); now() - since < SECONDS && sent < sizeof(bytes);) {
		ssize_t n = send(half, bytes + sent, sizeof(bytes) - sent, MSG_NOSIGNAL);

		if (n > 0)
			sent += (size_t)n;
		turn();
	}
	return sent;
}

/* Reads little at a time. How it ended: 0, or errno. */
static int listen_slowly(size_t *ret_got, bool *ret_same)
{
	uint8_t p[1000];

	*ret_got = 0;
	*ret_same = true;
	for (time_t since = now(); now() - since < SECONDS;) {
		ssize_t n = recv(program, p, sizeof(p), 0);

		if (n > 0 && *ret_got + (size_t)n <= sizeof(bytes)) {
			*ret_same &= memcmp(p, bytes + *ret_got, (size_t)n) == 0;
			*ret_got += (size_t)n;
		} else if (n >= 0 || errno != EAGAIN) {
			return n == 0 ? 0 : errno;
		}
		turn();
	}
	return ETIMEDOUT;
}

static void by_host(bool unread)
{
	size_t sent, got;
	bool same;
	int how;

	begin();
	if (unread) {
		if (send(program, "more", 4, MSG_NOSIGNAL) != 4)
			abort();
		for (int i = 0; i < 100; i++)
			turn();
	}
	sent = say();
	OK(sent == sizeof(bytes), "%zu bytes are on their way", sent);
	if (!unread)
		muxend_reset(accepted);
	muxend_own(accepted, NULL);
	close_fd(&half);
	how = listen_slowly(&got, &same);
	OK(got == sent && same, "all of them arrive: %zu", got);
	OK(how == ECONNRESET, "and then the reset: %s", strerror(how));
	end();
}

static void by_program(void)
{
	struct linger abort_it = {.l_onoff = 1};

	begin();
	OK(say() == sizeof(bytes), "a program that does not read");
	setsockopt(program, SOL_SOCKET, SO_LINGER, &abort_it, sizeof(abort_it));
	close_fd(&program);
	for (time_t since = now(); now() - since < SECONDS && !over;)
		turn();
	OK(over && was_reset, "its reset is heard at once, whatever waits for it");
	end();
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 31 + i / 251);
	by_host(false);
	by_host(true); /* closed with bytes unread, which is a reset too */
	by_program();
	return tap_done();
}
