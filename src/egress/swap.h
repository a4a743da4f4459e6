/* SPDX-License-Identifier: Apache-2.0 */
/*
 * swap - placeholders into values on the way out, values into placeholders on the way
 * back. Pure; the table's values are in locked memory and wiped with it.
 *
 * A placeholder has the length of its value where that is at least SWAP_MIN bytes, and
 * consists of [A-Za-z0-9_-], so that it looks the same in JSON, URLs and headers.
 */
#ifndef COVE_EGRESS_SWAP_H
#define COVE_EGRESS_SWAP_H

#include "base/buf.h"

#include <stdbool.h>

#define SWAP_MIN 16 /* bytes of a placeholder at least */
#define SWAP_MAX 64 /* secrets of one sandbox */
#define SWAP_VALUE_MAX 16384

struct swap_table;
int swap_new(struct swap_table **ret);
void swap_free(struct swap_table *t); /* wipes */
/* hosts: patterns (host.h), "a,b,..."; the value is copied. -EINVAL, -E2BIG, -ENOMEM. */
int swap_add(struct swap_table *t, const char *name, const char *placeholder,
	     const char *value, size_t n, const char *hosts);
/* After the last add: builds the matchers. */
int swap_ready(struct swap_table *t);

enum swap_where {
	SWAP_HEADER,
	SWAP_TARGET,
	SWAP_BODY_RAW,
	SWAP_BODY_JSON,
	SWAP_BODY_FORM
};

struct swap_outcome {
	unsigned replaced;
	const char *used[8]; /* names of secrets that were put in, borrowed */
	unsigned n_used;
	const char *violation; /* name of a secret whose placeholder may not go there */
};

/* Text (a header's value, a target, a whole buffered body) in place of itself. Finds the
 * placeholder plain, with characters written as %41 or \u0041, and (header Authorization)
 * inside Basic. In a target the value is percent-encoded, in JSON escaped; it is never
 * escaped in part. Violations: a host that the secret does not name; a value with control
 * characters in a header, or with CR, LF or NUL in a target; a placeholder right after an
 * escape that was begun ("\", "%4"). host: normalised name; verified: upstream TLS is. On
 * a violation the result is 0 and the text is what it was. */
int swap_text(const struct swap_table *t, const char *host, bool verified,
	      enum swap_where where, const char *field, struct buf *text,
	      struct swap_outcome *o);
/* Does any text here hold a placeholder (any form)? The name, or NULL. */
const char *swap_find(const struct swap_table *t, const void *p, size_t n);

/* Does the name of a response's field hold a value, in upper or lower case? */
bool swap_in_name(const struct swap_table *t, const char *name);

/* Streams: as much as can be decided goes to out; the rest is held back.
 * After a violation (told by every call, result 0) nothing is put out. The table outlives
 * its streams. */
struct swap_stream;
/* Requests: body in pieces. Is a Content-Length right afterwards? If not, the caller
 * sends it chunked or buffers it. */
enum swap_size {
	SWAP_SIZE_STAYS,    /* nothing is put in */
	SWAP_SIZE_MAY_STAY, /* yes, unless a placeholder is escaped without need */
	SWAP_SIZE_CHANGES,
};
int swap_request_stream(const struct swap_table *t, const char *host, bool verified,
			enum swap_where where, struct swap_stream **ret,
			enum swap_size *ret_size);
/* It must stay: a placeholder with escapes is a violation. */
void swap_stream_keep_size(struct swap_stream *s);
/* Responses: values into placeholders of the same writing and length: as they are, with
 * any of their characters escaped (percent, JSON, HTML; also twice), in base64 at its
 * three alignments, in hexadecimal. White space around a value does not count. Values of
 * fewer than 8 bytes are not found; those of fewer than SWAP_MIN, or with white space in
 * them, only in responses of hosts that they are for. */
int swap_response_stream(const struct swap_table *t, const char *host,
			 struct swap_stream **ret);
/* Bytes that wait for what follows; lets them go. A value that goes on after that is
 * still covered from there on. */
size_t swap_held(const struct swap_stream *s);
int swap_release(struct swap_stream *s, struct buf *out, struct swap_outcome *o);
int swap_feed(struct swap_stream *s, const void *p, size_t n, struct buf *out,
	      struct swap_outcome *o);
int swap_finish(struct swap_stream *s, struct buf *out, struct swap_outcome *o);
void swap_stream_free(struct swap_stream *s);

/* Values into "[NAME]" in a text of ours (log lines). */
int swap_redact(const struct swap_table *t, struct buf *text);

#endif
