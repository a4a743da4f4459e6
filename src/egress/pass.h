/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pass - bytes from one socket to another, as few copies as the kernel allows.
 *
 * A pump is one direction. A little data goes through one buffer that all pumps share;
 * a lot goes through a pipe with splice(), so that no byte is copied here. Pipes come
 * from a pool and are held only while bytes are in them: an idle pump has no memory.
 */
#ifndef COVE_EGRESS_PASS_H
#define COVE_EGRESS_PASS_H

#include "egress/egress.h"

#define PUMP_ALL UINT64_MAX

struct pipe_pair;

struct pump {
	int from, to;           /* non-blocking stream sockets, borrowed */
	uint64_t left;          /* still to be read; PUMP_ALL: until the end */
	uint64_t *count;        /* what was written is added here */
	struct pipe_pair *pipe; /* with bytes that could not be written yet, or NULL */
	char *rest;             /* the same, copied; or NULL */
	uint32_t rest_at, rest_n, in_pipe;
	int error;   /* errno of PUMP_FAILED */
	bool hup;    /* the caller saw EPOLLRDHUP, HUP or ERR on from: read to the end */
	bool urgent; /* and this is EPOLLPRI: a read stops short at such a byte */
	bool eof;    /* from has ended */
	bool bulk;   /* it moved much the last time */
	bool write_failed; /* of PUMP_FAILED: `to` did, not `from` */
};

enum pump_state {
	PUMP_READ,  /* wait until from is readable (edge or level) */
	PUMP_WRITE, /* wait until to is writable */
	PUMP_MORE,  /* its share of this turn is used up: call again in the next one */
	PUMP_END,   /* all of `left` is written, or from ended (eof) and all is written */
	PUMP_FAILED,
};

/* The process ignores SIGPIPE. */
void pump_init(struct pump *p, int from, int to, uint64_t left, uint64_t *count);
enum pump_state pump_run(struct egress *e, struct pump *p);
void pump_clear(struct pump *p); /* drops what was not written; no descriptors */

/* The shared buffer: valid until the next call into this module. */
#define PUMP_BUF (64u << 10)
char *pump_buf(struct egress *e); /* NULL: no memory */
void pump_pool_free(struct egress *e);

#endif
