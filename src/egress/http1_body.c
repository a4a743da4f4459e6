/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http1_body - takes the framing off a body, in pieces of any size.
 *
 * Content is passed through by pointer, never copied and never looked at; only chunk
 * lines and trailers are read byte by byte, and both are bounded.
 */
#include "egress/http1_priv.h"

#include "base/util.h"

#define LINE_MAX_BYTES 256
#define TRAILER_MAX_BYTES 16384
#define CHUNK_DIGITS_MAX 15 /* 2^60: no sum of ours overflows */

enum state {
	SIZE,      /* digits of a chunk's size */
	EXTENSION, /* after ';' */
	SIZE_LF,   /* CR seen after a size line */
	DATA,      /* left > 0 */
	DATA_CR,   /* the CRLF after a chunk */
	DATA_LF,
	LINE_START, /* of a trailer, or of the last empty line */
	TRAILER,
	TRAILER_LF,
	LAST_LF, /* CR seen at the start of a line: the end */
};

void http_reader_init(struct http_reader *r, const struct http_head *h)
{
	*r = (struct http_reader){.kind = h->body};
	r->state = h->body == BODY_CHUNKED ? SIZE : DATA;
	if (h->body == BODY_LENGTH)
		r->left = h->length;
	r->done = h->body == BODY_NONE || (h->body == BODY_LENGTH && !r->left);
}

static int size_byte(struct http_reader *r, char c)
{
	int v = http_hex(c);

	if (v >= 0) {
		if (++r->line > CHUNK_DIGITS_MAX)
			return -EBADMSG;
		r->left = r->left << 4 | (unsigned)v;
		return 0;
	}
	if (!r->line || (c != ';' && c != '\r'))
		return -EBADMSG;
	r->state = c == ';' ? EXTENSION : SIZE_LF;
	return 0;
}

/* Extensions mean nothing to us and are not sent on; a quoted one could hold what another
 * reader takes for the end of the line. */
static int extension_byte(struct http_reader *r, char c)
{
	if (c == '\r') {
		r->state = SIZE_LF;
		return 0;
	}
	if (++r->line > LINE_MAX_BYTES || c == '"' ||
	    !(http_chars[(unsigned char)c] & CH_VALUE))
		return -EBADMSG;
	return 0;
}

static int trailer_byte(struct http_reader *r, char c)
{
	if (r->state == LINE_START && c == '\r') {
		r->state = LAST_LF;
		return 0;
	}
	if (r->state == TRAILER && c == '\r') {
		r->state = TRAILER_LF;
		return 0;
	}
	if (++r->line > TRAILER_MAX_BYTES || !(http_chars[(unsigned char)c] & CH_VALUE) ||
	    (r->state == LINE_START && !(http_chars[(unsigned char)c] & CH_TOKEN)))
		return -EBADMSG;
	r->state = TRAILER;
	return 0;
}

static int expect_byte(struct http_reader *r, char c, char wanted, int next)
{
	r->state = next;
	return c == wanted ? 0 : -EBADMSG;
}

/* One byte of framing. */
static int framing_byte(struct http_reader *r, char c)
{
	switch ((enum state)r->state) {
	case SIZE:
		return size_byte(r, c);
	case EXTENSION:
		return extension_byte(r, c);
	case SIZE_LF:
		r->line = 0;
		return expect_byte(r, c, '\n', r->left ? DATA : LINE_START);
	case DATA_CR:
		return expect_byte(r, c, '\r', DATA_LF);
	case DATA_LF:
		return expect_byte(r, c, '\n', SIZE);
	case LINE_START:
	case TRAILER:
		return trailer_byte(r, c);
	case TRAILER_LF:
		return expect_byte(r, c, '\n', LINE_START);
	case LAST_LF:
		r->done = true;
		return expect_byte(r, c, '\n', LAST_LF);
	case DATA:
		break;
	}
	return -EBADMSG;
}

long http_read_body(struct http_reader *r, const char *p, size_t n, const char **ret_data,
		    size_t *ret_n)
{
	size_t used = 0, content;

	*ret_data = p;
	*ret_n = 0;
	while (used < n && !r->done && r->state != DATA)
		if (framing_byte(r, p[used++]) < 0)
			return -EBADMSG;
	if (used == n || r->done)
		return (long)used;
	content = n - used;
	if (r->kind != BODY_CLOSE) {
		content = content < r->left ? content : (size_t)r->left;
		r->left -= content;
	}
	*ret_data = p + used;
	*ret_n = content;
	if (r->kind == BODY_CHUNKED && !r->left)
		r->state = DATA_CR;
	r->done = r->kind == BODY_LENGTH && !r->left;
	return (long)(used + content);
}
