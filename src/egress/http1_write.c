/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http1_write - the one form in which a head or a chunk leaves. Always as HTTP/1.1. A
 * request has values in it by then.
 */
#include "egress/http1_priv.h"
#include "egress/wipe.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int put_field(struct buf *out, const char *name, const char *value)
{
	int r = wipe_puts(out, name);

	r = r < 0 ? r : wipe_puts(out, ": ");
	r = r < 0 ? r : wipe_puts(out, value);
	return r < 0 ? r : wipe_puts(out, "\r\n");
}

static int put_first_line(const struct http_head *h, struct buf *out)
{
	int r;

	if (!h->request)
		return buf_printf(out, "HTTP/1.1 %03u %s\r\n", h->status, h->phrase);
	r = wipe_puts(out, h->method);
	r = r < 0 ? r : wipe_puts(out, " ");
	r = r < 0 ? r : wipe_puts(out, h->target);
	r = r < 0 ? r : wipe_puts(out, " HTTP/1.1\r\n");
	if (r < 0 || !h->authority)
		return r;
	return put_field(out, "Host", h->authority);
}

static int put_framing(const struct http_head *h, struct buf *out)
{
	char length[24];
	int r = 0;

	snprintf(length, sizeof(length), "%" PRIu64, h->length);
	if (h->body == BODY_LENGTH || (h->body == BODY_NONE && h->has_length))
		r = put_field(out, "Content-Length", length);
	else if (h->body == BODY_CHUNKED)
		r = wipe_puts(out, "Transfer-Encoding: chunked\r\n");
	if (r == 0 && h->expect)
		r = wipe_puts(out, "Expect: 100-continue\r\n");
	if (r == 0 && h->upgrade)
		r = wipe_puts(out, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
	else if (r == 0 && !h->keep_alive)
		r = wipe_puts(out, "Connection: close\r\n");
	return r;
}

int http_write_head(const struct http_head *h, struct buf *out)
{
	size_t before = out->len;
	int r = put_first_line(h, out);

	for (size_t i = 0; r == 0 && i < h->n_fields; i++)
		r = put_field(out, h->field[i].name, h->field[i].value);
	if (r == 0)
		r = put_framing(h, out);
	if (r == 0)
		r = wipe_puts(out, "\r\n");
	if (r < 0 && out->data) { /* as it was */
		explicit_bzero(out->data + before, out->len - before);
		out->len = before;
	}
	return r;
}

int http_write_chunk(const struct http_head *h, const void *p, size_t n, struct buf *out)
{
	char size[24];
	int k, r;

	if (!n)
		return 0; /* an empty chunk would be the end */
	if (h->body != BODY_CHUNKED)
		return wipe_append(out, p, n);
	k = snprintf(size, sizeof(size), "%zx\r\n", n);
	r = wipe_reserve(out, (size_t)k + n + 2);
	if (r < 0)
		return r;
	buf_append(out, size, (size_t)k);
	buf_append(out, p, n);
	return buf_append(out, "\r\n", 2);
}

int http_write_end(const struct http_head *h, struct buf *out)
{
	return h->body == BODY_CHUNKED ? wipe_puts(out, "0\r\n\r\n") : 0;
}
