/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netmux - the bytes of a machine's port `cove.net`: the connections and DNS datagrams
 * that its kernel caught, on their way to cove-egress. Pure: no I/O, no allocation.
 *
 * One byte stream joins the guest (guest/netpump.c) to the host (egress/mux.c). Each side
 * begins with a HELLO: NETMUX_MAGIC and 16 bytes that both were given, the guest first,
 * and the host when it has seen that. Everything before the other side's HELLO is
 * skipped: a machine that was saved in the middle of a frame and goes on elsewhere gets
 * new bytes (which nobody else knows) and begins anew. Then frames follow. All integers
 * are little-endian.
 *
 * Frame = header (8 bytes) + payload
 *	u8  type	enum netmux_type
 *	u8  zero	must be 0
 *	u16 length	of the payload
 *	u32 id		of the connection, chosen by the guest: the low bits are one of
 *			NETMUX_SLOTS slots, the others count up each time the slot is
 *			used, so that a late frame finds nobody; of WHO and WHO_IS: the
 *			question, chosen by the host; of DGRAM: 0
 *
 * A connection begins with OPEN and exists at once: the kernel inside has accepted it
 * already, so a refusal is a RESET. EOF ends one direction; CLOSE and RESET end both, and
 * nothing is answered to them. What was sent before arrives, but for what a program sent
 * that resets its connection: the server hears of it at once. The slot is free when both
 * directions have ended. Frames of an id that is not known are skipped, as they may have
 * crossed the end on their way; any other violation ends the whole stream, and with it
 * the sandbox's network.
 *
 * Flow control: a sender of DATA begins with NETMUX_WINDOW bytes of credit for the
 * connection and gets more by WINDOW as the receiver consumes. No frame waits for credit
 * but DATA, so a reader never has to stop: nothing stands behind a slow connection.
 */
#ifndef COVE_IPC_NETMUX_H
#define COVE_IPC_NETMUX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define NETMUX_MAGIC "covenet1" /* the last one is the version */
#define NETMUX_NONCE 16
#define NETMUX_HELLO (8 + NETMUX_NONCE)
#define NETMUX_HEADER 8
#define NETMUX_FRAME (32u << 10) /* at most; what a virtio port takes in one write */
#define NETMUX_DATA_MAX (NETMUX_FRAME - NETMUX_HEADER)
#define NETMUX_SLOTS 4096u            /* connections at once; a power of two */
#define NETMUX_WINDOW (64u << 10)     /* credit of a new connection, each way */
#define NETMUX_CREDIT_MAX (16u << 20) /* what a peer may give at all */
#define NETMUX_DATAGRAM 1232u         /* of DNS, without fragments everywhere */
#define NETMUX_PROGRAM 32

enum netmux_type {
	NETMUX_OPEN = 1,   /* guest: ends */
	NETMUX_DATA,       /* both: 1..NETMUX_DATA_MAX bytes */
	NETMUX_WINDOW_ADD, /* both, by the receiver of DATA: u32 further credit, not 0 */
	NETMUX_EOF,        /* both: no more DATA from here */
	NETMUX_CLOSE,      /* both: the same, and what comes is not read any more */
	NETMUX_RESET,      /* both: an end that is an error */
	/* guest: ends, then the question; one that is longer than NETMUX_DATAGRAM is cut
	 * off one byte behind that, which tells. host: the same ends, then the answer */
	NETMUX_DGRAM,
	NETMUX_WHO,    /* host: ends. Who has the socket at `from`? */
	NETMUX_WHO_IS, /* guest: struct netmux_who */
	NETMUX_TYPES
};

struct netmux_frame {
	uint8_t type;
	uint32_t id, len;
	const uint8_t *payload; /* borrowed */
};

void netmux_put_header(uint8_t out[NETMUX_HEADER], uint8_t type, uint32_t id, size_t len);
/* Looks at n bytes of input. How many bytes *ret takes; 0: more are needed; -EPROTO: no
 * such frame. */
int netmux_parse(const uint8_t *p, size_t n, struct netmux_frame *ret);

void netmux_put_hello(uint8_t out[NETMUX_HELLO], const uint8_t nonce[NETMUX_NONCE]);
/* How many of n bytes come before the end of that HELLO (*ret_found), or cannot be a part
 * of one. */
size_t netmux_skip(const uint8_t *p, size_t n, const uint8_t nonce[NETMUX_NONCE],
		   bool *ret_found);

/* Where something comes from and goes to, on the wire:
 *	u8 family (4, 6), u8 protocol (6: TCP, 17: UDP), u16 port from, u16 port to,
 *	u16 zero, 16 bytes from, 16 bytes to (IPv4: 4, the others zero) */
#define NETMUX_ENDS 40
struct netmux_ends {
	bool udp;
	struct sockaddr_storage from, to; /* of one family: AF_INET or AF_INET6 */
};
int netmux_put_ends(uint8_t out[NETMUX_ENDS], const struct netmux_ends *e);  /* -EINVAL */
int netmux_get_ends(const uint8_t in[NETMUX_ENDS], struct netmux_ends *ret); /* -EPROTO */

/* The guest's word for it, on the wire: u32 pid, u32 root, u64 started, program. It is
 * true unless the kernel inside or its first process is in somebody else's hands: the
 * host cannot look for itself. */
#define NETMUX_WHO_SIZE (16 + NETMUX_PROGRAM)
struct netmux_who {
	uint32_t pid,
		root;     /* of the holder, and of its exec's first process; 0: unknown */
	uint64_t started; /* that one, on the guest's clock (os/who.h) */
	char program[NETMUX_PROGRAM];
};
void netmux_put_who(uint8_t out[NETMUX_WHO_SIZE], const struct netmux_who *w);
int netmux_get_who(const uint8_t in[NETMUX_WHO_SIZE], struct netmux_who *ret);

#endif
