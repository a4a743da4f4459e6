/* SPDX-License-Identifier: Apache-2.0 */
/*
 * muxend - the port of a mux: frames in, frames out, and whose turn it is.
 *
 * In a turn, events only leave notes; connections are freed after the last one was looked
 * at, so that no event finds a freed one.
 */
#include "ipc/muxend_impl.h"

#include "base/util.h"
#include "ipc/wire.h"

#include <sys/epoll.h>
#include <sys/stat.h>

#define EVENTS 128
#define READ_SHARE (512u << 10) /* of a turn, so that its owner can do other things */
#define WORK_SHARE 256

/* ---- output --------------------------------------------------------------------- */

bool muxend_room(const struct muxend *m)
{
	return MUX_OUT - (m->out_end - m->out_start) >= MUX_ROOM;
}

uint8_t *mux_next_payload(struct muxend *m)
{
	if (m->out_start == m->out_end) {
		m->out_start = m->out_end = 0;
	} else if (MUX_OUT - m->out_end < MUX_ROOM) {
		memmove(m->out, m->out + m->out_start, m->out_end - m->out_start);
		m->out_end -= m->out_start;
		m->out_start = 0;
	}
	return m->out + m->out_end + NETMUX_HEADER;
}

uint8_t *mux_put(struct muxend *m, uint8_t type, uint32_t id, size_t len)
{
	uint8_t *payload = mux_next_payload(m);

	netmux_put_header(payload - NETMUX_HEADER, type, id, len);
	m->out_end += NETMUX_HEADER + len;
	return payload;
}

static ssize_t port_write(struct muxend *m, const uint8_t *p, size_t n)
{
	return m->is_socket ? send(m->port.fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT)
			    : write(m->port.fd, p, n);
}

static int flush(struct muxend *m)
{
	while (m->writable && m->out_start < m->out_end) {
		ssize_t n =
			port_write(m, m->out + m->out_start, m->out_end - m->out_start);

		if (n >= 0)
			m->out_start += (size_t)n;
		else if (errno == EAGAIN)
			m->writable = false;
		else if (errno != EINTR)
			return -errno;
	}
	return 0;
}

int muxend_dgram(struct muxend *m, const struct netmux_ends *e, const void *p, size_t n)
{
	uint8_t *out;

	if (n > NETMUX_DATAGRAM + 1)
		return -EMSGSIZE;
	if (!muxend_room(m))
		return -ENOBUFS;
	out = mux_next_payload(m);
	if (netmux_put_ends(out, e) < 0)
		return -EINVAL;
	memcpy(out + NETMUX_ENDS, p, n);
	mux_put(m, NETMUX_DGRAM, 0, NETMUX_ENDS + n);
	return 0;
}

int muxend_who(struct muxend *m, uint32_t id, const struct netmux_ends *e)
{
	if (!muxend_room(m))
		return -ENOBUFS;
	if (!id || netmux_put_ends(mux_next_payload(m), e) < 0)
		return -EINVAL;
	mux_put(m, NETMUX_WHO, id, NETMUX_ENDS);
	return 0;
}

int muxend_who_is(struct muxend *m, uint32_t id, const struct netmux_who *w)
{
	if (!muxend_room(m))
		return -ENOBUFS;
	netmux_put_who(mux_put(m, NETMUX_WHO_IS, id, NETMUX_WHO_SIZE), w);
	return 0;
}

/* ---- connections ---------------------------------------------------------------- */

int muxend_open(struct muxend *m, int *fd, const struct netmux_ends *e)
{
	struct mux_stream *s;
	uint8_t ends[NETMUX_ENDS];
	uint32_t slot;
	int r;

	if (m->failed || !muxend_room(m))
		return -ENOBUFS;
	if (m->streams >= m->streams_max || !m->n_free)
		return -EMFILE;
	if (netmux_put_ends(ends, e) < 0)
		return -EINVAL;
	slot = m->free_slot[m->n_free - 1];
	m->uses[slot] = m->uses[slot] % (UINT32_MAX / NETMUX_SLOTS) + 1;
	s = mux_stream_new(m, m->uses[slot] * NETMUX_SLOTS + slot);
	if (!s)
		return -ENOMEM;
	m->n_free--;
	r = mux_stream_attach(s, fd);
	if (r < 0) {
		mux_stream_free(s, false);
		return r;
	}
	memcpy(mux_put(m, NETMUX_OPEN, s->id, sizeof(ends)), ends, sizeof(ends));
	return 0;
}

int muxend_attach(struct mux_stream *s, int *fd)
{
	return mux_stream_attach(s, fd);
}

void muxend_own(struct mux_stream *s, void *owner)
{
	s->owner = owner;
}

void muxend_reset(struct mux_stream *s)
{
	s->owner = NULL;
	if (s->watch.fd < 0)
		mux_stream_doom(s);
	else
		s->reset = true; /* when it is read to its end */
}

/* ---- frames --------------------------------------------------------------------- */

