/* SPDX-License-Identifier: Apache-2.0 */
/* http1_priv - what the files of http1 share. */
#ifndef COVE_EGRESS_HTTP1_PRIV_H
#define COVE_EGRESS_HTTP1_PRIV_H

#include "egress/http1.h"

#define HTTP_OPTIONS_MAX 32 /* names in all Connection fields of a head */
#define HTTP_METHOD_MAX 32

/* What a byte may be part of. */
enum {
	CH_TOKEN = 1,
	CH_VALUE = 2,
	CH_TARGET = 4,
	CH_HOST = 8,
	CH_DIGIT = 16,
	CH_HEX = 32
};
extern const uint8_t http_chars[256];

/* Is it n bytes of that class, and at least one? */
bool http_all(const char *p, size_t n, unsigned class);
int http_hex(char c); /* value, or -1 */

/* Memory that lives as long as the head; NUL-terminated copy of n bytes, or NULL. */
char *http_keep(struct http_head *h, const char *p, size_t n);

/* What the framing fields of one head said, while it is read. */
struct http_framing {
	unsigned hosts, lengths, codings;
	bool chunked, close, persist, upgrade, websocket;
	char *host;
	const char *option[HTTP_OPTIONS_MAX]; /* of Connection: tokens, terminated */
	size_t n_options;
};

/* Takes a field if it is about framing or this hop: *ret_taken. NULL, or why not. */
const char *http_framing_field(struct http_head *h, struct http_framing *f,
			       const char *name, char *value, bool *ret_taken);
/* All fields are read: drops those that Connection names, and settles the body. method:
 * the request's own, or that of the request a response answers. */
const char *http_framing_settle(struct http_head *h, struct http_framing *f,
				const char *method);
/* host or host:port, as Host and absolute-form have it; made lower case. */
const char *http_check_authority(char *text);

#endif
