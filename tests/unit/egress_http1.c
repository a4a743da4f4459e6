/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1 heads, bodies and paths: an attack table, and what must work. */
#include "base/util.h"
#include "egress/http1.h"
#include "tap.h"

#include <errno.h>
#include <stdio.h>
#include <strings.h>

#define HOST "Host: a.test\r\n"
#define R(line, fields) line " HTTP/1.1\r\n" HOST fields "\r\n"

struct text {
	const char *what, *p;
	size_t n;
};
#define TEXT(what_, p_) \
	{ \
		what_, p_, sizeof(p_) - 1 \
	}

static const struct text bad_requests[] = {
	TEXT("CL.TE", R("POST /", "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n")),
	TEXT("TE.CL", R("POST /", "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n")),
	TEXT("TE.TE twice",
	     R("POST /",
	       "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n")),
	TEXT("TE list", R("POST /", "Transfer-Encoding: gzip, chunked\r\n")),
	TEXT("TE xchunked", R("POST /", "Transfer-Encoding: xchunked\r\n")),
	TEXT("TE identity", R("POST /", "Transfer-Encoding: identity\r\n")),
	TEXT("TE with vertical tab", R("POST /", "Transfer-Encoding: \x0b"
						 "chunked\r\n")),
	TEXT("TE with quotes", R("POST /", "Transfer-Encoding: \"chunked\"\r\n")),
	TEXT("TE after a NUL", R("POST /", "X: a\0b\r\nTransfer-Encoding: chunked\r\n")),
	TEXT("TE in 1.0",
	     "POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"),
	TEXT("space before the colon", R("POST /", "Content-Length : 5\r\n")),
	TEXT("tab before the colon", R("POST /", "Transfer-Encoding\t: chunked\r\n")),
	TEXT("obs-fold", R("GET /", "X: a\r\n b\r\n")),
	TEXT("obs-fold with tab", R("GET /", "X: a\r\n\tb\r\n")),
	TEXT("fold before the first field", "GET / HTTP/1.1\r\n " HOST "\r\n"),
	TEXT("bare LF", "GET / HTTP/1.1\nHost: a.test\n\n"),
	TEXT("one bare LF", R("GET /", "X: a\nY: b\r\n")),
	TEXT("bare LF at the end", "GET / HTTP/1.1\r\nHost: a.test\r\n\n"),
	TEXT("bare CR", R("GET /", "X: a\rY: b\r\n")),
	TEXT("CR CR LF", "GET / HTTP/1.1\r\r\nHost: a.test\r\r\n\r\r\n\r\n"),
	TEXT("NUL in a value", R("GET /", "X: a\0b\r\n")),
	TEXT("NUL in a name", R("GET /", "X\0: a\r\n")),
	TEXT("NUL in the line", R("GET /\0", "")),
	TEXT("NUL before the end", "GET / HTTP/1.1\r\n" HOST "\0\r\n\r\n"),
	TEXT("two lengths", R("POST /", "Content-Length: 5\r\nContent-Length: 6\r\n")),
	TEXT("one length twice",
	     R("POST /", "Content-Length: 5\r\nContent-Length: 5\r\n")),
	TEXT("list of lengths", R("POST /", "Content-Length: 5, 5\r\n")),
	TEXT("negative length", R("POST /", "Content-Length: -5\r\n")),
	TEXT("+5", R("POST /", "Content-Length: +5\r\n")),
	TEXT("0x5", R("POST /", "Content-Length: 0x5\r\n")),
	TEXT("05", R("POST /", "Content-Length: 05\r\n")),
	TEXT("1e3", R("POST /", "Content-Length: 1e3\r\n")),
	TEXT("5 5", R("POST /", "Content-Length: 5 5\r\n")),
	TEXT("no digits", R("POST /", "Content-Length:\r\n")),
	TEXT("huge length", R("POST /", "Content-Length: 18446744073709551621\r\n")),
	TEXT("2^63", R("POST /", "Content-Length: 9223372036854775808\r\n")),
	TEXT("no Host", "GET / HTTP/1.1\r\n\r\n"),
	TEXT("two Hosts", R("GET /", "Host: b.test\r\n")),
	TEXT("one Host twice", R("GET /", HOST)),
	TEXT("empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n"),
	TEXT("Host with user", "GET / HTTP/1.1\r\nHost: a.test@b.test\r\n\r\n"),
	TEXT("Host with path", "GET / HTTP/1.1\r\nHost: a.test/x\r\n\r\n"),
	TEXT("Host list", "GET / HTTP/1.1\r\nHost: a.test, b.test\r\n\r\n"),
	TEXT("Host with space", "GET / HTTP/1.1\r\nHost: a.test b.test\r\n\r\n"),
	TEXT("Host port 0", "GET / HTTP/1.1\r\nHost: a.test:0\r\n\r\n"),
	TEXT("Host port 65536", "GET / HTTP/1.1\r\nHost: a.test:65536\r\n\r\n"),
	TEXT("Host port +80", "GET / HTTP/1.1\r\nHost: a.test:+80\r\n\r\n"),
	TEXT("Host two ports", "GET / HTTP/1.1\r\nHost: a.test:80:81\r\n\r\n"),
	TEXT("Host open bracket", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n"),
	TEXT("absolute-form for another", R("GET http://b.test/", "")),
	TEXT("absolute-form, another port", R("GET http://a.test:81/", "")),
	TEXT("absolute-form with user", R("GET http://u@a.test/", "")),
	TEXT("absolute-form of ftp", R("GET ftp://a.test/", "")),
	TEXT("absolute-form, 1.0, no Host", "GET http://a.test/ HTTP/1.0\r\n\r\n"),
	TEXT("authority-form", R("GET a.test:80", "")),
	TEXT("CONNECT", "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n"),
	TEXT("connect in lower case",
	     "connect a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n"),
	TEXT("PRI", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
	TEXT("HTTP/0.9", "GET /\r\n\r\n"),
	TEXT("HTTP/1.2", "GET / HTTP/1.2\r\n" HOST "\r\n"),
	TEXT("HTTP/2.0", "GET / HTTP/2.0\r\n" HOST "\r\n"),
	TEXT("http/1.1", "GET / http/1.1\r\n" HOST "\r\n"),
	TEXT("HTTP/1.1 and more", "GET / HTTP/1.1 x\r\n" HOST "\r\n"),
	TEXT("two spaces", "GET  / HTTP/1.1\r\n" HOST "\r\n"),
	TEXT("space in the target", "GET /a b HTTP/1.1\r\n" HOST "\r\n"),
	TEXT("tabs in the line", "GET\t/\tHTTP/1.1\r\n" HOST "\r\n"),
	TEXT("leading space", " GET / HTTP/1.1\r\n" HOST "\r\n"),
	TEXT("leading CRLF", "\r\n" R("GET /", "")),
	TEXT("method with a bracket", R("GE(T /", "")),
	TEXT("long method", R("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA /", "")),
	TEXT("fragment", R("GET /a#b", "")),
	TEXT("raw bytes in the target", R("GET /\xc3\xa9", "")),
	TEXT("DEL in the target", R("GET /\x7f", "")),
	TEXT("* for GET", R("GET *", "")),
	TEXT("no colon", R("GET /", "X\r\n")),
	TEXT("empty name", R("GET /", ": a\r\n")),
	TEXT("escape in a value", R("GET /", "X: \x1b[0m\r\n")),
	TEXT("Expect something", R("POST /", "Expect: magic\r\n")),
	TEXT("Connection is no list", R("GET /", "Connection: a b\r\n")),
	TEXT("TRACE with a body", R("TRACE /", "Content-Length: 1\r\n")),
};

static void attacks_are_refused(void)
{
	for (size_t i = 0; i < ARRAY_LEN(bad_requests); i++) {
		const struct text *t = &bad_requests[i];
		const char *why = NULL;
		struct http_head h;
		long r = http_parse_request(&h, t->p, t->n, &why);

		OK(r == -EBADMSG && why && !h.store, "refused: %s (%s)", t->what,
		   why ? why : "-");
	}
}

static const struct text bad_responses[] = {
	TEXT("no status", "HTTP/1.1\r\n\r\n"),
	TEXT("two digits", "HTTP/1.1 20 OK\r\n\r\n"),
	TEXT("four digits", "HTTP/1.1 2000 OK\r\n\r\n"),
	TEXT("status 099", "HTTP/1.1 099 OK\r\n\r\n"),
	TEXT("ICY", "ICY 200 OK\r\n\r\n"),
	TEXT("HTTP/2", "HTTP/2 200\r\n\r\n"),
	TEXT("bell in the phrase", "HTTP/1.1 200 \a\r\n\r\n"),
	TEXT("CL and TE", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n"
			  "Transfer-Encoding: chunked\r\n\r\n"),
	TEXT("two lengths",
	     "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
	TEXT("TE gzip", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"),
	TEXT("TE in 1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
	TEXT("204 with a body", "HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\n"),
	TEXT("100 with a body", "HTTP/1.1 100 C\r\nTransfer-Encoding: chunked\r\n\r\n"),
	TEXT("bare LF", "HTTP/1.1 200 OK\nContent-Length: 1\n\n"),
	TEXT("obs-fold", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n"),
	TEXT("NUL", "HTTP/1.1 200 OK\r\nX: \0\r\n\r\n"),
};

static void bad_answers_are_refused(void)
{
	for (size_t i = 0; i < ARRAY_LEN(bad_responses); i++) {
		const struct text *t = &bad_responses[i];
		const char *why = NULL;
		struct http_head h;

		OK(http_parse_response(&h, t->p, t->n, "GET", &why) == -EBADMSG && why,
		   "response refused: %s (%s)", t->what, why ? why : "-");
	}
}

static void heads_are_bounded(void)
{
	cleanup_buf struct buf b = BUF_INIT(1 << 20);
	const char *why = NULL;
	struct http_head h;

	buf_puts(&b, "GET / HTTP/1.1\r\n" HOST "X: ");
	while (b.len < HTTP_HEAD_MAX - 1)
		buf_puts(&b, "y");
	OK(http_parse_request(&h, b.data, b.len, &why) == 0,
	   "just below: more is needed");
	buf_puts(&b, "y");
	OK(http_parse_request(&h, b.data, b.len, &why) == -EMSGSIZE,
	   "then it is too large");
	buf_clear(&b);
	buf_puts(&b, "GET / HTTP/1.1\r\n" HOST);
	for (int i = 0; i < HTTP_FIELDS_MAX; i++)
		buf_puts(&b, "X: y\r\n");
	buf_puts(&b, "\r\n");
	OK(http_parse_request(&h, b.data, b.len, &why) == (long)b.len,
	   "128 fields are taken");
	OK(http_field_set(&h, "Y", "z") == -ENOBUFS, "one more does not fit");
	OK(http_field_set(&h, "X", "z") == 0 && h.n_fields == 1,
	   "all of a name are replaced");
	http_head_clear(&h);
	b.len -= 2;
	buf_puts(&b, "X: y\r\n\r\n");
	OK(http_parse_request(&h, b.data, b.len, &why) == -EBADMSG, "129 are not");
	buf_clear(&b);
	buf_puts(&b, "GET /");
	while (b.len < HTTP_TARGET_MAX + 6)
		buf_puts(&b, "y");
	buf_puts(&b, " HTTP/1.1\r\n" HOST "\r\n");
	OK(http_parse_request(&h, b.data, b.len, &why) == -EBADMSG,
	   "a long target is refused");
}

/* What is written for a head, which must be stable: written again it is the same. */
static void canonical(const char *what, const char *in, const char *method,
		      const char *want)
{
	cleanup_buf struct buf once = BUF_INIT(1 << 20), twice = BUF_INIT(1 << 20);
	const char *why = NULL;
	struct http_head h;
	long r = method ? http_parse_response(&h, in, strlen(in), method, &why)
			: http_parse_request(&h, in, strlen(in), &why);

	if (r != (long)strlen(in)) {
		OK(0, "%s: %ld %s", what, r, why ? why : "");
		return;
	}
	http_write_head(&h, &once);
	http_head_clear(&h);
	OK(strcmp(once.data, want) == 0, "%s: %s", what,
	   strcmp(once.data, want) ? once.data : "canonical");
	r = method ? http_parse_response(&h, once.data, once.len, method, &why)
		   : http_parse_request(&h, once.data, once.len, &why);
	if (r > 0)
		http_write_head(&h, &twice);
	OK(r == (long)once.len && twice.len && strcmp(once.data, twice.data) == 0,
	   "%s: stable", what);
	http_head_clear(&h);
}

static void requests_are_written_anew(void)
{
	canonical("plain", R("GET /a?b", "Accept:\t*/* \r\n"), NULL,
		  R("GET /a?b", "Accept: */*\r\n"));
	canonical("Host comes first",
		  "GET / HTTP/1.1\r\nX: y\r\nhOST: A.Test:8080\r\n\r\n", NULL,
		  "GET / HTTP/1.1\r\nHost: a.test:8080\r\nX: y\r\n\r\n");
	canonical("absolute-form", R("GET http://A.test?q", ""), NULL, R("GET /?q", ""));
	canonical("absolute-form of nothing", R("OPTIONS http://a.test", ""), NULL,
		  R("OPTIONS *", ""));
	canonical("hop by hop",
		  R("GET /",
		    "Connection: keep-alive, X-Own\r\nX-Own: 1\r\nKeep-Alive: 3\r\n"
		    "TE: trailers\r\nTrailer: a\r\nProxy-Authorization: x\r\nY: 2\r\n"),
		  NULL, R("GET /", "Y: 2\r\n"));
	canonical("close", R("GET /", "Connection: Close\r\n"), NULL,
		  R("GET /", "Connection: close\r\n"));
	canonical("1.0", "GET / HTTP/1.0\r\n" HOST "\r\n", NULL,
		  R("GET /", "Connection: close\r\n"));
	canonical("1.0 keep-alive",
		  "GET / HTTP/1.0\r\n" HOST "Connection: Keep-Alive\r\n\r\n", NULL,
		  R("GET /", ""));
	canonical("length", R("POST /", "content-length: 5\r\nA: b\r\n"), NULL,
		  R("POST /", "A: b\r\nContent-Length: 5\r\n"));
	canonical("no length", R("POST /", "Content-Length: 0\r\n"), NULL,
		  R("POST /", "Content-Length: 0\r\n"));
	canonical("chunked", R("POST /", "Transfer-Encoding: Chunked\r\n"), NULL,
		  R("POST /", "Transfer-Encoding: chunked\r\n"));
	canonical("expect", R("POST /", "Expect: 100-Continue\r\nContent-Length: 1\r\n"),
		  NULL, R("POST /", "Content-Length: 1\r\nExpect: 100-continue\r\n"));
	canonical("websocket",
		  R("GET /", "Upgrade: WebSocket\r\nConnection: x, Upgrade\r\n"), NULL,
		  R("GET /", "Connection: Upgrade\r\nUpgrade: websocket\r\n"));
	canonical("h2c is not offered",
		  R("GET /", "Upgrade: h2c\r\nHTTP2-Settings: AAM\r\n"
			     "Connection: Upgrade, HTTP2-Settings\r\n"),
		  NULL, R("GET /", ""));
	canonical("IPv6", "GET / HTTP/1.1\r\nHost: [FD00::1]:80\r\n\r\n", NULL,
		  "GET / HTTP/1.1\r\nHost: [fd00::1]:80\r\n\r\n");
	canonical("bytes over 127", R("GET /", "X: \xc3\xa9\r\n"), NULL,
		  R("GET /", "X: \xc3\xa9\r\n"));
}

static void answers_are_written_anew(void)
{
	canonical("200", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: b\r\n\r\n", "GET",
		  "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 5\r\n\r\n");
	canonical("no phrase", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "GET",
		  "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n");
	canonical("until the end", "HTTP/1.1 200 OK\r\n\r\n", "GET",
		  "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
	canonical("HEAD keeps the length", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
		  "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
	canonical("304 keeps it too", "HTTP/1.1 304 Not\r\nContent-Length: 9\r\n\r\n",
		  "GET", "HTTP/1.1 304 Not\r\nContent-Length: 9\r\n\r\n");
	canonical("204", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", "GET",
		  "HTTP/1.1 204 No Content\r\n\r\n");
	canonical("100", "HTTP/1.1 100 Continue\r\n\r\n", "POST",
		  "HTTP/1.1 100 Continue\r\n\r\n");
	canonical("101",
		  "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n"
		  "Connection: upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n",
		  "GET",
		  "HTTP/1.1 101 Switching\r\nSec-WebSocket-Accept: x\r\n"
		  "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
}

static void any_split_asks_for_more(void)
{
	static const char in[] = R("POST /x", "Content-Length: 5\r\n");
	const char *why = NULL;
	struct http_head h;
	int wrong = 0;

	for (size_t n = 0; n < sizeof(in) - 1; n++) {
		wrong += http_parse_request(&h, in, n, &why) != 0;
		for (size_t from = 0; from <= n; from++)
			wrong += http_head_end(in, n, from, &why) != 0;
	}
	for (size_t from = 0; from < sizeof(in) - 1; from++)
		wrong += http_head_end(in, sizeof(in) - 1, from, &why) != sizeof(in) - 1;
	OK(wrong == 0,
	   "every beginning of a head asks for more, wherever the look starts");
	OK(http_head_end("GET / HTTP/1.1\r\nA: b\n", 21, 16, &why) == -EBADMSG,
	   "a bare LF is refused before the head is complete");
}

static void fields_cannot_break_the_head(void)
{
	static const char in[] = R("GET /", "X: y\r\n");
	const char *why;
	struct http_head h;

	http_parse_request(&h, in, sizeof(in) - 1, &why);
	OK(http_field_set(&h, "X", "a\r\nEvil: 1") == -EINVAL, "CRLF in a value");
	OK(http_field_set(&h, "X\r\nEvil", "1") == -EINVAL, "CRLF in a name");
	OK(http_field_replace(&h, 0, "a\nb") == -EINVAL, "LF in a replacement");
	OK(http_target_set(&h, "/ HTTP/1.1\r\nEvil: 1") == -EINVAL,
	   "a target with a space");
	OK(http_authority_set(&h, "b.test/") == -EINVAL && !strcmp(h.authority, "a.test"),
	   "an authority with a path");
	OK(strcmp(http_field_get(&h, "x"), "y") == 0, "nothing changed");
	OK(http_field_replace(&h, 0, "longer than before") == 0 &&
		   strcmp(http_field_get(&h, "X"), "longer than before") == 0,
	   "a longer value");
	OK(http_field_set(&h, "x", NULL) == 0 && !h.n_fields, "removed");
	http_head_clear(&h);
}

/* The content of a body given in pieces of `step` bytes; what is left goes to *ret_rest.
 */
static int read_body(const char *in, size_t len, const struct http_head *h, size_t step,
		     struct buf *out, size_t *ret_rest)
{
	struct http_reader r;
	size_t pos = 0;

	http_reader_init(&r, h);
	while (!r.done && pos < len) {
		const char *data;
		size_t n;
		long used = http_read_body(&r, in + pos, min_size(step, len - pos), &data,
					   &n);

		if (used < 0)
			return (int)used;
		buf_append(out, data, n);
		pos += (size_t)used;
	}
	*ret_rest = len - pos;
	return r.done;
}

static const struct {
	struct text in;
	int result; /* 1: complete; 0: more needed; or an error */
	const char *content;
	size_t rest;
} chunked[] = {
	{TEXT("one chunk",             "5\r\nhello\r\n0\r\n\r\n"),            1,        "hello",       0},
	{TEXT("two chunks",            "3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"),   1,        "hello",       0},
	{TEXT("empty",                 "0\r\n\r\n"),                          1,        "",            0},
	{TEXT("hex",                   "A\r\n0123456789\r\n0\r\n\r\n"),       1,        "0123456789",  0},
	{TEXT("extension",             "5;a=b\r\nhello\r\n0;x\r\n\r\n"),      1,        "hello",       0},
	{TEXT("trailers",              "1\r\na\r\n0\r\nX: y\r\nZ: \r\n\r\n"), 1,        "a",           0},
	{TEXT("what follows stays",    "1\r\na\r\n0\r\n\r\nGET"),             1,        "a",           3},
	{TEXT("content is not read",   "6\r\n\r\n0\r\n\r\r\n0\r\n\r\n"),      1,        "\r\n0\r\n\r",
	 0											      },
	{TEXT("unfinished",            "5\r\nhel"),                           0,        "hel",         0},
	{TEXT("no digits",             "\r\nhello\r\n"),                      -EBADMSG, NULL,          0},
	{TEXT("negative",              "-5\r\nhello\r\n"),                    -EBADMSG, NULL,          0},
	{TEXT("+5",		    "+5\r\nhello\r\n"),                    -EBADMSG, NULL,          0},
	{TEXT("0x5",                   "0x5\r\nhello\r\n"),                   -EBADMSG, NULL,          0},
	{TEXT("space after",           "5 \r\nhello\r\n"),                    -EBADMSG, NULL,          0},
	{TEXT("space before",          " 5\r\nhello\r\n"),                    -EBADMSG, NULL,          0},
	{TEXT("bare LF",               "5\nhello\r\n"),                       -EBADMSG, NULL,          0},
	{TEXT("bare LF after",         "5\r\nhello\n0\r\n\r\n"),              -EBADMSG, NULL,          0},
	{TEXT("longer than said",      "4\r\nhello\r\n"),                     -EBADMSG, NULL,          0},
	{TEXT("overflow",              "ffffffffffffffff1\r\nhello\r\n"),     -EBADMSG, NULL,          0},
	{TEXT("16 digits",             "0000000000000005\r\nhello\r\n"),      -EBADMSG, NULL,          0},
	{TEXT("quoted extension",      "5;a=\"\r\n\"\r\nhello\r\n"),          -EBADMSG, NULL,          0},
	{TEXT("LF in an extension",    "5;a\nb\r\nhello\r\n"),                -EBADMSG, NULL,          0},
	{TEXT("CR in an extension",    "5;a\rb\r\nhello\r\n"),                -EBADMSG, NULL,          0},
	{TEXT("NUL in an extension",   "5;\0\r\nhello\r\n"),                  -EBADMSG, NULL,          0},
	{TEXT("bare LF ends trailers", "0\r\n\n"),                            -EBADMSG, NULL,          0},
	{TEXT("folded trailer",        "0\r\nX: y\r\n z\r\n\r\n"),            -EBADMSG, NULL,          0},
};

static void chunks_in_any_pieces(void)
{
	struct http_head h = {.body = BODY_CHUNKED};

	for (size_t i = 0; i < ARRAY_LEN(chunked); i++) {
		int wrong = 0;

		for (size_t step = 1; step <= chunked[i].in.n; step++) {
			cleanup_buf struct buf out = BUF_INIT(4096);
			size_t rest = 0;
			int r = read_body(chunked[i].in.p, chunked[i].in.n, &h, step,
					  &out, &rest);

			wrong += r != chunked[i].result;
			if (r >= 0)
				wrong += rest != chunked[i].rest ||
					 out.len != strlen(chunked[i].content) ||
					 memcmp(out.data ? out.data : "",
						chunked[i].content, out.len) != 0;
		}
		OK(wrong == 0, "chunked: %s", chunked[i].in.what);
	}
}

static void chunk_lines_are_bounded(void)
{
	struct http_head h = {.body = BODY_CHUNKED};
	static char big[70000];
	size_t rest;

	for (int trailer = 0; trailer < 2; trailer++) {
		cleanup_buf struct buf out = BUF_INIT(4096);

		memset(big, 'a', sizeof(big));
		memcpy(big, trailer ? "0\r\n" : "5;a", 3);
		OK(read_body(big, sizeof(big), &h, 4096, &out, &rest) == -EBADMSG,
		   "an endless %s", trailer ? "trailer" : "extension");
	}
}

static void other_bodies(void)
{
	struct http_head length = {.body = BODY_LENGTH, .length = 5};
	struct http_head none = {.body = BODY_NONE}, close = {.body = BODY_CLOSE};
	cleanup_buf struct buf a = BUF_INIT(64), b = BUF_INIT(64), c = BUF_INIT(64);
	size_t rest = 0;

	OK(read_body("helloGET", 8, &length, 2, &a, &rest) == 1 && rest == 3 &&
		   a.len == 5,
	   "a length ends where it says");
	OK(read_body("GET", 3, &none, 2, &b, &rest) == 1 && rest == 3 && !b.len,
	   "no body, no bytes");
	OK(read_body("hello", 5, &close, 2, &c, &rest) == 0 && c.len == 5 && !rest,
	   "until the end never ends");
}

static void chunks_are_written(void)
{
	struct http_head h = {.body = BODY_CHUNKED}, length = {.body = BODY_LENGTH};
	cleanup_buf struct buf out = BUF_INIT(256), plain = BUF_INIT(256);

	http_write_chunk(&h, "hello, world, here", 18, &out);
	http_write_chunk(&h, "", 0, &out);
	http_write_end(&h, &out);
	OK(strcmp(out.data, "12\r\nhello, world, here\r\n0\r\n\r\n") == 0,
	   "a chunk, the end");
	http_write_chunk(&length, "hello", 5, &plain);
	http_write_end(&length, &plain);
	OK(strcmp(plain.data, "hello") == 0, "a length needs no framing");
}

static const struct {
	const char *target, *strict, *lenient; /* lenient NULL: refused */
} paths[] = {
	{"/",		"/",                "/"               },
	{"*",		"*",                "*"               },
	{"/a/b?c=../d",      "/a/b",             "/a/b"            },
	{"/a%20b",           "/a b",             "/a b"            },
	{"/%61dmin",         "/admin",           "/admin"          },
	{"/@s%2fname",       "/@s%2Fname",       "/@s/name"        },
	{"/a%252Fb",         "/a%2Fb",           "/a%2Fb"          },
	{"//a///b/",         "//a///b/",         "/a/b/"           },
	{"/a;x=1/b;y",       "/a;x=1/b;y",       "/a/b"            },
	{"/a\\b",            "/a\\b",            "/a/b"            },
	{"/a%5cb",           "/a\\b",            "/a/b"            },
	{"/a..b/.c/..d/e..", "/a..b/.c/..d/e..", "/a..b/.c/..d/e.."},
	{"/...",             "/...",             "/..."            },
	{"/a/../b",          "/a/../b",          NULL              },
	{"/a/./b",           "/a/./b",           NULL              },
	{"/..",              "/..",              NULL              },
	{"/a/.",             "/a/.",             NULL              },
	{"/a/%2e%2e/b",      "/a/../b",          NULL              },
	{"/a%2f..%2fb",      "/a%2F..%2Fb",      NULL              },
	{"/a/..;/b",         "/a/..;/b",         NULL              },
	{"/a/..\\b",         "/a/..\\b",         NULL              },
	{"/a%00b",           NULL,               NULL              },
	{"/a%0d%0ab",        NULL,               NULL              },
	{"/a%7f",            NULL,               NULL              },
	{"/a%",              NULL,               NULL              },
	{"/a%2",             NULL,               NULL              },
	{"/a%zz",            NULL,               NULL              },
};

static bool path_is(const char *target, enum http_path_reading how, const char *want)
{
	char out[256];
	int r = http_path(target, how, out, sizeof(out));

	return want ? r == 0 && strcmp(out, want) == 0 : r == -EBADMSG;
}

static void paths_have_two_readings(void)
{
	char out[4];

	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		OK(path_is(paths[i].target, PATH_STRICT, paths[i].strict) &&
			   path_is(paths[i].target, PATH_LENIENT, paths[i].lenient),
		   "path %s", paths[i].target);
	OK(http_path("/abcd", PATH_STRICT, out, sizeof(out)) == -EMSGSIZE, "no room");
}

int main(void)
{
	attacks_are_refused();
	bad_answers_are_refused();
	heads_are_bounded();
	requests_are_written_anew();
	answers_are_written_anew();
	any_split_asks_for_more();
	fields_cannot_break_the_head();
	chunks_in_any_pieces();
	chunk_lines_are_bounded();
	other_bodies();
	chunks_are_written();
	paths_have_two_readings();
	return tap_done();
}
