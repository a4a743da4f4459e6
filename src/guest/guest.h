/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest - the program inside: runs what the link asks for and carries the bytes.
 *
 * Theory of operation. One thread, one ppoll(). Each turn (loop.c) waits, reads frames
 * and hands them to the handler of their type (dispatch.c), moves bytes between
 * descriptors and the link (flow.c), reaps, lets every stream look at its own state
 * (stream_ops.settle) and writes out once. Nothing else blocks.
 *
 * Invariants
 * 1. A stream is in the table until both sides sent CLOSE; `closed` is ours,
 * `peer_closed` is the client's. After `closed` it holds no descriptor and no memory but
 * itself.
 * 2. Bulk DATA leaves LINK_RESERVE bytes of the output buffer free. A frame is taken from
 *    the input only while ROOM_FOR_INPUT is free: so every frame that is not DATA always
 * fits, because what 1024 streams can have to say on their own is smaller than that.
 * 3. Memory that grows with what a peer does: the stdin buffer (at most twice WIRE_WINDOW
 *    a stream), one request's arena (at most about twice a payload), the text of INFO.
 */
#ifndef COVE_GUEST_GUEST_H
#define COVE_GUEST_GUEST_H

#include "base/buf.h"
#include "ipc/link.h"

#include <dirent.h>
#include <signal.h>
#include <sys/types.h>

struct guest;
struct stream;

#define ROOM_FOR_INPUT (144u * 1024)
#define ROOM_FOR_DATA (LINK_RESERVE + 16u * 1024) /* less is not worth a frame */
#define BUCKETS 64

/* Client to descriptor. */
struct sink {
	int fd; /* -1: none, or done */
	struct flow flow;
	struct buf buf; /* what the descriptor did not take yet: from off on */
	size_t off;
	bool open;   /* the client may send */
	bool broken; /* the reader is gone: discard, but keep giving credit */
};

/* Descriptor (or generator) to client. */
struct source {
	int fd; /* -1 with open: a generator, always ready */
	struct flow flow;
	bool open;     /* no EOF sent yet */
	bool draining; /* take `left` bytes more, or what is there, then EOF */
	bool drop;     /* nobody hears of it */
	bool grown;    /* the pipe was made larger */
	size_t left;
	uint32_t least; /* wait for more credit than this: one item that cannot be cut */
};

/* What makes one kind of stream different. NULL: nothing to do. */
struct stream_ops {
	/* Fills up to n bytes; 0: end; -EAGAIN; other -errno: the stream fails.
	 * Default: read(), and an error is the end. */
	ssize_t (*read)(struct stream *s, uint8_t *p, size_t n);
	/* Takes n bytes at once. Default: write(in.fd), with buffering. */
	int (*write)(struct guest *g, struct stream *s, const uint8_t *p, size_t n);
	/* The client's EOF came and everything before it is delivered. */
	void (*end_of_input)(struct guest *g, struct stream *s);
	/* in.fd became writable while want_writable was set. */
	void (*writable)(struct guest *g, struct stream *s);
	/* Once a turn: is it time to say something, or to end? */
	void (*settle)(struct guest *g, struct stream *s);
	/* The client closed first. Default: stream_finish(). */
	void (*abandon)(struct guest *g, struct stream *s);
	/* Frees what the kind owns, on every way out. */
	void (*release)(struct stream *s);
};

struct stream {
	struct stream *next; /* in its bucket */
	uint32_t id;
	const struct stream_ops *ops;
	bool closed, peer_closed;
	bool orphan; /* its client is in another life: it has no number and says nothing
		      */
	bool want_writable; /* not connected yet: input waits in the buffer */
	struct sink in;
	struct source out[2]; /* sub 1 and 2 */
	int64_t deadline_ms;  /* when settle must look again; 0: never */
	union {
		struct {
			pid_t pid; /* also its process group */
			int status;
			bool ended, tty, last;
		} exec;
		struct {
			char *path, *temp;
			uint32_t mode, uid, gid;
			bool chown_it;
		} write;
		struct {
			DIR *dir;
			struct dirent *next; /* read, did not fit */
		} list;
		struct {
			struct buf text;
			size_t off;
		} info;
		struct {
			uint16_t number;
			bool v6_left; /* ::1 was not tried yet */
			bool ended;   /* the client's end was passed on */
		} port;
	};
};

