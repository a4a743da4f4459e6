/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session - the client's end of a link: processes, files and requests on one connection.
 *
 * The other end is cove-guest (one-shot) or cove-keeper (named), which speak the same
 * protocol; nothing here knows which. All of it is evented: session_fd() is an epoll
 * descriptor, session_dispatch() does what is ready; blocking calls are loops over them.
 *
 * Invariants
 *  1. Everything that arrives is hostile: bounded by credit, checked, copied once.
 *  2. A stream that waits (a full pipe on our side) holds only its own credit.
 *  3. A caller's descriptor never gets O_NONBLOCK: pipes and terminals are re-opened,
 * sockets use MSG_DONTWAIT.
 */
#ifndef COVE_CORE_SESSION_H
#define COVE_CORE_SESSION_H

#include "base/buf.h"
#include "base/error.h"
#include "ipc/link.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct session;
struct stream;

enum stream_kind { STREAM_PROC, STREAM_CALL, STREAM_PORT };

enum sink_kind {
	SINK_DROP,
	SINK_NONBLOCK,
	SINK_SOCKET,
	SINK_BLOCKING,
	SINK_CALLBACK,
	SINK_BUF
};

/* Where the bytes of one descriptor go. */
struct sink {
	enum sink_kind kind;
	int fd; /* ours to close unless borrowed */
	bool owned, watched, eof, broken;
	struct flow flow;
	struct buf wait; /* accepted, not written yet; bounded by the window */
	size_t wait_off; /* of it, already written */
};

/* Where stdin comes from. */
struct source {
	int fd;       /* borrowed; -1: fed by session_write() or none */
	bool polled;  /* in epoll (a regular file cannot be) */
	bool watched; /* currently asking for EPOLLIN */
	bool open;    /* EOF not sent yet */
	struct flow flow;
};

struct stream {
	struct session *session;
	struct stream *next;
	enum stream_kind kind;
	uint32_t id;
	bool closed;   /* the server's CLOSE came */
	bool released; /* nobody holds it: freed with the CLOSE */
	bool main;
	/* processes */
	struct source in;
	struct sink out[2]; /* stdout, stderr */
	uint32_t pid;
	uint64_t since; /* SINCE of STARTED; 0: not said */
	bool exited, failed, timed_out, gone;
	int code, signal; /* exited: code, or signal if not 0 */
	int sys;          /* failed: errno of exec */
	char text[200];   /* failed: what */
	int64_t deadline_ms;
	int kill_step;
	void (*output)(void *arg, int fd, const void *data, size_t n);
	void *arg;
	/* calls */
	bool has_result;
	struct buf result;      /* attributes of RESULT or FAILED */
	struct buf data;        /* DATA of a call */
	struct sink *data_sink; /* instead of data: stream it there */
	bool data_eof;
	uint64_t data_seen;
};

struct session *session_new(int *link_fd,
			    struct cove_error *err); /* takes the descriptor */
/* How long the other side may take for its first word, from now on; 10 s if not said. */
void session_wait_for(struct session *s, uint32_t ms);
void session_free(struct session *s);
int session_fd(const struct session *s);
/* One turn, waiting at most timeout_ms for something to happen. COVE_EGONE once the peer
 * is gone and everything it sent is handled. */
int session_turn(struct session *s, int timeout_ms, struct cove_error *err);
bool session_gone(const struct session *s);
const char *session_bye(const struct session *s); /* the peer's last words, or "" */
const char *session_bye_hint(const struct session *s);
struct link *session_link(struct session *s);
/* fn is called at at_ms (CLOCK_MONOTONIC) and returns when it wants to be called again;
 * 0: not. */
void session_set_tick(struct session *s, int64_t at_ms, int64_t (*fn)(void *arg),
		      void *arg);
/* fn is called when fd (borrowed, one at most) is readable, after everything else of the
 * turn. 0 or -errno. */
int session_set_watch(struct session *s, int fd, void (*fn)(void *arg), void *arg);
/* The owner ended it: what processes are told, instead of the peer's last words. tip (a
 * hint) may be NULL. */
void session_set_bye(struct session *s, const char *text, const char *tip);
/* For the owner of a guest, who knows more about its end than the link tells. alarm (or
 * -1): readable when it has ended. silence_ms: how long it may leave a question
 * unanswered; 0: for ever. up_ms: how long it may take for its first word, if that is
 * longer than usual. lost is called once, when the guest is gone (or silent, which
 * is the same from then on) while something was expected of it; it sets the bye. */
struct session_watch {
	int alarm;
	uint32_t silence_ms;
	uint32_t up_ms;
	void (*lost)(void *arg, bool silent);
	void *arg;
};
int session_set_guest(struct session *s, const struct session_watch *w); /* -errno */

/* What has come is read now, whoever waits for it; for owners in their watch. */
void session_read(struct session *s);
void session_each(const struct session *s, void (*fn)(void *arg, const struct stream *st),
		  void *arg);

/* For core/ports.c. accept: the listener `which` has somebody; settle: at the end of
 * every turn, and when the peer is gone. */
void session_set_ports(struct session *s, void (*accept)(void *arg, uint32_t which),
		       void (*settle)(void *arg), void *arg);
int session_watch_port(struct session *s, int fd, uint32_t which, bool on);
void stream_resume(struct stream *st); /* reads on, if there is credit and room */

/* Opens a stream and sends its first frame (request payload ready made). */
struct stream *session_open(struct session *s, enum stream_kind kind, uint8_t type,
			    uint8_t sub, const void *payload, size_t n,
			    struct cove_error *err);
void session_release(
	struct stream *st); /* sends CLOSE if needed; st must not be used again */

/* Processes: to be called right after session_open(). */
int stream_set_stdin(struct stream *st, int fd,
		     struct cove_error *err); /* -1: session_write */
int stream_set_out(struct stream *st, int which, int fd, struct cove_error *err);
bool stream_done(const struct stream *st); /* ended, and all output delivered */
int64_t stream_write(struct stream *st, const void *data, size_t n,
		     struct cove_error *err);
int stream_eof(struct stream *st, struct cove_error *err);
int stream_signal(struct stream *st, int signo, struct cove_error *err);
int stream_resize(struct stream *st, uint16_t rows, uint16_t cols,
		  struct cove_error *err);

/* Blocking calls (FILE, INFO, KEEPER): runs turns until RESULT came (and with `all`,
 * CLOSE). */
int session_wait_result(struct stream *st, bool all, int timeout_ms,
			struct cove_error *err);
/* An attribute of the result as number or string. */
bool stream_result_u64(const struct stream *st, uint16_t tag, uint64_t *ret);
char *stream_result_str(const struct stream *st, uint16_t tag); /* malloc'd or NULL */

/* A request to the keeper: verb and JSON (may be NULL, stolen); *ret new JSON or NULL. */
int session_keeper(struct session *s, const char *verb, json_t *args, json_t **ret,
		   struct cove_error *err);

int64_t now_ms(void); /* CLOCK_MONOTONIC */

#endif
