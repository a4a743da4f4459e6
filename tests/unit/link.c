/* SPDX-License-Identifier: Apache-2.0 */
/* The link: framing over short reads and writes, bounds, HELLO, and credit. */
#include "ipc/link.h"

#include "base/util.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/socket.h>

struct pair {
	int fd[2];
	struct link a, b;
};

static void pair_open(struct pair *p)
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, p->fd) < 0)
		abort();
	link_init(&p->a, p->fd[0], p->fd[0]);
	link_init(&p->b, p->fd[1], p->fd[1]);
}

static void pair_close(struct pair *p)
{
	link_clear(&p->a);
	link_clear(&p->b);
	close(p->fd[0]);
	close(p->fd[1]);
}

static void hello_comes_first(void)
{
	struct wire_frame f;
	struct pair p;

	pair_open(&p);
	link_hello(&p.a);
	link_send(&p.a, WIRE_PING, 0, 0, "x", 1);
	OK(link_flush(&p.a) == 0 && link_pending(&p.a) == 0, "flushed");
	OK(link_fill(&p.b) == 1, "filled");
	OK(link_next(&p.b, &f) == 1 && f.type == WIRE_PING && p.b.hello_seen,
	   "HELLO is taken by the link, PING comes out");
	OK(link_next(&p.b, &f) == 0 && link_fill(&p.b) == 0, "then nothing");
	link_hello(&p.a);
	link_flush(&p.a);
	link_fill(&p.b);
	OK(link_next(&p.b, &f) == -EPROTO, "a second HELLO is refused");
	pair_close(&p);

	pair_open(&p);
	link_send(&p.a, WIRE_PING, 0, 0, "x", 1);
	link_flush(&p.a);
	link_fill(&p.b);
	OK(link_next(&p.b, &f) == -EPROTO, "no HELLO: refused");
	pair_close(&p);
}

static void bad_hello(void)
{
	static const struct {
		const char *what;
		size_t at;
	} bad[] = {
		{"magic",    0 },
                {"version",  4 },
                {"reserved", 12}
        };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		uint8_t h[16] = {'C', 'O', 'V', 'E', WIRE_VERSION};
		struct wire_frame f;
		struct pair p;

		pair_open(&p);
		h[bad[i].at] ^= 0x40;
		link_send(&p.a, WIRE_HELLO, 0, 0, h, sizeof(h));
		link_flush(&p.a);
		link_fill(&p.b);
		OK(link_next(&p.b, &f) == -EPROTO, "HELLO with wrong %s", bad[i].what);
		pair_close(&p);
	}
}

static void byte_by_byte(void)
{
	uint8_t raw[WIRE_HEADER + 16 + WIRE_HEADER + 3];
	struct wire_frame f;
	struct pair p;
	int got = 0;

	pair_open(&p);
	link_hello(&p.a);
	link_send(&p.a, WIRE_DATA, 1, 9, "abc", 3);
	OK(link_pending(&p.a) == sizeof(raw), "length of both");
	memcpy(raw, p.a.out, sizeof(raw));
	for (size_t i = 0; i < sizeof(raw); i++) {
		OK(got == 0 && write(p.fd[0], raw + i, 1) == 1 && link_fill(&p.b) == 1,
		   "byte %zu", i);
		got = link_next(&p.b, &f);
	}
	OK(got == 1 && f.stream == 9 && memcmp(f.payload, "abc", 3) == 0,
	   "whole in the end");
	pair_close(&p);
}

/* Pushes far more than any buffer holds through both, with every size of frame. */
static void bulk_in_order(void)
{
	static uint8_t block[WIRE_PAYLOAD_MAX];
	uint32_t sent = 0, seen = 0;
	struct wire_frame f;
	struct pair p;
	bool good = true;

	pair_open(&p);
	link_hello(&p.a);
	while (seen < 600 && good) {
		while (sent < 600) {
			size_t n = 4 + (sent * 7919u) % (WIRE_PAYLOAD_MAX - 4);
			uint8_t *at =
				link_room(&p.a) >= n ? link_data_begin(&p.a, n) : NULL;

			if (!at)
				break;
			memset(block, (int)sent, n);
			wire_set32(block, sent++);
			memcpy(at, block, n);
			link_data_commit(&p.a, 1, 1, n);
		}
		good = link_flush(&p.a) >= 0 && link_fill(&p.b) >= 0;
		while (good && link_next(&p.b, &f) == 1) {
			good = wire_get32(f.payload) == seen &&
			       f.len == 4 + (seen * 7919u) % (WIRE_PAYLOAD_MAX - 4) &&
			       (f.len == 4 || f.payload[f.len - 1] == (uint8_t)seen);
			seen++;
		}
	}
	OK(good && seen == 600, "600 frames, in order and whole (%u)", seen);
	pair_close(&p);
}

