/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http1 - HTTP/1.1 messages, read strictly and written canonically. Pure: no I/O.
 *
 * What is judged is what is sent: a head is parsed into fields, judged, and written anew
 * from them; the original bytes are never forwarded. What is ambiguous is refused: bare
 * LF or CR, NUL, obs-fold, spaces around a field name, Content-Length with
 * Transfer-Encoding, several lengths, a coding but a final "chunked", chunk extensions
 * with quotes or beyond 256 bytes, absolute-form whose authority is not Host, CONNECT,
 * HTTP/0.9, 1.0 with Transfer-Encoding, a body where none may be.
 *
 * http1_parse.c heads, http1_framing.c the fields that say where a message ends,
 * http1_write.c, http1_body.c, http1_path.c.
 */
#ifndef COVE_EGRESS_HTTP1_H
#define COVE_EGRESS_HTTP1_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define HTTP_HEAD_MAX (64u << 10)
#define HTTP_FIELDS_MAX 128
#define HTTP_TARGET_MAX 16384

struct http_field {
	char *name;  /* as written; compare without case */
	char *value; /* no leading or trailing space */
};

enum http_body { BODY_NONE, BODY_LENGTH, BODY_CHUNKED, BODY_CLOSE /* responses only */ };

struct http_head {
	bool request;
	char *method, *target; /* target: origin-form ("/a?b") or "*" */
	char *authority; /* of Host (and absolute-form), lower case, with port if given;
			    NULL: HTTP/1.0 without Host */
	char *scheme;    /* of absolute-form: "http", "https"; else NULL */
	unsigned status; /* response */
	char *phrase;
	bool http10;
	struct http_field field[HTTP_FIELDS_MAX];
	size_t n_fields; /* hop-by-hop fields (Connection and what it names, Keep-Alive,
			    TE, Proxy-*, Trailer) and framing fields are taken out */
	enum http_body body;
	uint64_t length;
	bool has_length; /* also said of a body that does not come (HEAD, 304) */
	bool keep_alive;
	bool upgrade; /* Connection: upgrade with Upgrade: websocket */
	bool expect;  /* 100-continue */
	void *store;  /* the memory behind all of these */
};

/* Where does the head at p end? >0: that long; 0: more is needed; else as below. The
 * first `from` bytes were looked at before. Cheap, and refuses a bad line end at once. */
long http_head_end(const char *p, size_t n, size_t from, const char **why);

/* Looks at n bytes. >0: the head is complete and that long. 0: more is needed.
 * -EBADMSG with *why static: refused; -EMSGSIZE: larger than the bounds. For a response,
 * `method` is that of its request (HEAD, and CONNECT never). */
long http_parse_request(struct http_head *h, const char *p, size_t n, const char **why);
long http_parse_response(struct http_head *h, const char *p, size_t n, const char *method,
			 const char **why);
void http_head_clear(struct http_head *h);
/* It was written: fields, target and phrase are wiped; what tells how its body is framed
 * stays, and the method. */
void http_head_forget(struct http_head *h);
const char *http_field_get(const struct http_head *h,
			   const char *name); /* first or NULL */
/* Sets or removes (NULL) all fields of that name. 0, -ENOBUFS, -ENOMEM, -EINVAL if the
 * value would break the head. */
int http_field_set(struct http_head *h, const char *name, const char *value);
int http_field_replace(struct http_head *h, size_t i, const char *value); /* this one */
int http_target_set(struct http_head *h, const char *target);
int http_authority_set(struct http_head *h, const char *authority);
/* The canonical form: request line or status line, Host first, fields, framing, CRLF. */
int http_write_head(const struct http_head *h, struct buf *out);

/* A body's framing, byte by byte: input framed, output its content. */
struct http_reader {
	enum http_body kind;
	uint64_t left; /* of the length or of the chunk */
	int state;
	unsigned line; /* bytes of the current chunk line or trailer */
	bool done;
};
void http_reader_init(struct http_reader *r, const struct http_head *h);
/* Consumes from p: *ret_data, *ret_n is content (borrowed, may be empty); returns bytes
 * consumed, or -EBADMSG. done is set at the end. Trailers are dropped. */
long http_read_body(struct http_reader *r, const char *p, size_t n, const char **ret_data,
		    size_t *ret_n);
/* Frames content for a message with this head (chunk header and end, or nothing). */
int http_write_chunk(const struct http_head *h, const void *p, size_t n, struct buf *out);
int http_write_end(const struct http_head *h, struct buf *out);

/* The path of a target for the judge, without query and percent-decoded once, in two
 * readings, as servers differ: PATH_STRICT leaves an encoded slash encoded ("%2F");
 * PATH_LENIENT takes it, and '\', for a slash, joins slashes, and cuts ";parameters".
 * Both must be allowed. -EBADMSG if NUL, control characters or broken encodings are in
 * it, or the lenient reading has "." or ".." segments; -EMSGSIZE. */
enum http_path_reading { PATH_STRICT, PATH_LENIENT };
int http_path(const char *target, enum http_path_reading how, char *out, size_t size);

#endif
