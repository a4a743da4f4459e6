/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a machine's network, and two ends of it in one process: what happens to a
 * socket on one side must happen to its like on the other. */
#include "ipc/netmux.h"
#include "base/util.h"
#include "ipc/muxend.h"
#include "tap.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

static const uint8_t no_nonce[NETMUX_NONCE];

static struct sockaddr_storage at(const char *text, uint16_t port)
{
	struct sockaddr_storage ret = {0};
	struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

	if (inet_pton(AF_INET, text, &a4.sin_addr) == 1)
		memcpy(&ret, &a4, sizeof(a4));
	else if (inet_pton(AF_INET6, text, &a6.sin6_addr) == 1)
		memcpy(&ret, &a6, sizeof(a6));
	return ret;
}

/* ---- codec ---------------------------------------------------------------------- */

static void try_ends(bool udp, const char *from, const char *to)
{
	struct netmux_ends e = {udp, at(from, 1), at(to, 65535)}, got = {0};
	uint8_t b[NETMUX_ENDS];

	OK(netmux_put_ends(b, &e) == 0 && netmux_get_ends(b, &got) == 0 &&
		   got.udp == udp && memcmp(&got.from, &e.from, sizeof(e.from)) == 0 &&
		   memcmp(&got.to, &e.to, sizeof(e.to)) == 0,
	   "%s to %s, there and back", from, to);
}

static void codec_of_ends(void)
{
	struct netmux_ends e = {false, at("10.0.0.1", 1), at("::1", 2)}, none = {0};
	uint8_t b[NETMUX_ENDS] = {0}, good[NETMUX_ENDS];

	try_ends(false, "10.0.0.1", "192.0.2.9");
	try_ends(true, "::1", "2001:db8::53");
	OK(netmux_put_ends(b, &e) == -EINVAL && netmux_put_ends(b, &none) == -EINVAL,
	   "two families, or none");
	e.to = at("10.0.0.2", 2);
	netmux_put_ends(good, &e);
	for (int i = 0; i < 3; i++) {
		static const int where[] = {0, 1, 6};

		memcpy(b, good, sizeof(b));
		b[where[i]] ^= 0x40;
		OK(netmux_get_ends(b, &e) == -EPROTO, "byte %d is checked", where[i]);
	}
	memcpy(b, good, sizeof(b));
	b[30] = 1;
	OK(netmux_get_ends(b, &e) == -EPROTO, "and so is what IPv4 leaves empty");
}

static void codec_of_frames(void)
{
	uint8_t b[64] = {0};
	struct netmux_frame f;

	netmux_put_header(b, NETMUX_WINDOW_ADD, 77, 4);
	OK(netmux_parse(b, 7, &f) == 0 && netmux_parse(b, 11, &f) == 0,
	   "half a frame is none");
	OK(netmux_parse(b, 20, &f) == 12 && f.id == 77 && f.len == 4 &&
		   f.type == NETMUX_WINDOW_ADD && f.payload == b + NETMUX_HEADER,
	   "a whole one is");
	b[1] = 1;
	OK(netmux_parse(b, 20, &f) == -EPROTO, "a flag that nobody knows");
	netmux_put_header(b, NETMUX_WINDOW_ADD, 77, 5);
	OK(netmux_parse(b, 8, &f) == -EPROTO, "a length that cannot be");
	netmux_put_header(b, NETMUX_TYPES, 1, 0);
	OK(netmux_parse(b, 8, &f) == -EPROTO, "a type that is none");
	netmux_put_header(b, NETMUX_EOF, 0, 0);
	OK(netmux_parse(b, 8, &f) == -EPROTO, "no id");
}

static void codec_of_who(void)
{
	struct netmux_who w = {7, 8, 1ull << 40, "a program"}, got;
	uint8_t b[NETMUX_WHO_SIZE];

	netmux_put_who(b, &w);
	OK(netmux_get_who(b, &got) == 0 && memcmp(&w, &got, sizeof(w)) == 0,
	   "who, there and back");
	memset(b + 16, 'x', NETMUX_PROGRAM);
	OK(netmux_get_who(b, &got) == -EPROTO, "a name without an end");
}

static void hello(void)
{
	uint8_t b[200], nonce[NETMUX_NONCE] = "0123456789abcde";
	bool found;

	memset(b, 'c', sizeof(b));
	OK(netmux_skip(b, 200, nonce, &found) == 200 - NETMUX_HELLO + 1 && !found,
	   "no HELLO: all but what may be the beginning of one");
	OK(netmux_skip(b, 5, nonce, &found) == 0 && !found, "too little to tell");
	netmux_put_hello(b + 100, nonce);
	OK(netmux_skip(b, 200, nonce, &found) == 100 + NETMUX_HELLO && found,
	   "a HELLO is found");
	OK(netmux_skip(b, 200, no_nonce, &found) < 200 && !found,
	   "that of somebody else is not");
}

/* ---- two ends ------------------------------------------------------------------- */

struct pair {
	struct muxend *guest, *host;
	int guest_port, host_port; /* copies */
	int outer;                 /* the other half of what the host attached last */
	unsigned opened, ended, reset, datagrams;
	bool refuse;
};

