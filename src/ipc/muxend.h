/* SPDX-License-Identifier: Apache-2.0 */
/*
 * muxend - one end of a netmux (ipc/netmux.h): stream sockets on this side, one byte
 * stream to the other. The guest's sockets are the TCP connections that it accepted, the
 * host's are halves of socket pairs; what happens to a socket on one side (bytes, half a
 * close, a close, a reset, a reader that stops) happens to the one on the other.
 *
 * Theory of operation. All descriptors are in one epoll set, edge-triggered; the owner
 * polls that set (muxend_fd) or waits in it (muxend_turn). A turn notes what the events
 * say, handles the frames that came, then gives every connection with something to do a
 * share in turn and writes out. Only the last step needs room in the output, so input is
 * always taken and never waits for output.
 *
 * Memory: two buffers; a small struct a connection; and for each what the other side had
 * credit to send and the socket did not take. The credit starts at NETMUX_WINDOW, and
 * grows for those who consume much without a pause, by WIDE_MAX for all together: so the
 * sum is bounded whatever the other side does.
 *
 * One thread. The other side may be hostile: what breaks the rules ends the whole.
 */
#ifndef COVE_IPC_MUXEND_H
#define COVE_IPC_MUXEND_H

#include "ipc/netmux.h"

struct muxend;
struct mux_stream; /* a connection */

/* What else is in the set; belongs to the owner, and outlives it or is stopped. */
struct mux_watch {
	int fd;
	void (*ready)(struct mux_watch *w, uint32_t events);
};

/* What the other side asks for. NULL: it may not. Called within muxend_turn(). */
struct muxend_ops {
	/* Somebody connects: muxend_attach() now, or it is reset. */
	void (*open)(void *arg, struct mux_stream *s, const struct netmux_ends *e);
	/* The connection with this owner is over, here and there; reset: by the other
	 * side. Its socket is closed next. */
	void (*ended)(void *arg, void *owner, bool reset);
	void (*dgram)(void *arg, const struct netmux_ends *e, const uint8_t *p, size_t n);
	void (*who)(void *arg, uint32_t id, const struct netmux_ends *e);
	void (*who_is)(void *arg, uint32_t id, const struct netmux_who *w);
};

/* port: a socket, or a virtio port (non-blocking); taken over. streams: at most so many
 * connections. 0 or -errno. */
int muxend_new(struct muxend **ret, int *port, const uint8_t nonce[NETMUX_NONCE],
	       unsigned streams, const struct muxend_ops *ops, void *arg);
void muxend_free(struct muxend *m); /* resets every connection; NULL is fine */
/* Resets every connection, forgets what was half read or written, and begins anew. */
void muxend_restart(struct muxend *m, const uint8_t nonce[NETMUX_NONCE]);

int muxend_fd(const struct muxend *m); /* readable: muxend_turn() has work */
/* Waits for so long at most. 1: there is more to do, call again; 0: all is done for now;
 * -EPIPE: the other side is gone; -EPROTO: it broke the rules; other -errno. After an
 * error only muxend_restart() and muxend_free() are of use. */
int muxend_turn(struct muxend *m, int timeout_ms);
/* Edge-triggered. 0 or -errno. */
int muxend_watch(struct muxend *m, struct mux_watch *w, uint32_t events);

/* Is there room for one more frame to be said? */
bool muxend_room(const struct muxend *m);
/* Before a turn, or in it. 0, -ENOBUFS: no room now, -EMSGSIZE. */
int muxend_dgram(struct muxend *m, const struct netmux_ends *e, const void *p, size_t n);
int muxend_who(struct muxend *m, uint32_t id, const struct netmux_ends *e);
int muxend_who_is(struct muxend *m, uint32_t id, const struct netmux_who *w);

/* The guest: tells the other side of a connection that was accepted, and carries it from
 * now on. Takes over the socket (non-blocking). 0; -EMFILE: too many; -ENOBUFS, -errno.
 */
int muxend_open(struct muxend *m, int *fd, const struct netmux_ends *e);
/* The host: within ops.open, the socket for it, taken over. 0 or -errno. */
int muxend_attach(struct mux_stream *s, int *fd);
/* Who is told of its end; NULL: nobody. An owner that is gone has closed the other half
 * of the socket, and what was written there still arrives. */
void muxend_own(struct mux_stream *s, void *owner);
/* Nobody is told, and the other side sees a reset, behind what was written to the
 * socket's other half: which the caller closes. */
void muxend_reset(struct mux_stream *s);

#endif
