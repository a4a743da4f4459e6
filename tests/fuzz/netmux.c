/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile guest against the host's end of a machine's network, and programs that do
 * anything with their connections meanwhile. The input is a list of steps: bytes for the
 * stream, or something to be done with the other half of a connection. Properties: no
 * crash, no endless work; what the host says is well-formed and within the credit that it
 * was given; and what was decoded is encoded to the same bytes.
 */
#include "ipc/netmux.h"

#include "base/util.h"
#include "fuzz.h"
#include "ipc/muxend.h"
#include "ipc/wire.h"

#include <fcntl.h>
#include <sys/socket.h>

#define HALVES 8

static struct {
	struct muxend *host;
	int port;
	int half[HALVES]; /* of the connections opened last */
	unsigned next;
	struct slot {
		uint32_t id;
		uint64_t credit;
	} slot[NETMUX_SLOTS];
	uint8_t fed[65536], said[65536];
	size_t n_fed, n_said;
	bool greeted; /* the host's HELLO came */
	bool failed;
} t;

/* ---- the host's owner ------------------------------------------------------------ */

static void on_open(void *arg, struct mux_stream *s, const struct netmux_ends *e)
{
	unsigned i = t.next++ % HALVES;
	int fd[2];

	(void)arg;
	if (e->to.ss_family == AF_INET6 && t.next % 3 == 0)
		return; /* refused */
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) < 0)
		abort();
	if (muxend_attach(s, &fd[0]) < 0)
		abort();
	muxend_own(s, &t);
	if (t.next % 5 == 0)
		muxend_reset(s);
	close_fd(&t.half[i]);
	t.half[i] = fd[1];
}

static void on_ended(void *arg, void *owner, bool reset)
{
	(void)arg;
	(void)reset;
	if (owner != &t)
		abort();
}

static void on_dgram(void *arg, const struct netmux_ends *e, const uint8_t *p, size_t n)
{
	(void)arg;
	muxend_dgram(t.host, e, p, n > NETMUX_DATAGRAM ? NETMUX_DATAGRAM : n);
	muxend_who(t.host, 1 + (uint32_t)n, e);
}

static void on_who_is(void *arg, uint32_t id, const struct netmux_who *w)
{
	(void)arg;
	if (!id || memchr(w->program, 0, sizeof(w->program)) == NULL)
		abort();
}

static const struct muxend_ops ops = {
	.open = on_open, .ended = on_ended, .dgram = on_dgram, .who_is = on_who_is};

/* ---- what was fed, as far as it makes sense -------------------------------------- */

static void note_fed(const struct netmux_frame *f)
{
	struct slot *s = &t.slot[f->id % NETMUX_SLOTS];
	struct netmux_ends e;
	uint8_t again[NETMUX_ENDS];

	if (f->type == NETMUX_OPEN) {
		*s = (struct slot){f->id, NETMUX_WINDOW};
		if (netmux_get_ends(f->payload, &e) == 0 &&
		    (netmux_put_ends(again, &e) < 0 ||
		     memcmp(again, f->payload, sizeof(again)) != 0))
			abort();
	}
	if (f->type == NETMUX_WINDOW_ADD && s->id == f->id)
		s->credit += wire_get32(f->payload);
}

static void feed(const uint8_t *p, size_t n)
{
	struct netmux_frame f;
	ssize_t w = send(t.port, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	size_t at = 0;
	int used;

	if (w <= 0 || (size_t)w > sizeof(t.fed) - t.n_fed)
		return;
	memcpy(t.fed + t.n_fed, p, (size_t)w);
	t.n_fed += (size_t)w;
	while ((used = netmux_parse(t.fed + at, t.n_fed - at, &f)) > 0) {
		note_fed(&f);
		at += (size_t)used;
	}
	memmove(t.fed, t.fed + at, t.n_fed - at);
	t.n_fed -= at;
}

/* ---- what the host says ---------------------------------------------------------- */

static void check_said(const struct netmux_frame *f)
{
	struct slot *s = &t.slot[f->id % NETMUX_SLOTS];

	if (f->type == NETMUX_OPEN || f->type == NETMUX_WHO_IS)
		abort();
	if (f->type != NETMUX_DATA || s->id != f->id)
		return;
	if (f->len > s->credit)
		abort();
	s->credit -= f->len;
}

static void listen_to_host(void)
{
	struct netmux_frame f;
	ssize_t n =
		recv(t.port, t.said + t.n_said, sizeof(t.said) - t.n_said, MSG_DONTWAIT);
	size_t at = 0;
	int used = 0;

	if (n > 0)
		t.n_said += (size_t)n;
	if (!t.greeted && t.n_said >= NETMUX_HELLO) {
		t.greeted = true;
		at = NETMUX_HELLO;
	}
	while (t.greeted && (used = netmux_parse(t.said + at, t.n_said - at, &f)) > 0) {
		check_said(&f);
		at += (size_t)used;
	}
	if (used < 0)
		abort();
	memmove(t.said, t.said + at, t.n_said - at);
	t.n_said -= at;
}

/* ---- steps ----------------------------------------------------------------------- */

static void use_half(uint8_t what, size_t n)
{
	static uint8_t block[4096];
	int *fd = &t.half[what % HALVES];

	if (*fd < 0)
		return;
	switch (what / HALVES % 5) {
	case 0:
		(void)!send(*fd, block, n * 16 % sizeof(block), MSG_NOSIGNAL);
		break;
	case 1:
		(void)!recv(*fd, block, sizeof(block), 0);
		break;
	case 2:
		shutdown(*fd, SHUT_WR);
		break;
	case 3:
		close_fd(fd);
		break;
	case 4:
		while (send(*fd, block, sizeof(block), MSG_NOSIGNAL) > 0)
			;
		break;
	}
}

static void turns(void)
{
	for (int i = 0; !t.failed && i < 64; i++) {
		int r = muxend_turn(t.host, 0);

		t.failed = r < 0;
		if (r == 0)
			return;
	}
}

static void begin(void)
{
	static const uint8_t none[NETMUX_NONCE];
	uint8_t hello[NETMUX_HELLO];
	int pair[2];

	memset(&t, 0, sizeof(t));
	for (int i = 0; i < HALVES; i++)
		t.half[i] = -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) <
		    0 ||
	    muxend_new(&t.host, &pair[0], none, 6, &ops, &t) < 0)
		abort();
	t.port = pair[1];
	netmux_put_hello(hello, none);
	(void)!send(t.port, hello, sizeof(hello), 0);
}

/* A step: a byte below 0x80, and so many bytes of the stream; or one above, and
 * something with a connection. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	begin();
	for (size_t at = 0; at < size && !t.failed;) {
		uint8_t step = data[at++];
		size_t n = min_size(step, size - at);

		if (step >= 0x80) {
			use_half(step - 0x80, at < size ? data[at] : 7);
		} else {
			feed(data + at, n);
			at += n;
		}
		turns();
		if (step % 3)
			listen_to_host();
	}
	muxend_free(t.host);
	for (int i = 0; i < HALVES; i++)
		close_fd(&t.half[i]);
	close(t.port);
	return 0;
}