static void make_pair(int fd[2])
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd) < 0)
		abort();
}

static void on_open(void *arg, struct mux_stream *s, const struct netmux_ends *e)
{
	struct pair *p = arg;
	int fd[2];

	(void)e;
	p->opened++;
	if (p->refuse)
		return;
	make_pair(fd);
	if (muxend_attach(s, &fd[0]) < 0)
		abort();
	muxend_own(s, p);
	p->outer = fd[1];
}

static void on_ended(void *arg, void *owner, bool reset)
{
	struct pair *p = arg;

	p->ended += owner == p;
	p->reset += reset;
}

static void on_dgram(void *arg, const struct netmux_ends *e, const uint8_t *b, size_t n)
{
	struct pair *p = arg;

	p->datagrams += e->udp && n == 3 && memcmp(b, "abc", 3) == 0;
}

static const struct muxend_ops host_ops = {
	.open = on_open, .ended = on_ended, .dgram = on_dgram};
static const struct muxend_ops guest_ops = {.dgram = on_dgram};

static int copy_of(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

static void pair_open(struct pair *p, unsigned streams)
{
	int port[2], a, b;

	make_pair(port);
	*p = (struct pair){.guest_port = port[0], .host_port = port[1], .outer = -1};
	a = copy_of(port[0]);
	b = copy_of(port[1]);
	if (muxend_new(&p->guest, &a, no_nonce, streams, &guest_ops, p) < 0 ||
	    muxend_new(&p->host, &b, no_nonce, 64, &host_ops, p) < 0)
		abort();
}

static void pair_close(struct pair *p)
{
	muxend_free(p->guest);
	muxend_free(p->host);
	close(p->guest_port);
	close(p->host_port);
}

/* Until nothing moves any more. */
static int settle(struct pair *p)
{
	for (int quiet = 0; quiet < 3;) {
		int a = muxend_turn(p->guest, 0), b = muxend_turn(p->host, 0);

		if (a < 0 || b < 0)
			return a < 0 ? a : b;
		quiet = a || b ? 0 : quiet + 1;
	}
	return 0;
}

/* A connection: the program's half is returned, the server's is p->outer. */
static int connection(struct pair *p)
{
	struct netmux_ends e = {false, at("10.0.0.1", 5), at("10.0.0.2", 80)};
	int fd[2];

	make_pair(fd);
	if (muxend_open(p->guest, &fd[0], &e) < 0 || settle(p) < 0)
		abort();
	return fd[1];
}

static bool says(int fd, const char *text)
{
	return send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text);
}

static bool hears(int fd, const char *text)
{
	char b[64];

	return recv(fd, b, sizeof(b), 0) == (ssize_t)strlen(text) &&
	       memcmp(b, text, strlen(text)) == 0;
}

static bool at_end(int fd)
{
	char c;

	return recv(fd, &c, 1, 0) == 0;
}

static bool is_over(int fd)
{
	char c;
	ssize_t n = recv(fd, &c, 1, 0);

	return n == 0 || (n < 0 && errno == ECONNRESET);
}

static void both_ways(void)
{
	struct netmux_ends e = {true, at("10.0.0.1", 5), at("10.0.0.2", 53)};
	struct pair p;
	int in;

	pair_open(&p, 64);
	in = connection(&p);
	OK(p.opened == 1 && p.outer >= 0, "a connection");
	says(in, "question");
	settle(&p);
	OK(hears(p.outer, "question"), "there");
	says(p.outer, "answer");
	settle(&p);
	OK(hears(in, "answer"), "and back");
	muxend_dgram(p.guest, &e, "abc", 3);
	muxend_dgram(p.host, &e, "abc", 3);
	settle(&p);
	OK(p.datagrams == 2, "a datagram each way");
	shutdown(in, SHUT_WR);
	settle(&p);
	OK(at_end(p.outer), "half an end");
	says(p.outer, "late");
	settle(&p);
	OK(hears(in, "late"), "the other half goes on");
	shutdown(p.outer, SHUT_WR);
	settle(&p);
	OK(at_end(in) && p.ended == 1 && p.reset == 0, "until it ends too");
	close(in);
	close(p.outer);
	pair_close(&p);
}

static void closed(void)
{
	struct pair p;
	int in;

	pair_open(&p, 64);
	in = connection(&p);
	says(p.outer, "bye");
	close(p.outer);
	settle(&p);
	OK(hears(in, "bye") && at_end(in), "closed: all of it arrives, then the end");
	OK(send(in, "x", 1, MSG_NOSIGNAL) < 0 && errno == EPIPE, "and nobody listens");
	close(in);
	in = connection(&p);
	shutdown(p.outer, SHUT_WR);
	settle(&p);
	OK(at_end(in), "one direction ended");
	close(p.outer);
	OK(settle(&p) == 0 && send(in, "x", 1, MSG_NOSIGNAL) < 0 && errno == EPIPE,
	   "and then the other");
	close(in);
	in = connection(&p);
	says(in, "unread");
	settle(&p);
	close(p.outer);
	settle(&p);
	OK(is_over(in), "closed with bytes unread");
	close(in);
	in = connection(&p);
	says(p.outer, "unread");
	settle(&p);
	p.reset = 0;
	close(in); /* the program is gone, with bytes unread: a reset */
	settle(&p);
	OK(p.reset == 1, "a reset comes through");
	close(p.outer);
	pair_close(&p);
}

