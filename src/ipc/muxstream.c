/* SPDX-License-Identifier: Apache-2.0 */
/*
 * muxstream - one connection of a muxend: a socket here, frames to the other side.
 *
 * Each direction ends by itself; what ended says who may still be heard of:
 *   the socket was read to its end         EOF goes out
 *   EOF came, and all before it is written the socket's other half sees an end
 *   both of these                          the slot is free; the socket is closed when
 *                                          all is written
 *   nobody holds the socket's other half   CLOSE goes out: what comes has no reader
 *   CLOSE came                             written to the end, then closed
 *   an error of the socket                 RESET goes out
 *   RESET came, from the guest             closed at once, as a reset
 *   RESET came, from the host              written to the end, then closed as a reset
 *
 * The last two differ as TCP does: a program that resets its connection does not care
 * what becomes of its bytes, but a server that answers and resets has been heard, by a
 * program that reads. Nor does the host's end say RESET before all that it had to say.
 *
 * A half of a socket pair behaves here as TCP does: if it was closed with bytes unread,
 * this side gets ECONNRESET, and if not, the end and EPIPE.
 */
#include "ipc/muxend_impl.h"

#include "base/util.h"
#include "ipc/wire.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#define WINDOW_MAX (1u << 20)
#define WIDE_MAX (32u << 20) /* of all windows, beyond what each begins with */

static void add_work(struct mux_stream *s)
{
	if (mux_list_empty(&s->work))
		mux_list_add(s->id ? &s->end->work : &s->end->ending, &s->work);
}

/* ---- beginning and end ---------------------------------------------------------- */

struct mux_stream *mux_stream_new(struct muxend *m, uint32_t id)
{
	struct mux_stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->watch.fd = -1;
	s->end = m;
	s->id = id;
	s->credit = s->window = s->granted = NETMUX_WINDOW;
	buf_init(&s->pending, WINDOW_MAX);
	mux_list_init(&s->work);
	mux_list_add(&m->all, &s->all);
	m->slot[id % NETMUX_SLOTS] = s;
	m->streams++;
	return s;
}

/* No frame of it comes or goes any more. */
static void leave_slot(struct mux_stream *s)
{
	struct muxend *m = s->end;

	if (!s->id)
		return;
	m->slot[s->id % NETMUX_SLOTS] = NULL;
	if (m->n_free < NETMUX_SLOTS) /* only the guest takes from these */
		m->free_slot[m->n_free++] = (uint16_t)(s->id % NETMUX_SLOTS);
	s->id = 0;
	if (!mux_list_empty(&s->work)) {
		mux_list_remove(&s->work);
		add_work(s);
	}
}