static int on_open(struct muxend *m, const struct netmux_frame *f)
{
	struct netmux_ends e;
	struct mux_stream *s;

	if (!m->ops->open || m->slot[f->id % NETMUX_SLOTS] ||
	    netmux_get_ends(f->payload, &e) < 0 || e.udp)
		return -EPROTO;
	s = mux_stream_new(m, f->id);
	if (!s)
		return -ENOMEM;
	if (m->streams <= m->streams_max)
		m->ops->open(m->arg, s, &e);
	if (s->watch.fd < 0 && !s->doomed)
		mux_stream_doom(s);
	return 0;
}

static int on_dgram(struct muxend *m, const struct netmux_frame *f)
{
	struct netmux_ends e;

	if (!m->ops->dgram || netmux_get_ends(f->payload, &e) < 0 || !e.udp)
		return -EPROTO;
	m->ops->dgram(m->arg, &e, f->payload + NETMUX_ENDS, f->len - NETMUX_ENDS);
	return 0;
}

static int on_who(struct muxend *m, const struct netmux_frame *f)
{
	struct netmux_ends e;

	if (!m->ops->who || netmux_get_ends(f->payload, &e) < 0)
		return -EPROTO;
	m->ops->who(m->arg, f->id, &e);
	return 0;
}

static int on_who_is(struct muxend *m, const struct netmux_frame *f)
{
	struct netmux_who w;

	if (!m->ops->who_is || netmux_get_who(f->payload, &w) < 0)
		return -EPROTO;
	m->ops->who_is(m->arg, f->id, &w);
	return 0;
}

/* Frames of a connection; one that is not known has just ended. */
static int on_stream(struct muxend *m, const struct netmux_frame *f)
{
	struct mux_stream *s = m->slot[f->id % NETMUX_SLOTS];

	if (!s || s->id != f->id)
		return 0;
	switch (f->type) {
	case NETMUX_DATA:
		return mux_stream_data(s, f->payload, f->len);
	case NETMUX_WINDOW_ADD:
		return mux_stream_credit(s, wire_get32(f->payload));
	case NETMUX_RESET:
		mux_stream_reset(s);
		return 0;
	case NETMUX_CLOSE: /* also behind an EOF */
		mux_stream_eof(s, true);
		return 0;
	default: /* EOF */
		if (s->in_over)
			return -EPROTO;
		mux_stream_eof(s, false);
		return 0;
	}
}

static int (*const handlers[NETMUX_TYPES])(struct muxend *,
					   const struct netmux_frame *) = {
	[NETMUX_OPEN] = on_open,         [NETMUX_DATA] = on_stream,
	[NETMUX_WINDOW_ADD] = on_stream, [NETMUX_EOF] = on_stream,
	[NETMUX_CLOSE] = on_stream,      [NETMUX_RESET] = on_stream,
	[NETMUX_DGRAM] = on_dgram,       [NETMUX_WHO] = on_who,
	[NETMUX_WHO_IS] = on_who_is,
};

static bool is_host(const struct muxend *m)
{
	return m->ops->open != NULL;
}

/* ---- input ---------------------------------------------------------------------- */

/* Nothing is said before. */
static void say_hello(struct muxend *m)
{
	netmux_put_hello(m->out, m->nonce);
	m->out_start = 0;
	m->out_end = NETMUX_HELLO;
}

static bool skip_to_hello(struct muxend *m)
{
	m->in_start += netmux_skip(m->in + m->in_start, m->in_end - m->in_start, m->nonce,
				   &m->synced);
	if (m->synced && is_host(m))
		say_hello(m);
	return m->synced;
}

static int handle_frames(struct muxend *m)
{
	struct netmux_frame f;
	int used;

	if (!m->synced && !skip_to_hello(m))
		return 0;
	while ((used = netmux_parse(m->in + m->in_start, m->in_end - m->in_start, &f)) >
	       0) {
		int r = handlers[f.type](m, &f);

		if (r < 0)
			return r;
		m->in_start += (size_t)used;
	}
	return used;
}

static void make_room_for_input(struct muxend *m)
{
	if (m->in_start == m->in_end) {
		m->in_start = m->in_end = 0;
	} else if (MUX_IN - m->in_end < NETMUX_FRAME) {
		memmove(m->in, m->in + m->in_start, m->in_end - m->in_start);
		m->in_end -= m->in_start;
		m->in_start = 0;
	}
}

/* Nobody there. A port may not have been opened by the host yet; a socket's other end
 * never comes back. */
static int nobody(struct muxend *m)
{
	m->readable = false;
	return m->is_socket || m->synced ? -EPIPE : 0;
}

static ssize_t port_read(struct muxend *m, uint8_t *p, size_t n)
{
	return m->is_socket ? recv(m->port.fd, p, n, MSG_DONTWAIT)
			    : read(m->port.fd, p, n);
}