struct guest {
	struct link link;
	bool init; /* PID 1; otherwise --stdio */
	bool setup_done, any_request;
	bool ending;         /* leave the loop once the output is flushed */
	bool shutdown;       /* SHUTDOWN came */
	bool alone;          /* ... and there is no process left */
	bool killed;         /* ... or its time was over, and SIGKILL was sent */
	int64_t shutdown_ms; /* when to kill what is left, then when to end */
	const char *bye;     /* the violation that ends the connection */
	char why[200];       /* room for one that must be put together */
	bool machine;        /* a kernel of our own: we are root, and what we start ... */
	uint32_t user[2];    /* ... has these ids, unless the client says others */
	struct quiet *quiet; /* quiet.c: nothing is said or taken but RESUME; or NULL */
	char **env;          /* of SETUP: what every process begins with; or NULL */
	void *env_arena;     /* what it points into */
	size_t held;         /* the first bytes of the output that may wait ... */
	int64_t held_until_ms; /* ... until then */
	unsigned turn;
	size_t streams;
	struct stream *bucket[BUCKETS];
	struct pollset *poll;
};

/* loop.c */
void guest_signals(bool init); /* of the whole process, once */
int guest_open(struct guest *g, int in_fd, int out_fd, bool init);
int guest_run(struct guest *g);              /* until the end; the exit status */
int guest_turn(struct guest *g, int max_ms); /* 0, or negative: the end */
void guest_close(struct guest *g);           /* kills and frees what is left */
void hold(struct guest *g); /* what is queued now may wait for company, for a moment */
int64_t now_ms(void);
extern volatile sig_atomic_t guest_child_ended, guest_terminated;

/* dispatch.c: one frame. Negative: the connection ends, g->bye says why. */
int dispatch(struct guest *g, const struct wire_frame *f);
int violation(struct guest *g, const char *what); /* sets g->bye, returns -EPROTO */

/* stream.c */
struct stream *stream_find(struct guest *g, uint32_t id);
/* NULL: the request was answered with FAILED (too many streams, no memory). */
struct stream *stream_new(struct guest *g, uint32_t id, const struct stream_ops *ops);
void stream_free(struct guest *g, struct stream *s);
void stream_release(struct stream *s);                 /* descriptors and memory */
void stream_finish(struct guest *g, struct stream *s); /* releases, sends CLOSE */
void stream_failed(struct guest *g, struct stream *s, int sys, const char *what);
void send_failed(struct guest *g, uint32_t id, int sys, const char *what,
		 const char *cwd);
void send_frame(struct guest *g, uint8_t type, uint8_t sub, uint32_t id, const void *p,
		size_t n);

/* flow.c */
bool source_ready(const struct guest *g, const struct source *o);
void source_pump(struct guest *g, struct stream *s, int which);
/* The client reads no more of it: the process gets SIGPIPE, as from a plain pipe. */
void source_break(struct guest *g, struct stream *s, int which);
void source_drain(struct source *o); /* only what is there now, then EOF */
int sink_data(struct guest *g, struct stream *s, const uint8_t *p, size_t n);
int sink_eof(struct guest *g, struct stream *s);
void sink_pump(struct guest *g, struct stream *s);
void sink_credit(struct guest *g, struct stream *s, size_t n); /* n bytes are consumed */

/* exec.c, proc.c */
int on_exec(struct guest *g, const struct wire_frame *f);
void proc_reap(struct guest *g);
void proc_signal(struct stream *s, uint32_t sig);
void proc_resize(struct stream *s, uint16_t rows, uint16_t cols);
void proc_kill_all(struct guest *g, int sig);
extern const struct stream_ops proc_ops;

/* file.c, write.c, port.c, info.c, setup.c */
int on_file(struct guest *g, const struct wire_frame *f);
int on_port(struct guest *g, const struct wire_frame *f);
int on_info(struct guest *g, const struct wire_frame *f);
int on_setup(struct guest *g, const struct wire_frame *f);
int on_shutdown(struct guest *g, const struct wire_frame *f);
void info_ps(struct buf *text);
void guest_seed(int random_fd, const void *bytes, size_t n);
struct request;
int guest_make_dirs(struct guest *g, const struct request *r); /* its PATHs */
int machine_failed(struct guest *g, const char *what);         /* with errno */
int guest_set_clock(uint64_t ns); /* CLOCK_REALTIME; 0 or -1 and errno */

/* quiet.c: around a save of the machine's memory */
int on_quiesce(struct guest *g, const struct wire_frame *f);
int on_resume(struct guest *g, const struct wire_frame *f);

/* probe.c: the whole of --probe; the exit status */
int probe_main(void);

#endif
