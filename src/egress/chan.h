/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chan - one side of an opened connection: a socket, or TLS on a socket. Non-blocking.
 *
 * No SIGPIPE comes from here. A struct chan may be moved.
 */
#ifndef COVE_EGRESS_CHAN_H
#define COVE_EGRESS_CHAN_H

#include "egress/ca.h"

#include <stddef.h>
#include <sys/types.h>

struct chan {
	int fd;                     /* borrowed */
	void *ssl;                  /* SSL *, or NULL: plain */
	bool shaking;               /* the handshake is not complete */
	bool want_read, want_write; /* what the last call waits for */
	bool eof;
	bool failed;     /* TLS broke: nothing more is sent or read */
	bool drained;    /* the last read took all that the socket had */
	const char *why; /* static text after an error */
};

void chan_plain(struct chan *c, int fd);
/* Server side towards the sandbox, with a leaf for name (a name, or an address as text).
 * ALPN http/1.1 only. 0; -ENOMEM with why. */
int chan_server(struct chan *c, int fd, struct authority *a, const char *name);
/* Client side towards the upstream: SNI and verification of name against the trust store
 * (no name: the address), TLS 1.2 or later, ALPN http/1.1. 0; -ENOMEM, -EINVAL with why.
 */
int chan_client(struct chan *c, int fd, struct authority *a, const char *name,
		const struct addr *ip);
/* 1: done; 0: wait (want_*); -EPROTO: failed, why is set. */
int chan_handshake(struct chan *c);
/* Bytes, 0 at the orderly end (eof), -EAGAIN with want_* set, -EPROTO / -errno. TLS that
 * ends without a close_notify is -ECONNRESET: what has no length of its own may be cut.
 */
ssize_t chan_read(struct chan *c, void *p, size_t n);
/* Bytes taken, maybe fewer than n (then want_write is set); after that, or after -EAGAIN,
 * the next write must begin with the same bytes and have at least as many. */
ssize_t chan_write(struct chan *c, const void *p, size_t n);
int chan_shutdown(struct chan *c); /* sends the end; same returns as chan_handshake */
bool chan_buffered(const struct chan *c); /* bytes that poll() does not see */
void chan_clear(struct chan *c);          /* not the descriptor */

#endif
