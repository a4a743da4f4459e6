/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Properties: how a stream is cut into pieces does not change what becomes of it; a
 * response keeps its length and holds no value afterwards, however it is unescaped; that
 * also goes for a request that a server sends back as it got it; towards another host no
 * value is ever put out, and a text that may not go is left as it is. The first byte says
 * how pieces are cut and where the text is.
 */
#include "base/util.h"
#include "egress/swap.h"
#include "fuzz.h"

#include <ctype.h>

#define PH_A "sk-test-aaaaBBBBcccc0123"
#define VAL_A "sk-test-9f8e/7d6c+5b4a=="
#define PH_B "PLACEHOLDER_of_B"
#define VAL_B "B\"value\\B"
#define PH_C "ccccBBBBaaaa3210"
#define VAL_C "9f8e/7d6c+5b4a==" /* part of VAL_A */
#define PH_D "npm_0123456789abcdef"
#define VAL_D "npm_fedcba9876543210" /* keeps its length */

static struct swap_table *table;

static void setup(void)
{
	if (table)
		return;
	if (swap_new(&table) < 0 ||
	    swap_add(table, "A", PH_A, VAL_A, strlen(VAL_A), "a.test,all.test") < 0 ||
	    swap_add(table, "B", PH_B, VAL_B, strlen(VAL_B), "a.test,b.test,all.test") <
		    0 ||
	    swap_add(table, "C", PH_C, VAL_C, strlen(VAL_C), "c.test,all.test") < 0 ||
	    swap_add(table, "D", PH_D, VAL_D, strlen(VAL_D), "d.test,all.test") < 0 ||
	    swap_ready(table) < 0)
		abort();
}

static bool holds_value(const struct buf *b)
{
	return b->len && (memmem(b->data, b->len, VAL_A, strlen(VAL_A)) ||
			  memmem(b->data, b->len, VAL_B, strlen(VAL_B)) ||
			  memmem(b->data, b->len, VAL_C, strlen(VAL_C)) ||
			  memmem(b->data, b->len, VAL_D, strlen(VAL_D)));
}

/* Takes escapes back as simply as can be. */
static void unescape(const struct buf *in, bool percent, struct buf *out)
{
	const char *p = in->data;

	for (size_t i = 0, n = in->len, len; i < n; i += len) {
		char digits[3] = {0}, *end;
		unsigned char c = (unsigned char)p[i];

		len = 1;
		if (percent && c == '%' && n - i >= 3)
			memcpy(digits, p + i + 1, 2);
		else if (!percent && n - i >= 6 && memcmp(p + i, "\\u00", 4) == 0)
			memcpy(digits, p + i + 4, 2);
		if (isxdigit((unsigned char)digits[0]) &&
		    isxdigit((unsigned char)digits[1])) {
			c = (unsigned char)strtoul(digits, &end, 16);
			len = percent ? 3 : 6;
		} else if (!percent && c == '\\' && n - i >= 2 &&
			   strchr("\"\\/", p[i + 1])) {
			c = (unsigned char)p[i + 1];
			len = 2;
		}
		buf_append(out, &c, 1);
	}
}

static bool holds_escaped(const struct buf *b)
{
	bool found = holds_value(b);

	for (int percent = 0; percent < 2; percent++) {
		cleanup_buf struct buf out = BUF_INIT(1 << 22);

		unescape(b, percent, &out);
		found = found || holds_value(&out);
	}
	return found;
}

/* host NULL: a response. */
static void stream(const char *host, enum swap_where where, const uint8_t *p, size_t n,
		   size_t piece, struct buf *out, struct swap_outcome *o)
{
	struct swap_stream *s = NULL;
	enum swap_size size = SWAP_SIZE_CHANGES;
	int r = host ? swap_request_stream(table, host, true, where, &s, &size)
		     : swap_response_stream(table, "all.test", &s);

	if (r < 0)
		abort();
	if (size == SWAP_SIZE_MAY_STAY)
		swap_stream_keep_size(s);
	for (size_t at = 0; at < n; at += piece) {
		size_t k = min_size(piece, n - at);
		uint8_t *copy = malloc(k);

		memcpy(copy, p + at, k);
		if (swap_feed(s, copy, k, out, o) < 0)
			abort();
		free(copy);
	}
	if (swap_finish(s, out, o) < 0)
		abort();
	if (host && size != SWAP_SIZE_CHANGES && !o->violation && out->len != n)
		abort();
	swap_stream_free(s);
}

static void check_stream(const char *host, enum swap_where where, const uint8_t *p,
			 size_t n, size_t piece)
{
	cleanup_buf struct buf one = BUF_INIT(1 << 22);
	cleanup_buf struct buf many = BUF_INIT(1 << 22);
	cleanup_buf struct buf input = BUF_INIT(1 << 22);
	struct swap_outcome a = {0}, b = {0};

	stream(host, where, p, n, n ? n : 1, &one, &a);
	stream(host, where, p, n, piece, &many, &b);
	if (a.violation != b.violation || (!a.violation && a.replaced != b.replaced))
		abort();
	if (!a.violation && (one.len != many.len ||
			     (one.len && memcmp(one.data, many.data, one.len) != 0)))
		abort();
	if (!host && (one.len != n || holds_escaped(&one)))
		abort();
	if (host && !a.violation) /* sent back as it was got */
		check_stream(NULL, where, (const uint8_t *)one.data, one.len, piece);
	buf_append(&input, p, n);
	if (host && strcmp(host, "evil.test") == 0 &&
	    (a.replaced || (holds_value(&one) && !holds_value(&input))))
		abort();
}

static void check_text(enum swap_where where, const char *field, const uint8_t *p,
		       size_t n)
{
	static const char *const hosts[] = {"a.test", "c.test", "d.test", "evil.test"};

	for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
		cleanup_buf struct buf b = BUF_INIT(1 << 22);
		struct swap_outcome o = {0};

		if (buf_append(&b, p, n) < 0 ||
		    swap_text(table, hosts[i], true, where, field, &b, &o) < 0)
			abort();
		if ((o.violation || !o.replaced) &&
		    (b.len != n || (n && memcmp(b.data, p, n) != 0)))
			abort();
	}
	swap_find(table, p, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_buf struct buf b = BUF_INIT(1 << 22);
	size_t piece;
	enum swap_where where;

	setup();
	if (size < 1 || size > 1 << 16)
		return 0;
	piece = (data[0] & 31) + 1u;
	where = (enum swap_where)((data[0] >> 5) % 5);
	data++;
	size--;
	check_stream(NULL, where, data, size, piece);
	check_stream("a.test", where, data, size, piece);
	check_stream("d.test", where, data, size, piece);
	check_stream("evil.test", where, data, size, piece);
	check_text(where, "Authorization", data, size);
	buf_append(&b, data, size);
	if (swap_redact(table, &b) < 0 || holds_value(&b))
		abort();
	return 0;
}