static int read_port(struct muxend *m)
{
	for (size_t share = 0; m->readable && share < READ_SHARE;) {
		ssize_t n;
		int r;

		make_room_for_input(m);
		n = port_read(m, m->in + m->in_end, MUX_IN - m->in_end);
		if (n == 0 || (n < 0 && errno == ECONNRESET))
			return nobody(m);
		if (n < 0 && errno == EAGAIN)
			m->readable = false;
		else if (n < 0 && errno != EINTR)
			return -errno;
		if (n < 0)
			continue;
		m->in_end += (size_t)n;
		share += (size_t)n;
		r = handle_frames(m);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- turns ---------------------------------------------------------------------- */

static void port_ready(struct mux_watch *w, uint32_t events)
{
	struct muxend *m = container_of(w, struct muxend, port);

	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		m->readable = true;
	if (events & (EPOLLOUT | EPOLLERR))
		m->writable = true;
}

static struct mux_stream *next_of(struct mux_list *head)
{
	struct mux_stream *s = container_of(head->next, struct mux_stream, work);

	mux_list_remove(&s->work);
	return s;
}

static bool has_work(const struct muxend *m)
{
	return !mux_list_empty(&m->ending) ||
	       (!mux_list_empty(&m->work) && muxend_room(m));
}

/* Is there something to do that need not wait for an event? */
static bool busy(const struct muxend *m)
{
	return m->readable || has_work(m) || (m->writable && m->out_start < m->out_end);
}

static int write_out(struct muxend *m)
{
	for (unsigned n = 0; has_work(m) && n < WORK_SHARE; n++)
		mux_stream_run(
			next_of(mux_list_empty(&m->ending) ? &m->work : &m->ending));
	return flush(m);
}

int muxend_turn(struct muxend *m, int timeout_ms)
{
	struct epoll_event ev[EVENTS];
	int n, r;

	if (m->failed)
		return m->failed;
	n = epoll_wait(m->epoll, ev, EVENTS, busy(m) ? 0 : timeout_ms);
	if (n < 0 && errno != EINTR)
		return m->failed = -errno;
	for (int i = 0; i < n; i++) {
		struct mux_watch *w = ev[i].data.ptr;

		w->ready(w, ev[i].events);
	}
	r = read_port(m);
	if (r == 0)
		r = write_out(m);
	if (r < 0)
		return m->failed = r;
	return busy(m) || n == EVENTS;
}

int muxend_fd(const struct muxend *m)
{
	return m->epoll;
}

int muxend_watch(struct muxend *m, struct mux_watch *w, uint32_t events)
{
	struct epoll_event ev = {.events = events | EPOLLET, .data.ptr = w};

	return epoll_ctl(m->epoll, EPOLL_CTL_ADD, w->fd, &ev) < 0 ? -errno : 0;
}

/* ---- beginning and end ---------------------------------------------------------- */

static void free_all(struct muxend *m)
{
	while (!mux_list_empty(&m->all))
		mux_stream_free(container_of(m->all.next, struct mux_stream, all), true);
}

void muxend_restart(struct muxend *m, const uint8_t nonce[NETMUX_NONCE])
{
	free_all(m);
	memcpy(m->nonce, nonce, NETMUX_NONCE);
	m->in_start = m->in_end = m->out_start = m->out_end = 0;
	m->synced = false;
	m->failed = 0;
	m->readable = m->writable = true; /* tried, at worst */
	if (!is_host(m))
		say_hello(m);
}

void muxend_free(struct muxend *m)
{
	if (!m)
		return;
	if (m->all.next)
		free_all(m);
	close_fd(&m->port.fd);
	close_fd(&m->epoll);
	free(m->in);
	free(m->out);
	free(m);
}

static void init(struct muxend *m, const uint8_t nonce[NETMUX_NONCE])
{
	mux_list_init(&m->all);
	mux_list_init(&m->work);
	mux_list_init(&m->ending);
	for (unsigned i = 0; i < NETMUX_SLOTS; i++) /* the first one is on top */
		m->free_slot[i] = (uint16_t)(NETMUX_SLOTS - 1 - i);
	m->n_free = NETMUX_SLOTS;
	muxend_restart(m, nonce);
}

int muxend_new(struct muxend **ret, int *port, const uint8_t nonce[NETMUX_NONCE],
	       unsigned streams, const struct muxend_ops *ops, void *arg)
{
	struct muxend *m = calloc(1, sizeof(*m));
	struct stat st = {0};
	int r;

	if (!m)
		return -ENOMEM;
	m->ops = ops;
	m->arg = arg;
	m->streams_max = streams < NETMUX_SLOTS ? streams : NETMUX_SLOTS;
	m->port = (struct mux_watch){.fd = *port, .ready = port_ready};
	m->epoll = epoll_create1(EPOLL_CLOEXEC);
	m->in = malloc(MUX_IN);
	m->out = malloc(MUX_OUT);
	if (m->epoll < 0)
		r = -errno;
	else if (!m->in || !m->out)
		r = -ENOMEM;
	else if (fstat(*port, &st) < 0)
		r = -errno;
	else
		r = muxend_watch(m, &m->port, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
	if (r < 0) {
		m->port.fd = -1;
		muxend_free(m);
		return r;
	}
	m->is_socket = S_ISSOCK(st.st_mode);
	init(m, nonce);
	*port = -1;
	*ret = m;
	return 0;
}
