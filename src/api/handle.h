/* SPDX-License-Identifier: Apache-2.0 */
/* handle - what is behind the public handles. */
#ifndef COVE_API_HANDLE_H
#define COVE_API_HANDLE_H

#include "core/box.h"
#include "core/ports.h"
#include "core/session.h"
#include "core/store.h"

struct cove_spec {
	struct spec spec;
	struct buf problems;
};

struct cove {
	struct store store;
	struct session *session;
	struct spec spec; /* named: a copy, for building requests */
	char name[SPEC_NAME_MAX + 1];
	bool inproc; /* this process is the keeper */
	bool oneshot, finished, swept;
	uint64_t changes;
	struct box box;      /* inproc only */
	struct ports *ports; /* the same; NULL: none are published */
	/* see cove_net_on_ask() */
	void (*ask)(void *arg, uint64_t id, const char *question);
	void *ask_arg;
	struct stream *ask_stream; /* named: where questions come in */
	json_t *questions;         /* texts that are not delivered yet */
};

struct cove_proc {
	struct cove *owner;
	struct stream *stream;
	int64_t timeout_ms;
	uint32_t note; /* in process: see notes_end() */
};

/* The caller's error object, or one to throw away. */
#define ERR(err) ((err) ? (err) : &(struct cove_error){0})

/* Copies an options struct of the caller's size over *dst (of size n, zeroed before): an
 * older, shorter one is fine; a longer one only if the rest is zero. */
int options_import(void *dst, size_t n, size_t least, const void *src, const char *what,
		   struct cove_error *err);

const struct spec *handle_spec(const struct cove *s);

/* Opens the store and sweeps it. */
int handle_store(struct store *st, struct cove_error *err);

/* JSON object to text; takes the reference. */
int json_out(json_t *j, char **ret, struct cove_error *err);

/* net.c: hands over the questions that came in; after each turn of the session. */
void handle_deliver(struct cove *s);
void handle_ask_clear(struct cove *s);

/* connect.c */
int connect_keeper(struct store *st, const char *name, int *ret_fd,
		   struct cove_error *err);
struct secrets;
#define KEEPER_FDS 9 /* what a keeper may get has numbers below that */
/* What it goes on from: the memory of a snapshot, or an image (core/keeper.h) whose
 * descriptors are not below KEEPER_FDS. */
struct keeper_from {
	const char *state; /* "NAME@TAG"; or NULL */
	int image[4];
};
/* from: NULL: it begins. */
int spawn_keeper(struct store *st, const char *name, bool degraded,
		 const struct keeper_from *from, const struct secrets *secrets,
		 struct cove_error *err);

/* secret.c: the values that a sandbox starts with (*ret NULL: it has none), with their
 * placeholders. name NULL: a one-shot. */
int start_secrets(struct secrets **ret, struct store *st, const char *name,
		  const struct spec *spec, const struct cove_start_options *o,
		  struct cove_error *err);

#endif
