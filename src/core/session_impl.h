/* SPDX-License-Identifier: Apache-2.0 */
/* session_impl - what the files of the session share. */
#ifndef COVE_CORE_SESSION_IMPL_H
#define COVE_CORE_SESSION_IMPL_H

#include "core/pulse.h"
#include "core/session.h"

#define CALL_DATA_MAX (4u << 20) /* what a call may answer in memory */

enum watch_what {
	WATCH_LINK = 1,
	WATCH_TIMER,
	WATCH_STDIN,
	WATCH_OUT1,
	WATCH_OUT2,
	WATCH_OWNER,
	WATCH_PORT,
	WATCH_ALARM
};

#define HELLO_MS 10000 /* how long the other side may take for its first word */

struct session {
	struct link link;
	int link_fd, epfd, timer;
	int64_t timer_at, hello_by;
	bool link_out, gone;
	bool sigpipe; /* a write of this turn failed with EPIPE */
	uint32_t next_id;
	struct stream *streams;
	char bye[200], bye_hint[300];
	struct session_watch guest;
	struct pulse pulse;
	int64_t tick_at;
	int64_t (*tick)(void *arg);
	void *tick_arg;
	void (*owner)(void *arg);
	void *owner_arg;
	bool owner_ready;
	void (*accept)(void *arg, uint32_t which); /* of published ports */
	void (*settle)(void *arg);
	void *ports;
};

int watch(struct session *s, int fd, uint32_t events, enum watch_what what, uint32_t id,
	  bool add);
struct stream *session_find(struct session *s, uint32_t id);
void session_set_gone(struct session *s);
int session_send(struct session *s, uint8_t type, uint8_t sub, uint32_t id,
		 const void *payload, size_t n, struct cove_error *err);

/* session_receive.c */
int session_receive(struct session *s, struct cove_error *err);

/* session_io.c */
void sink_close(struct session *s, struct sink *k);
int sink_put(struct stream *st, int which, const void *data, size_t n,
	     struct cove_error *err);
int sink_drain(struct stream *st, int which, struct cove_error *err);
int source_pump(struct stream *st, struct cove_error *err);
void source_resume(struct stream *st); /* there is credit again */
size_t source_room(const struct stream *st);
int grant(struct stream *st, uint8_t sub, struct flow *f, size_t n,
	  struct cove_error *err);

#endif
