/* SPDX-License-Identifier: Apache-2.0 */
/* handle - what is behind the public handles. */
#ifndef COVE_API_HANDLE_H
#define COVE_API_HANDLE_H

#include "core/box.h"
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
	struct box box; /* inproc only */
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

/* connect.c */
int connect_keeper(struct store *st, const char *name, int *ret_fd,
		   struct cove_error *err);
int spawn_keeper(struct store *st, const char *name, bool degraded,
		 struct cove_error *err);

#endif
