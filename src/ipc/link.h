/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link - framed, buffered, non-blocking I/O on one byte stream, and credit accounting.
 *
 * The caller polls: link_fill() when readable, then link_next() until it returns 0;
 * link_flush() when writable and link_pending() is not 0. Both buffers are bounded:
 * - in: one read buffer of LINK_IN bytes; link_fill() reads only what fits;
 * - out: LINK_OUT bytes; link_send() of a frame that does not fit fails with -ENOBUFS.
 *   Senders of bulk DATA look at link_room() first and leave LINK_RESERVE for control
 *   frames, so a stream that waits never stops a signal or an exit status.
 */
#ifndef COVE_IPC_LINK_H
#define COVE_IPC_LINK_H

#include "ipc/wire.h"

#include <stdbool.h>

#define LINK_IN (256u * 1024)
#define LINK_OUT (512u * 1024)
#define LINK_RESERVE (192u * 1024)

struct link {
	int in_fd, out_fd; /* the same for a socket; two for --stdio */
	uint8_t *in, *out; /* allocated on first use, released when drained and idle */
	size_t in_start, in_end;
	size_t out_start, out_end;
	bool hello_seen; /* the peer's HELLO came and was good */
	bool eof;        /* the peer closed */
	bool no_socket;  /* out_fd turned out to be a pipe */
};

void link_init(struct link *l, int in_fd, int out_fd); /* borrows the descriptors */
void link_clear(struct link *l);                       /* frees buffers only */
/* Releases a buffer that is drained; for the moment when the caller has been idle. Frames
 * from link_next() are invalid after it. */
void link_trim(struct link *l);

/* Reads once (or until the buffer is full). 1: got bytes, 0: would block, -EPIPE: the
 * peer closed (l->eof), other -errno. */
int link_fill(struct link *l);
/* 1: *ret is the next frame, valid until the next link_fill(); 0: none complete; -EPROTO.
 * HELLO is handled here: the first frame must be it, with our magic and version. */
int link_next(struct link *l, struct wire_frame *ret);

/* Queues a frame. 0, -ENOBUFS (does not fit now), -EMSGSIZE (never fits), -ENOMEM. */
int link_send(struct link *l, uint8_t type, uint8_t sub, uint32_t stream,
	      const void *payload, size_t n);
int link_hello(struct link *l);
/* Zero-copy queueing of DATA: a pointer with room for at least `want` payload bytes
 * behind a header, or NULL; then commit says how many were filled (0: none, nothing is
 * queued). */
uint8_t *link_data_begin(struct link *l, size_t want);
void link_data_commit(struct link *l, uint8_t sub, uint32_t stream, size_t n);
/* Bytes that fit now behind one header. May exceed what one frame can carry. */
size_t link_room(const struct link *l);
size_t link_pending(const struct link *l);
/* Writes what it can. 0: all written; 1: would block, try when writable; -errno. */
int link_flush(struct link *l);

/* Credit of one direction of one descriptor. */
struct flow {
	uint32_t credit; /* sender: may still send. receiver: peer may still send */
	uint32_t owed;   /* receiver: consumed, not yet granted back */
};
void flow_init(struct flow *f);
int flow_received(struct flow *f, size_t n); /* -EPROTO if n exceeds the credit */
/* Notes n consumed bytes; returns the credit to grant now with WINDOW_ADD (0: not yet).
 */
uint32_t flow_consumed(struct flow *f, size_t n);
int flow_granted(struct flow *f,
		 uint32_t n); /* sender, on WINDOW_ADD; -EPROTO on overflow */

#endif
