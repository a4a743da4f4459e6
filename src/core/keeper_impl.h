/* SPDX-License-Identifier: Apache-2.0 */
/* keeper_impl - what the files of the keeper share. */
#ifndef COVE_CORE_KEEPER_IMPL_H
#define COVE_CORE_KEEPER_IMPL_H

#include "core/box.h"
#include "core/keeper.h"
#include "core/ports.h"
#include "core/pulse.h"
#include "ipc/link.h"

#define CLIENTS_MAX 256
#define QUEUE_MAX (64u << 20)  /* bytes waiting for one slow peer */
#define RING_MAX (256u * 1024) /* output of the main session kept for attach */
#define LOG_MAX (8u << 20)     /* then it becomes log.old */

enum what {
	W_LISTEN = 1,
	W_GUEST,
	W_ALARM,
	W_SIGNAL,
	W_TIMER,
	W_CLIENT,
	W_AUDIT,
	W_NET,
	W_PORTS
};

/* One connection: a link plus a queue for what does not fit into its buffer. */
struct conn {
	int fd;
	struct link link;
	struct buf queue;
	size_t queue_done; /* bytes of queue already written */
	bool want_out;
	bool held; /* frames wait in the queue: the peer wants silence */
};

struct client {
	struct client *next;
	struct conn conn;
	uint32_t key; /* in epoll data */
	bool dead;    /* freed at the end of the turn */
	bool own;     /* the keeper itself, for its published ports */
};

/* A stream of a client, known to the guest under the index of its slot. */
struct route {
	struct client
		*client; /* NULL: the client is gone, the guest's CLOSE is awaited */
	uint32_t cid;    /* the client's id of it */
	bool used, is_main;
	bool closed_by_client, closed_by_guest, exec;
	struct flow from_guest[2]; /* what the guest may still send: stdout, stderr */
};

/* Somebody who watches the main session. */
struct viewer {
	struct viewer *next;
	struct client *client;
	uint32_t cid;
	bool primary; /* started it: gets every byte, holds the session back if slow */
	bool exit_sent, started_sent;
	uint64_t seq;  /* next chunk */
	size_t offset; /* in it */
	uint32_t credit[2],
		owed; /* what it may be sent; stdin bytes to give credit for */
};

struct chunk {
	struct chunk *next;
	uint64_t seq;
	uint8_t fd;
	size_t len;
	char data[];
};

struct main_session {
	uint32_t slot; /* of the guest's stream; 0: none */
	bool running, exited, pty;
	uint32_t pid;
	struct buf exit_payload; /* of the EXIT or FAILED frame */
	uint8_t exit_type;
	struct chunk *first, *last;
	uint64_t next_seq;
	size_t bytes;
	struct viewer *viewers;
	struct flow flow[2];
	uint32_t uncredited[2]; /* received, not given back to the guest yet */
	struct buf in;          /* stdin waiting for the guest's credit */
	uint32_t in_credit;
	bool in_eof;
	int log;
	uint64_t log_bytes;
	struct buf log_held; /* the possible beginning of a secret */
};

/* How far the guest is on its way to silence. */
enum save_step {
	SAVE_NOT,
	SAVE_ASKED,
	SAVE_STOPPING, /* it is quiet, and the machine is told to stop */
	SAVE_QUIET,
	SAVE_CANCELLED,
};

/* Whether the sandbox is held still, see keeper_freeze.c. */
enum still { STILL_RUNS, STILL_STOPPING, STILL_HELD, STILL_GOING };

struct saving {
	enum save_step step;
	struct cove_error failed; /* why it did not become quiet; code 0: nothing */
};