static void refused(void)
{
	struct pair p;
	int in;

	pair_open(&p, 64);
	p.refuse = true;
	in = connection(&p);
	OK(is_over(in), "who is not attached is reset");
	close(in);
	pair_close(&p);
}

/* What a side takes while nobody reads on the other. */
static size_t stuff(struct pair *p, int fd)
{
	static char block[65536];
	size_t n = 0;
	ssize_t w = 0;

	for (int idle = 0; idle<10; idle = w> 0 ? 0 : idle + 1) {
		w = send(fd, block, sizeof(block), MSG_NOSIGNAL);
		n += w > 0 ? (size_t)w : 0;
		settle(p);
	}
	return n;
}

static size_t read_all(struct pair *p, int fd)
{
	static char block[65536];
	size_t n = 0;
	ssize_t r;

	do {
		settle(p);
		while ((r = recv(fd, block, sizeof(block), 0)) > 0)
			n += (size_t)r;
		settle(p);
		r = recv(fd, block, 1, 0);
		n += r > 0;
	} while (r > 0);
	return n;
}

static void windows(void)
{
	struct pair p;
	size_t n;
	int in;

	pair_open(&p, 64);
	in = connection(&p);
	n = stuff(&p, in);
	OK(n >= NETMUX_WINDOW && n < (1u << 20) + NETMUX_WINDOW,
	   "a reader that stops, stops the writer (%zu KiB)", n >> 10);
	OK(read_all(&p, p.outer) == n, "and nothing is lost");
	for (int i = 0; i < 100; i++) {
		stuff(&p, in);
		read_all(&p, p.outer);
	}
	n = stuff(&p, p.outer);
	OK(n < 2u << 20, "the other way (%zu KiB)", n >> 10);
	OK(read_all(&p, in) == n, "just so");
	close(in);
	close(p.outer);
	pair_close(&p);
}

static void bounds(void)
{
	struct netmux_ends e = {false, at("10.0.0.1", 5), at("10.0.0.2", 80)};
	struct pair p;
	int fd[2], in[8], r = 0, n = 0;

	pair_open(&p, 8);
	while (n < 8)
		in[n++] = connection(&p);
	make_pair(fd);
	r = muxend_open(p.guest, &fd[0], &e);
	OK(r == -EMFILE && fd[0] >= 0, "one more than there may be");
	close(fd[0]);
	close(fd[1]);
	while (n)
		close(in[--n]);
	settle(&p);
	close(p.outer);
	settle(&p);
	for (int i = 0; i < 3 * (int)NETMUX_SLOTS; i++) { /* each slot many times */
		int s = connection(&p);

		close(s);
		close(p.outer);
		if (settle(&p) < 0)
			break;
	}
	OK(p.opened == 8 + 3 * NETMUX_SLOTS, "slots are used again (%u)", p.opened);
	pair_close(&p);
}

/* The host's end is replaced while frames are half written in both directions. */
static void begun_anew(void)
{
	static const uint8_t nonce[NETMUX_NONCE] = "0123456789abcde";
	struct pair p;
	int in, port;

	pair_open(&p, 64);
	in = connection(&p);
	says(in, "lost");
	says(p.outer, "lost");
	muxend_turn(p.guest, 0);
	muxend_turn(p.host, 0);
	(void)!write(p.guest_port, "\x02\x00\xff", 3);
	(void)!write(p.host_port, "\x02\x00\xff\x7f", 4);
	muxend_free(p.host);
	close(p.outer);
	port = copy_of(p.host_port);
	if (muxend_new(&p.host, &port, nonce, 64, &host_ops, &p) < 0)
		abort();
	muxend_restart(p.guest, nonce);
	OK(settle(&p) == 0, "another host's end");
	OK(is_over(in), "what there was is reset");
	close(in);
	in = connection(&p);
	says(in, "new");
	settle(&p);
	OK(hears(p.outer, "new"), "what is new works");
	close(in);
	close(p.outer);
	pair_close(&p);
}

static void gone(void)
{
	struct pair p;
	int in;

	pair_open(&p, 64);
	in = connection(&p);
	muxend_free(p.host);
	p.host = NULL;
	close(p.host_port);
	OK(p.ended == 1 && p.reset == 1, "a host's end that goes tells whom it had");
	OK(muxend_turn(p.guest, 0) == -EPIPE, "and the other side");
	OK(muxend_turn(p.guest, 0) == -EPIPE, "for good");
	close(in);
	close(p.outer);
	p.host_port = copy_of(p.guest_port);
	pair_close(&p);
}

int main(void)
{
	codec_of_ends();
	codec_of_frames();
	codec_of_who();
	hello();
	both_ways();
	closed();
	refused();
	windows();
	bounds();
	begun_anew();
	gone();
	return tap_done();
}