static void close_socket(struct mux_stream *s, bool reset)
{
	struct linger now = {.l_onoff = 1};
	void *owner = take_ptr(s->owner);

	if (owner)
		s->end->ops->ended(s->end->arg, owner, reset);
	if (reset && s->watch.fd >= 0) /* a pair has no such thing, and says so */
		(void)setsockopt(s->watch.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close_fd(&s->watch.fd); /* it has no copies: the set forgets it */
	buf_clear(&s->pending);
	s->end->wide -= s->window - NETMUX_WINDOW;
	s->window = NETMUX_WINDOW;
}

void mux_stream_free(struct mux_stream *s, bool reset)
{
	close_socket(s, reset);
	leave_slot(s);
	mux_list_remove(&s->all);
	mux_list_remove(&s->work);
	s->end->streams--;
	free(s);
}

void mux_stream_doom(struct mux_stream *s)
{
	if (!s->id) { /* the other side has forgotten it */
		mux_stream_free(s, true);
		return;
	}
	close_socket(s, true);
	s->doomed = true;
	add_work(s);
}

static bool is_host(const struct mux_stream *s)
{
	return s->end->ops->open != NULL;
}

static void stream_ready(struct mux_watch *w, uint32_t events)
{
	struct mux_stream *s = container_of(w, struct mux_stream, watch);

	if (events & (EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		s->readable = true;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		s->writable = true;
	if (events & EPOLLHUP)
		s->hup = true;
	if (events & EPOLLERR)
		s->broken = true;
	add_work(s);
}

int mux_stream_attach(struct mux_stream *s, int *fd)
{
	int r;

	s->watch = (struct mux_watch){.fd = *fd, .ready = stream_ready};
	r = muxend_watch(s->end, &s->watch, EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDHUP);
	if (r < 0)
		s->watch.fd = -1;
	else
		*fd = -1;
	return r;
}

/* ---- from the other side to the socket ------------------------------------------ */

static void consumed(struct mux_stream *s, size_t n)
{
	s->owed += (uint32_t)n;
	s->smooth += n;
	if (s->owed >= s->window / 4)
		add_work(s);
}

/* Bytes that the socket took; 0: none now. Negative: it was doomed, and may be gone. */
static ssize_t write_some(struct mux_stream *s, const void *p, size_t n)
{
	ssize_t w;

	do
		w = send(s->watch.fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (w < 0 && errno == EINTR);
	if (w >= 0)
		return w;
	if (errno == EAGAIN) {
		s->writable = false;
		s->smooth = 0;
		return 0;
	}
	if (errno == EPIPE) { /* what was sent to us before still goes out */
		s->deaf = true;
		return (ssize_t)n;
	}
	mux_stream_doom(s);
	return -1;
}

/* False: doomed, and maybe gone. */
static bool deliver(struct mux_stream *s)
{
	while (s->writable && s->pending.len) {
		ssize_t n = s->deaf ? (ssize_t)s->pending.len
				    : write_some(s, s->pending.data, s->pending.len);

		if (n < 0)
			return false;
		consumed(s, (size_t)n);
		buf_consume(&s->pending, (size_t)n);
	}
	if (!s->pending.len)
		buf_clear(&s->pending); /* idle ones have none */
	return true;
}

int mux_stream_data(struct mux_stream *s, const uint8_t *p, size_t n)
{
	ssize_t w = 0;

	if (n > s->granted || s->in_over)
		return -EPROTO;
	s->granted -= (uint32_t)n;
	if (s->doomed)
		return 0;
	if (s->deaf)
		w = (ssize_t)n;
	else if (s->writable && !s->pending.len)
		w = write_some(s, p, n);
	if (w < 0)
		return 0;
	consumed(s, (size_t)w);
	if ((size_t)w < n && buf_append(&s->pending, p + w, n - (size_t)w) < 0)
		mux_stream_doom(s);
	return 0;
}

/* Those that consume a lot without a pause may have more on its way, while there is some
 * left for all of them. */
static uint32_t widen(struct mux_stream *s)
{
	uint32_t more = s->window;

	if (s->smooth < 2ull * s->window || s->window >= WINDOW_MAX ||
	    s->end->wide + more > WIDE_MAX)
		return 0;
	s->smooth = 0;
	s->end->wide += more;
	s->window += more;
	return more;
}

static void grant(struct mux_stream *s)
{
	uint32_t more = s->owed;

	if (s->in_over || more < s->window / 4)
		return;
	more += widen(s);
	s->owed = 0;
	s->granted += more;
	wire_set32(mux_put(s->end, NETMUX_WINDOW_ADD, s->id, 4), more);
}

void mux_stream_eof(struct mux_stream *s, bool closed)
{
	s->in_over = true;
	s->closed = closed;
	if (closed)
		s->out_over = true;
	if (s->doomed && closed) { /* it need not be told */
		mux_stream_free(s, false);
		return;
	}
	if (s->out_over)
		leave_slot(s);
	add_work(s);
}

void mux_stream_reset(struct mux_stream *s)
{
	if (is_host(s) || s->doomed) {
		mux_stream_free(s, true);
		return;
	}
	s->reset = s->in_over = s->out_over = s->closed = true;
	leave_slot(s);
	add_work(s);
}

/* A reset takes along what the kernel has not sent yet, because the program is slow to
 * read. False: there is some, and an event will tell. */
static bool all_sent(struct mux_stream *s)
{
	struct epoll_event ev = {.events = EPOLLOUT | EPOLLET, .data.ptr = &s->watch};
	int left = 0, lowest = 1;

	if (s->deaf || ioctl(s->watch.fd, SIOCOUTQNSD, &left) < 0 || left == 0)
		return true;
	return setsockopt(s->watch.fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &lowest,
			  sizeof(lowest)) < 0 ||
	       epoll_ctl(s->end->epoll, EPOLL_CTL_MOD, s->watch.fd, &ev) < 0;
}

/* ---- from the socket to the other side ------------------------------------------ */

int mux_stream_credit(struct mux_stream *s, uint32_t n)
{
	if (n == 0 || n > NETMUX_CREDIT_MAX - s->credit)
		return -EPROTO;
	s->credit += n;
	if (s->readable)
		add_work(s);
	return 0;
}

static bool may_read(const struct mux_stream *s)
{
	return s->readable && s->credit && !s->ended && !s->out_over;
}

/* The host's has more to say before its end. Of a program that has reset its connection,
 * what there still is has nobody to go to. */
static bool waits_for_credit(const struct mux_stream *s)
{
	return is_host(s) && s->readable && !s->credit && !s->ended && !s->out_over;
}

/* False: doomed, and maybe gone. */
static bool read_end(struct mux_stream *s)
{
	if (s->reset) {
		mux_stream_doom(s);
		return false;
	}
	s->ended = true;
	if (s->hup && !s->in_over)
		return true; /* CLOSE, see settle() */
	mux_put(s->end, NETMUX_EOF, s->id, 0);
	s->out_over = true;
	if (s->in_over)
		leave_slot(s);
	return true;
}

/* One frame. False: doomed, and maybe gone. */
static bool read_some(struct mux_stream *s)
{
	struct muxend *m = s->end;
	ssize_t n = recv(s->watch.fd, mux_next_payload(m),
			 min_size(s->credit, NETMUX_DATA_MAX), MSG_DONTWAIT);

	if (n > 0) {
		mux_put(m, NETMUX_DATA, s->id, (size_t)n);
		s->credit -= (uint32_t)n;
	} else if (n == 0) {
		return read_end(s);
	} else if (errno == EAGAIN) {
		s->readable = false;
	} else if (errno != EINTR) {
		mux_stream_doom(s);
		return false;
	}
	return true;
}

/* ---- a turn --------------------------------------------------------------------- */

/* What follows from all that has ended. It may be gone afterwards. */
static void settle(struct mux_stream *s)
{
	bool done = s->in_over && !s->pending.len;

	if (done && (s->closed || s->out_over)) {
		if (!s->reset || is_host(s) || all_sent(s))
			mux_stream_free(s, s->reset);
		return;
	}
	if (done && !s->shut) {
		shutdown(s->watch.fd, SHUT_WR);
		s->shut = true;
	}
	if (s->ended && s->hup && !s->in_over) {
		mux_put(s->end, NETMUX_CLOSE, s->id, 0);
		mux_stream_free(s, false);
		return;
	}
	if (may_read(s))
		add_work(s); /* behind the others */
}

void mux_stream_run(struct mux_stream *s)
{
	if (s->doomed) {
		mux_put(s->end, NETMUX_RESET, s->id, 0);
		mux_stream_free(s, true);
		return;
	}
	if (!deliver(s))
		return;
	if (s->id)
		grant(s);
	if (may_read(s) && !read_some(s))
		return;
	if (s->broken && !may_read(s) && !waits_for_credit(s))
		mux_stream_doom(s);
	else
		settle(s);
}
