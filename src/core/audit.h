/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit - the log of a sandbox: what was run, found, landed, taken back and changed, one
 * line of JSON each, chained by a keyed hash, on the host where the sandbox cannot reach.
 *
 *	HOME/audit.key			32 random bytes, made on first use
 *	HOME/sandboxes/NAME/audit.jsonl	the records; audit.1.jsonl ... are older ones
 *	HOME/sandboxes/NAME/audit.head	which record is the last
 *	HOME/audit/NAME-TIME/		the logs of removed sandboxes
 *
 * A record is one line:
 *
 *	{"seq":N,"time":"...","event":"exec",..fields..,"prev":"HEX","hash":"HEX"}
 *
 * hash: BLAKE2b-256, keyed with audit.key, of the exact bytes of the line without the
 * member "hash" and without the newline; prev: the hash of the record before, "" in the
 * first. seq counts from 1 without a gap. The head has two slots of AUDIT_SLOT bytes,
 * written in turn and each with a keyed hash of its own, so that a cut-off tail is
 * noticed and a torn slot leaves the other. The log is written first: the head may lag
 * behind records that chain on, it is never ahead unless records were lost.
 *
 * Rotation: a log of AUDIT_FILE_MAX bytes becomes audit.1.jsonl, that becomes audit.2 and
 * so on; AUDIT_FILES are kept. Before the oldest goes, a record "rotated" says how many
 * records go with it and the hash of the last of them; the chain begins there then.
 *
 * What is not promised: somebody with the key, or who can put back old copies of all
 * files of a log at once, can rewrite it.
 */
#ifndef COVE_CORE_AUDIT_H
#define COVE_CORE_AUDIT_H

#include "core/store.h"

#include <jansson.h>

#define AUDIT_FILE_MAX (8u << 20)
#define AUDIT_FILES 8 /* the current one included */
/* A record has at most this many bytes; lists and objects of a larger one are left out,
 * and it says "truncated". */
#define AUDIT_LINE_MAX (256u << 10)
#define AUDIT_SLOT 256
#define AUDIT_REMOVED_MAX 200 /* logs of removed sandboxes that are kept */

/* Appends a record: {"seq","time","event",..fields..,"prev","hash"}. fields: an object,
 * stolen (may be NULL). Serialised by a lock on the file; a crash in the middle leaves
 * the log whole. Failure is returned: an event that must not go unrecorded (apply) is
 * refused then. apply, undo, discard, restore and removed are on disk at the return. */
int audit_log(struct store *st, const char *name, const char *event, json_t *fields,
	      struct cove_error *err);

/* The same for who writes many. */
struct audit;
enum audit_flags {
	/* Fails unless there is room for what will have to be written about it later. */
	AUDIT_RESERVE = 1 << 0,
};
int audit_open(struct audit **ret, struct store *st, const char *name,
	       struct cove_error *err);
void audit_close(struct audit *a); /* NULL is fine */
/* time_ns: CLOCK_REALTIME, 0: now. ret_seq may be NULL. */
int audit_append(struct audit *a, const char *event, json_t *fields, uint32_t flags,
		 int64_t time_ns, uint64_t *ret_seq, struct cove_error *err);

/* See cove_audit() and cove_audit_verify(). A name that is no sandbox (any more) means
 * the newest kept log of a removed one. */
int64_t audit_read(struct store *st, const char *name, uint64_t from_seq,
		   int (*fn)(void *arg, const char *line, size_t n), void *arg,
		   struct cove_error *err);
int audit_verify(struct store *st, const char *name, uint64_t *ret_records,
		 struct cove_error *err);

/* Before a record is removed: notes it and gives the log a second place that stays. */
int audit_keep(struct store *st, const char *name, struct cove_error *err);
/* After a holder was killed: says so in the log. For store_sweep(). */
void audit_swept(struct store *st, const char *name);

/* ---- fields --------------------------------------------------------------------- */

/* Any bytes as a JSON string: what is not UTF-8 as \xNN, cut after max bytes. */
json_t *audit_text(const char *s, size_t n, size_t max);
/* A spec without what may be secret: of the environment and of secrets only names. */
json_t *audit_spec(const struct spec *s);
/* {"keys":[..],"old":{..},"new":{..}}; NULL and err untouched: nothing differs. */
json_t *audit_spec_change(const struct spec *old, const struct spec *new);
/* Records a change that is about to be made, if there is one. */
int audit_log_spec(struct store *st, const char *name, const struct spec *old,
		   const struct spec *new, struct cove_error *err);
/* The fields of "exec" from an EXEC request: argv, cwd, names of the environment, tty. */
json_t *audit_exec(const void *payload, size_t n, const struct spec *s);

#endif