struct keeper {
	struct store store;
	struct box box;
	struct conn guest;
	int epfd, listener, signals, timer;
	struct client *clients;
	uint32_t next_key;
	struct route routes[WIRE_STREAMS_MAX];
	struct main_session main;
	struct keeper_audit *audit;
	struct ports *ports; /* NULL: none was ever published */
	struct session *ports_session;
	int64_t ttl_at, idle_since, kill_at; /* ms; 0: not set */
	struct client *asking;               /* whose verb is being answered */
	struct client *freezer;              /* holds the sandbox still; NULL: nobody */
	int64_t thaw_at;                     /* ms; when that ends at the latest */
	struct saving saving;                /* of its memory, see keeper_save.c */
	struct restoring *restoring;         /* it goes on from a saved one; or NULL */
	enum still still;                    /* for whichever of both */
	int64_t going_at, going_until;       /* ms; 0: it need not be told to go on */
	bool paused;         /* held still until somebody says otherwise */
	int64_t quiet_until; /* a guest is to be quiet before that; 0: it need not be */
	bool ending;         /* leave the loop */
	bool stopping;
	struct watcher *watchers; /* who answers questions of the network */
	struct pulse pulse;
	char reason[200], tip[300]; /* how it ended, and what more is to be said */
};

/* keeper_conn.c */
int conn_init(struct keeper *k, struct conn *c, int fd, enum what what, uint32_t key);
void conn_clear(struct keeper *k, struct conn *c);
/* Never blocks. -ENOBUFS: the peer is too slow for what it asked for. */
int conn_send(struct conn *c, uint8_t type, uint8_t sub, uint32_t id, const void *p,
	      size_t n);
int conn_flush(struct conn *c); /* 0 or -errno: the connection is broken */
void conn_watch(struct keeper *k, struct conn *c, enum what what, uint32_t key);

/* keeper_relay.c */
void relay_from_client(struct keeper *k, struct client *c, const struct wire_frame *f);
int relay_from_guest(struct keeper *k, const struct wire_frame *f); /* -EPROTO: end it */
void relay_client_gone(struct keeper *k, struct client *c);
uint32_t route_new(struct keeper *k, struct client *c, uint32_t cid);
void route_free(struct keeper *k, uint32_t slot);
unsigned routes_running(const struct keeper *k);
void client_fail(struct client *c, uint32_t cid, int code, int sys, const char *text,
		 const char *tip);

/* keeper_main.c */
bool main_accepts(const struct keeper *k);
void main_start(struct keeper *k, struct client *c, const struct wire_frame *f, bool pty);
void main_attach(struct keeper *k, struct client *c, const struct wire_frame *f);
int main_from_guest(struct keeper *k, const struct wire_frame *f);
/* true if the frame was for a viewer */
bool main_from_client(struct keeper *k, struct client *c, const struct wire_frame *f);
void main_client_gone(struct keeper *k, struct client *c);
void main_pump(struct keeper *k);
void main_clear(struct keeper *k);
/* One that was started in another life, under this stream. */
void main_adopt(struct keeper *k, uint32_t slot, uint32_t pid, bool pty);

/* keeper_setup.c: before the first client. The first queues a frame, the second waits. */
int keeper_send_setup(struct keeper *k, struct cove_error *err);
int keeper_write_secrets(struct keeper *k, struct cove_error *err);

/* keeper_verbs.c */
void verb_from_client(struct keeper *k, struct client *c, const struct wire_frame *f);

/* audit_keeper.c: exec and attach: false, and the client knows, if they cannot be
 * recorded. runs: the command of the last exec is this stream of the guest. */
int keeper_audit_start(struct keeper *k, struct cove_error *err);
bool keeper_audit_exec(struct keeper *k, struct client *c, const struct wire_frame *f);
void keeper_audit_runs(struct keeper *k, uint32_t slot);
bool keeper_audit_attach(struct keeper *k, struct client *c, const struct wire_frame *f);
void keeper_audit_frame(struct keeper *k, const struct wire_frame *f); /* the guest's */
int keeper_audit_spec(struct keeper *k, const struct spec *new, struct cove_error *err);
void keeper_audit_kill(struct keeper *k);
/* fields: stolen */
void keeper_audit_net(struct keeper *k, const char *event, json_t *fields);
void keeper_audit_ready(struct keeper *k, uint32_t index); /* W_AUDIT */
void keeper_audit_turn(struct keeper *k);
int64_t keeper_audit_due(const struct keeper *k); /* ms; 0: nothing waits */
void keeper_audit_stop(struct keeper *k);

