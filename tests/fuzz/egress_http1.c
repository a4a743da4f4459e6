/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a request or a response and its body. Properties: what is taken is written
 * in a form that is taken again and written the same; a body has the same content and end
 * in whatever pieces it comes; what was refused as a whole is never taken as a beginning.
 */
#include "fuzz.h"

#include "base/util.h"
#include "egress/http1.h"

static long parse(struct http_head *h, const char *p, size_t n, const char *method)
{
	const char *why = NULL;
	long r = method ? http_parse_response(h, p, n, method, &why)
			: http_parse_request(h, p, n, &why);

	if (r < 0 && !why && r != -ENOMEM)
		abort();
	return r;
}

static void check_written(struct http_head *h, const char *method)
{
	cleanup_buf struct buf once = BUF_INIT(1 << 20), twice = BUF_INIT(1 << 20);
	struct http_head again;

	if (h->request && !h->authority && http_authority_set(h, "host") < 0)
		abort();
	if (http_write_head(h, &once) < 0)
		abort();
	if (once.len >= HTTP_HEAD_MAX) /* our own "Content-Length" may be longer */
		return;
	if (parse(&again, once.data, once.len, method) != (long)once.len)
		abort();
	if (again.body != h->body || again.length != h->length ||
	    again.n_fields != h->n_fields || again.upgrade != h->upgrade)
		abort();
	if (http_write_head(&again, &twice) < 0 || twice.len != once.len ||
	    memcmp(once.data, twice.data, once.len) != 0)
		abort();
	http_head_clear(&again);
}

/* -1: refused; else bytes used. */
static long body(const struct http_head *h, const char *p, size_t n, size_t step,
		 struct buf *out, bool *ret_done)
{
	struct http_reader r;
	size_t pos = 0;

	http_reader_init(&r, h);
	while (!r.done && pos < n) {
		size_t piece = min_size(step, n - pos), content;
		const char *data;
		long used = http_read_body(&r, p + pos, piece, &data, &content);

		if (used < 0)
			return -1;
		if ((size_t)used > piece || (!used && !r.done) || data < p + pos ||
		    data + content > p + pos + used)
			abort();
		if (buf_append(out, data, content) < 0)
			abort();
		pos += (size_t)used;
	}
	*ret_done = r.done;
	return (long)pos;
}

static void check_body(const struct http_head *h, const char *p, size_t n)
{
	cleanup_buf struct buf whole = BUF_INIT(1 << 21);
	bool done = false;
	long used = body(h, p, n, n ? n : 1, &whole, &done);

	for (size_t step = 1; step < 8; step += 2) {
		cleanup_buf struct buf parts = BUF_INIT(1 << 21);
		bool parts_done = false;

		if (body(h, p, n, step, &parts, &parts_done) != used)
			abort();
		if (used >= 0 &&
		    (parts_done != done || parts.len != whole.len ||
		     (whole.len && memcmp(parts.data, whole.data, whole.len) != 0)))
			abort();
	}
}

static void check_paths(const char *target)
{
	char out[HTTP_TARGET_MAX * 3 + 1];

	for (int how = PATH_STRICT; how <= PATH_LENIENT; how++)
		if (http_path(target, (enum http_path_reading)how, out, sizeof(out)) ==
			    0 &&
		    how == PATH_LENIENT && (strstr(out, "//") || strstr(out, "/../")))
			abort();
}

static void check(const char *p, size_t n, const char *method)
{
	struct http_head h, part;
	long len = parse(&h, p, n, method);

	if (len <= 0)
		return;
	if ((size_t)len > n || parse(&part, p, (size_t)len - 1, method) != 0)
		abort();
	check_body(&h, p + len, n - (size_t)len);
	if (h.request)
		check_paths(h.target);
	check_written(&h, method);
	http_head_clear(&h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_head chunked = {.body = BODY_CHUNKED};
	const char *p = (const char *)data;

	check(p, size, NULL);
	check(p, size, "GET");
	check(p, size, "HEAD");
	check_body(&chunked, p, size);
	return 0;
}