static void bounds(void)
{
	static uint8_t block[WIRE_PAYLOAD_MAX + 1];
	struct wire_frame f;
	struct pair p;
	size_t n = 0;
	int r;

	pair_open(&p);
	OK(link_room(&p.a) == LINK_OUT - WIRE_HEADER, "all of it is free");
	OK(link_send(&p.a, WIRE_DATA, 1, 1, block, WIRE_PAYLOAD_MAX + 1) == -EMSGSIZE,
	   "a frame that is too large for any receiver");
	while ((r = link_send(&p.a, WIRE_DATA, 1, 1, block, 50000)) == 0)
		n++;
	OK(r == -ENOBUFS && n == LINK_OUT / (50000 + WIRE_HEADER), "full after %zu", n);
	OK(link_send(&p.a, WIRE_CLOSE, 0, 1, NULL, 0) == 0, "a small frame still fits");
	OK(link_data_begin(&p.a, 50000) == NULL, "no room for a large one");
	OK(link_flush(&p.a) == 1, "the peer does not read: would block");
	link_clear(&p.a);
	OK(link_pending(&p.a) == 0 && !p.a.out, "cleared");
	OK(link_fill(&p.b) == 1 && link_next(&p.b, &f) == -EPROTO, "no HELLO in front");
	pair_close(&p);
}

static void the_end(void)
{
	struct wire_frame f;
	struct pair p;
	int r;

	pair_open(&p);
	link_hello(&p.a);
	link_send(&p.a, WIRE_PING, 0, 0, NULL, 0);
	link_flush(&p.a);
	shutdown(p.fd[0], SHUT_WR);
	OK(link_fill(&p.b) == 1 && link_fill(&p.b) == -EPIPE && p.b.eof, "end is seen");
	OK(link_next(&p.b, &f) == 1, "what came before it is still there");
	close(p.fd[0]);
	link_hello(&p.b);
	r = link_flush(&p.b);
	OK(r == -EPIPE, "no SIGPIPE, an error: %d", r);
	p.fd[0] = -1;
	link_trim(&p.b);
	OK(!p.b.in && p.b.out, "only drained buffers are given back");
	pair_close(&p);
}

static void works_over_pipes(void)
{
	struct wire_frame f;
	struct link l;
	int p[2];

	if (pipe2(p, O_CLOEXEC | O_NONBLOCK) < 0)
		abort();
	link_init(&l, p[0], p[1]);
	link_hello(&l);
	link_send(&l, WIRE_PING, 0, 0, "pipe", 4);
	OK(link_flush(&l) == 0 && l.no_socket, "written to a pipe");
	OK(link_fill(&l) == 1 && link_next(&l, &f) == 1 && f.len == 4, "read from it");
	link_clear(&l);
	close(p[0]);
	close(p[1]);
}

static void credit(void)
{
	struct flow s, r;
	uint32_t grant = 0, sent = 0;

	flow_init(&s);
	flow_init(&r);
	OK(s.credit == WIRE_WINDOW && flow_received(&r, WIRE_WINDOW) == 0,
	   "a whole window");
	OK(flow_received(&r, 1) == -EPROTO, "one byte more is refused");
	s.credit = 0;
	while (!grant) {
		grant = flow_consumed(&r, 1000);
		sent += 1000;
	}
	OK(grant == sent && r.credit == grant && r.owed == 0, "credit comes back: %u",
	   grant);
	OK(flow_granted(&s, grant) == 0 && s.credit == grant, "and may be used");
	OK(flow_granted(&s, 0xffffffff) == -EPROTO && s.credit == grant,
	   "overflow refused");
	OK(flow_granted(&s, 0) == -EPROTO, "a grant of nothing is refused");
}

int main(void)
{
	hello_comes_first();
	bad_hello();
	byte_by_byte();
	bulk_in_order();
	bounds();
	the_end();
	works_over_pipes();
	credit();
	return tap_done();
}
