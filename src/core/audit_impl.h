/* SPDX-License-Identifier: Apache-2.0 */
/* audit_impl - what the files of the audit log share. */
#ifndef COVE_CORE_AUDIT_IMPL_H
#define COVE_CORE_AUDIT_IMPL_H

#include "base/buf.h"
#include "core/audit.h"

#include <sys/types.h>

#define AUDIT_LOG "audit.jsonl"
#define AUDIT_HEAD "audit.head"
#define AUDIT_KEY "audit.key"
#define AUDIT_HEX 64 /* digits of a hash */

/* ---- the text of records and heads; pure (audit_text.c) ---------------------------- */

struct audit_key {
	unsigned char bytes[32];
	char id[17]; /* names the key without telling it */
};
void audit_key_id(struct audit_key *k); /* fills in id */

struct audit_record {
	uint64_t seq;
	char event[33];
	char prev[AUDIT_HEX + 1], hash[AUDIT_HEX + 1];
};

/* Reads the frame of a line (without newline); -EBADMSG if it is no record. */
int audit_parse(const char *line, size_t n, struct audit_record *ret);
/* What the hash of a line that audit_parse() accepted must be. */
void audit_hash(const struct audit_key *k, const char *line, size_t n,
		char out[AUDIT_HEX + 1]);
/* Appends a record with its newline; r gives seq, event and prev, and gets hash. fields:
 * borrowed, may lose members that are too large or have a name of the frame. */
int audit_print(struct buf *out, const struct audit_key *k, struct audit_record *r,
		int64_t time_ns, json_t *fields);

struct audit_head {
	uint64_t seq; /* 0: there is none */
	char hash[AUDIT_HEX + 1];
	bool damaged; /* there is something, but no slot of it is good */
	bool foreign; /* it was written with another key */
};
/* One slot, AUDIT_SLOT bytes. */
void audit_head_print(const struct audit_key *k, const struct audit_head *h, char *out);
/* The newer good one of the slots in text. */
void audit_head_parse(const struct audit_key *k, const char *text, size_t n,
		      struct audit_head *ret);

/* ---- files ---------------------------------------------------------------------------
 */

/* audit_key.c: make: if it is missing. */
int audit_key_load(struct store *st, bool make, struct audit_key *ret,
		   struct cove_error *err);

/* audit.c: index 0 is the current file. */
void audit_file_name(int index, char *out, size_t size);
int audit_lock(int fd, int how); /* waits a little; 0 or -errno */
bool audit_is_current(int dir, int fd);
void audit_head_read(int fd, const struct audit_key *k, struct audit_head *ret);
/* The last whole line of a file of size bytes: *ret_end is behind its newline (0: there
 * is none). -EBADMSG: there is a line, but it is no record. */
int audit_last(int fd, off_t size, struct audit_record *ret, off_t *ret_end);

/* The files of a log, oldest first, as they were at one moment. */
struct audit_files {
	int fd[AUDIT_FILES], index[AUDIT_FILES];
	off_t size[AUDIT_FILES];
	int n;
	struct audit_head head;
};
/* key: NULL if the head does not matter. */
int audit_files_open(struct audit_files *f, int dir, const struct audit_key *key);
void audit_files_close(struct audit_files *f);

struct audit_line {
	const char *text; /* without newline */
	size_t n;
	int file;        /* index in files */
	uint64_t number; /* of the line in its file, from 1; only when read from there */
	bool whole;      /* ended with a newline */
};
/* Every line from an offset of a file on. fn: not 0 stops, and is returned. */
int audit_files_each(const struct audit_files *f, int first, off_t offset,
		     int (*fn)(void *arg, const struct audit_line *l), void *arg);

/* audit_keep.c: the directory of the log: the record, or the newest kept one. */
int audit_find(struct store *st, const char *name, int *ret_dir, struct cove_error *err);

#endif