/* keeper_freeze.c */
json_t *verb_freeze(struct keeper *k, json_t *args, struct cove_error *err);
json_t *verb_thaw(struct keeper *k, json_t *args, struct cove_error *err);
json_t *verb_pause(struct keeper *k, json_t *args, struct cove_error *err);
json_t *verb_resume(struct keeper *k, json_t *args, struct cove_error *err);
/* 0: it holds still; 1: it is about to, ask again. */
int keeper_hold_still(struct keeper *k, struct cove_error *err);
void keeper_going(struct keeper *k); /* going_at has come */
void keeper_thaw(struct keeper *k);  /* not frozen is fine */
void keeper_unpause(struct keeper *k);
void freeze_client_gone(struct keeper *k, const struct client *c);

/* keeper_save.c: saving the memory, and going on from it. ask: false and err, or it is on
 * its way; quiet: the guest's answer; thawed: the machine runs again. */
int save_ask(struct keeper *k, struct cove_error *err);
int save_quiet(struct keeper *k, const struct wire_frame *f);
void save_thawed(struct keeper *k);
bool save_is_quiet(const struct keeper *k); /* and stopped */
json_t *verb_save(struct keeper *k, json_t *args, struct cove_error *err);
json_t *verb_saved(struct keeper *k, json_t *args, struct cove_error *err);
/* from: "NAME@TAG". What it was is known before the start, and used after it. */
int restore_open(struct keeper *k, const char *from, struct cove_error *err);
int restore_image(struct keeper *k, struct cove_error *err); /* of a fork */
void restore_adopt(struct keeper *k);
void restore_used(struct keeper *k); /* it has been started: wipes the key */
void restore_clear(struct keeper *k);
/* of the stream that goes on; 0: none */
uint32_t restore_stream(const struct keeper *k);

/* keeper_net.c */
json_t *verb_net_add(struct keeper *k, json_t *args, struct cove_error *err);
json_t *verb_net_remove(struct keeper *k, json_t *args, struct cove_error *err);
json_t *verb_net_reload(struct keeper *k, json_t *args, struct cove_error *err);
json_t *verb_net_status(struct keeper *k, json_t *args, struct cove_error *err);
json_t *verb_net_answer(struct keeper *k, json_t *args, struct cove_error *err);
void keeper_net_watch(struct keeper *k, struct client *c, uint32_t cid);
/* true if the stream was one of those */
bool keeper_net_closed(struct keeper *k, struct client *c, uint32_t cid);
void keeper_net_client_gone(struct keeper *k, const struct client *c);
void keeper_take_network(struct keeper *k, struct spec *s);
void keeper_net_start(struct keeper *k);
void keeper_net_hangup(struct keeper *k); /* SIGHUP: the policy file again */
void keeper_net_stop(struct keeper *k);

/* keeper_ports.c */
int keeper_ports_start(struct keeper *k, struct cove_error *err);
void keeper_ports_turn(struct keeper *k); /* W_PORTS */
void keeper_ports_stop(struct keeper *k);
json_t *verb_publish(struct keeper *k, json_t *args, struct cove_error *err);
json_t *verb_unpublish(struct keeper *k, json_t *args, struct cove_error *err);
json_t *verb_ports(struct keeper *k, json_t *args, struct cove_error *err);

/* keeper.c */
int keeper_watch(struct keeper *k, int fd, enum what what);
int keeper_add_client(struct keeper *k, int fd, bool own); /* takes the descriptor */
void keeper_stop(struct keeper *k, uint32_t grace_ms, const char *why);
void client_drop(struct client *c);
/* The sandbox is gone, or as good as. */
void keeper_lost(struct keeper *k, enum place_trouble t);
int64_t keeper_now(void);

#endif
