/* SPDX-License-Identifier: Apache-2.0 */
/* muxend_impl - what muxend.c (the port) and muxstream.c (a connection) share. */
#ifndef COVE_IPC_MUXEND_IMPL_H
#define COVE_IPC_MUXEND_IMPL_H

#include "ipc/muxend.h"

#include "base/buf.h"

#define MUX_IN (128u << 10)
#define MUX_OUT (256u << 10)
/* Room that one connection's share of a turn needs at most: one DATA, and the small
 * frames that go with it. */
#define MUX_ROOM (NETMUX_FRAME + 64)

struct mux_list { /* circular, with a head */
	struct mux_list *prev, *next;
};

struct mux_stream {
	struct mux_watch watch; /* fd -1: closed */
	struct muxend *end;
	struct mux_list all, work; /* work: of the muxend's work or ending, or alone */
	void *owner;
	uint32_t id;      /* 0: both directions have ended, the slot is somebody else's */
	uint32_t credit;  /* what we may still send */
	uint32_t window;  /* what the other side may have on its way ... */
	uint32_t granted; /* ... and of that, what it may still send */
	uint32_t owed;    /* consumed, and not granted again yet */
	uint64_t smooth;  /* consumed without a pause since the window last grew */
	struct buf pending; /* came, and the socket did not take it yet */
	/* of the socket */
	bool readable, writable;
	bool ended;  /* read to its end */
	bool hup;    /* both directions: who held the other half has closed it */
	bool broken; /* it has an error, which comes behind what it has to read */
	bool deaf;   /* nobody reads what is written to it */
	bool shut;   /* we have ended our direction */
	/* of the other side */
	bool in_over;  /* it sends no more */
	bool out_over; /* we send it no more */
	bool closed;   /* CLOSE came */
	bool doomed;   /* the socket is gone, RESET is to be sent */
	bool reset;    /* it ends so, after what was sent before: there, or here */
};

struct muxend {
	const struct muxend_ops *ops;
	void *arg;
	int epoll;
	struct mux_watch port;
	bool is_socket;
	bool readable, writable; /* the port */
	bool synced;             /* the other side's HELLO came */
	int failed;
	uint8_t nonce[NETMUX_NONCE];
	struct mux_list all;
	struct mux_list work;   /* connections that have something to do, with room */
	struct mux_list ending; /* and those that have nothing to say any more */
	unsigned streams, streams_max;
	size_t wide; /* windows beyond NETMUX_WINDOW, all together */
	struct mux_stream *slot[NETMUX_SLOTS];
	uint32_t uses[NETMUX_SLOTS]; /* the guest's: of each slot */
	uint16_t free_slot[NETMUX_SLOTS];
	unsigned n_free;
	size_t in_start, in_end, out_start, out_end;
	uint8_t *in, *out;
};

static inline void mux_list_init(struct mux_list *l)
{
	l->prev = l->next = l;
}

static inline bool mux_list_empty(const struct mux_list *l)
{
	return l->next == l;
}

static inline void mux_list_add(struct mux_list *head, struct mux_list *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

static inline void mux_list_remove(struct mux_list *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	mux_list_init(l);
}

/* muxend.c: queues a frame, for which there must be room; the payload to be filled. */
uint8_t *mux_put(struct muxend *m, uint8_t type, uint32_t id, size_t len);
/* Where the payload of the next frame would be: for reading into it before mux_put(). */
uint8_t *mux_next_payload(struct muxend *m);

/* muxstream.c */
struct mux_stream *mux_stream_new(struct muxend *m, uint32_t id); /* NULL: no memory */
void mux_stream_free(struct mux_stream *s, bool reset);
int mux_stream_attach(struct mux_stream *s, int *fd);
/* Its share of a turn; with room for MUX_ROOM, or without an id. It may be gone
 * afterwards. */
void mux_stream_run(struct mux_stream *s);
/* Of a frame. 0 or -EPROTO; it may be gone afterwards. */
int mux_stream_data(struct mux_stream *s, const uint8_t *p, size_t n);
int mux_stream_credit(struct mux_stream *s, uint32_t n);
void mux_stream_eof(struct mux_stream *s, bool closed);
void mux_stream_reset(struct mux_stream *s);
void mux_stream_doom(struct mux_stream *s);

#endif
