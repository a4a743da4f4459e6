/* SPDX-License-Identifier: Apache-2.0 */
/* First bytes: which protocol, and which name does a ClientHello say? */
#include "egress/hello.h"

#include "tap.h"

#include <string.h>

struct bytes {
	uint8_t p[20000];
	size_t n;
};

static void put(struct bytes *b, unsigned v, size_t bytes)
{
	for (size_t i = bytes; i-- > 0;)
		b->p[b->n++] = (uint8_t)(v >> 8 * i);
}

static void put_text(struct bytes *b, const char *text, size_t n)
{
	memcpy(b->p + b->n, text, n);
	b->n += n;
}

static void put_ext(struct bytes *b, unsigned type, const struct bytes *body)
{
	put(b, type, 2);
	put(b, (unsigned)body->n, 2);
	put_text(b, (const char *)body->p, body->n);
}

static void put_sni(struct bytes *b, const char *name, size_t n)
{
	struct bytes x = {.n = 0};

	put(&x, (unsigned)n + 3, 2);
	put(&x, 0, 1);
	put(&x, (unsigned)n, 2);
	put_text(&x, name, n);
	put_ext(b, 0, &x);
}

/* A whole handshake message with these extensions. */
static void message(struct bytes *b, const struct bytes *extensions)
{
	struct bytes h = {.n = 0};

	put(&h, 0x0303, 2);
	h.n += 32;
	put(&h, 0, 1);
	put(&h, 2, 2);
	put(&h, 0x1301, 2);
	put(&h, 1, 1);
	put(&h, 0, 1);
	put(&h, (unsigned)extensions->n, 2);
	put_text(&h, (const char *)extensions->p, extensions->n);
	b->n = 0;
	put(b, 1, 1);
	put(b, (unsigned)h.n, 3);
	put_text(b, (const char *)h.p, h.n);
}

/* As records of at most `size` bytes. */
static void records(struct bytes *out, const struct bytes *m, size_t size)
{
	out->n = 0;
	for (size_t at = 0; at < m->n; at += size) {
		size_t part = m->n - at < size ? m->n - at : size;

		put(out, 0x160301, 3);
		put(out, (unsigned)part, 2);
		put_text(out, (const char *)m->p + at, part);
	}
}

static enum first_kind look_ext(const struct bytes *extensions, struct hello *h)
{
	static struct bytes m, r;

	message(&m, extensions);
	records(&r, &m, 16000);
	return first_look(r.p, r.n, h);
}

static enum first_kind look_name(const char *name, size_t n, struct hello *h)
{
	struct bytes x = {.n = 0};

	put_sni(&x, name, n);
	memset(h, 0, sizeof(*h));
	return look_ext(&x, h);
}

static void names(void)
{
	struct hello h;

	OK(look_name("api.example.com", 15, &h) == FIRST_TLS &&
		   strcmp(h.sni, "api.example.com") == 0 && h.has_sni && !h.bad_sni,
	   "a name");
	OK(look_name("API.Example.COM", 15, &h) == FIRST_TLS &&
		   strcmp(h.sni, "api.example.com") == 0,
	   "is normalised");
	OK(look_name("a\0b.example.com", 15, &h) == FIRST_TLS && h.bad_sni && !h.sni[0],
	   "a NUL in it is no name");
	OK(look_name("1.2.3.4", 7, &h) == FIRST_TLS && h.bad_sni,
	   "an address is no name");
	OK(look_name("", 0, &h) == FIRST_TLS && h.bad_sni, "nor is nothing");
}

static void extensions(void)
{
	struct bytes x = {.n = 0}, y = {.n = 0};
	struct hello h = {0};

	OK(look_ext(&x, &h) == FIRST_TLS && !h.has_sni, "no extensions: no name");
	put_sni(&x, "a.test", 6);
	put_sni(&x, "b.test", 6);
	OK(look_ext(&x, &h) == FIRST_BAD, "two server_name extensions are refused");
	x.n = 0;
	put(&y, 2 * 9, 2);
	for (int i = 0; i < 2; i++) {
		put(&y, 0, 1);
		put(&y, 6, 2);
		put_text(&y, "a.test", 6);
	}
	put_ext(&x, 0, &y);
	OK(look_ext(&x, &h) == FIRST_BAD, "two names in one are refused");
	x.n = y.n = 0;
	put_sni(&x, "a.test", 6);
	put(&y, 0, 1);
	put_ext(&x, 0xfe0d, &y);
	y.n = 0;
	put(&y, 6, 1);
	put(&y, 0x7a7a0304, 4);
	put(&y, 0x0303, 2);
	put_ext(&x, 43, &y);
	OK(look_ext(&x, &h) == FIRST_TLS && strcmp(h.sni, "a.test") == 0,
	   "other extensions, also an encrypted hello, are passed over");
	put(&x, 0, 1);
	OK(look_ext(&x, &h) == FIRST_BAD, "a stray byte behind them is refused");
}

static void pieces(void)
{
	static struct bytes x, m, r;
	struct hello h;
	bool all_more = true, all_same = true;

	put_sni(&x, "api.example.com", 15);
	message(&m, &x);
	records(&r, &m, 16000);
	for (size_t n = 0; n < r.n; n++)
		all_more &= first_look(r.p, n, &h) == FIRST_MORE;
	OK(all_more, "every prefix wants more");
	for (size_t size = 1; size < m.n; size += 3) {
		records(&r, &m, size);
		memset(&h, 0, sizeof(h));
		all_same &= first_look(r.p, r.n, &h) == FIRST_TLS &&
			    strcmp(h.sni, "api.example.com") == 0;
	}
	OK(all_same, "records of every size make the same hello");
	records(&r, &m, 16000);
	put_text(&r, "\x14\x03\x03\0\x01\x01", 6);
	OK(first_look(r.p, r.n, &h) == FIRST_TLS, "other records may follow");
	put(&m, 0x0e000000, 4);
	records(&r, &m, 16000);
	OK(first_look(r.p, r.n, &h) == FIRST_BAD, "no second message may hide in it");
	m.p[1] = 1; /* 64 KiB and more */
	records(&r, &m, 16000);
	OK(first_look(r.p, r.n, &h) == FIRST_BAD, "a huge one is refused at its head");
}

/* What a careless server could take for a request is one, however it is drawn out. */
static void long_gaps(void)
{
	static uint8_t p[20000];
	struct hello h;

	memset(p, ' ', sizeof(p));
	memcpy(p, "FOO", 3);
	OK(first_look(p, 100, &h) == FIRST_MORE, "a token and a gap want more");
	OK(first_look(p, sizeof(p), &h) == FIRST_HTTP, "but not for ever");
	memset(p, 'A', sizeof(p));
	OK(first_look(p, sizeof(p), &h) == FIRST_HTTP, "and neither does a token");
}

static void others(void)
{
	static const struct {
		const char *text;
		size_t n;
		enum first_kind want;
	} t[] = {
		{"GET / HTTP/1.1\r\n",         16, FIRST_HTTP },
		{"GET ",                       4,  FIRST_HTTP },
		{"GET",			3,  FIRST_MORE },
		{"\r\nGET / HTTP",             12, FIRST_HTTP },
		{"PROPFIND /dav HTTP",         18, FIRST_HTTP },
		{"get / HTTP/1.1",             14, FIRST_HTTP },
		{"X http://a/ HTTP",           16, FIRST_HTTP },
		{"X ht",                       4,  FIRST_MORE },
		{"CONNECT a:443",              13, FIRST_HTTP },
		{"PRI * HTTP/2.0",             14, FIRST_HTTP },
		{"EHLO mail.test\r\n",         16, FIRST_OTHER},
		{"SSH-2.0-OpenSSH_9.2\r\n",    21, FIRST_OTHER},
		{"SSH-2.0-",                   8,  FIRST_MORE },
		{"*1\r\n$4\r\nPING\r\n",       14, FIRST_OTHER},
		{"\0\0\0\x08\x04\xd2\x16\x2f", 8,  FIRST_OTHER},
		{"\x80\x2e\x01\x03\x01",       5,  FIRST_BAD  },
		{"\x80\x2e",                   2,  FIRST_MORE },
		{"\x80\x2e\x02",               3,  FIRST_OTHER},
		{"\x16\x03\x01\0\0",           5,  FIRST_BAD  },
		{"\x16\x03\x01\x40\x01",       5,  FIRST_BAD  },
		{"\x16\x03\x01\0\x05\x02",     6,  FIRST_BAD  },
		{"\x16\x05",                   2,  FIRST_MORE },
		{"\x16\x10",                   2,  FIRST_OTHER},
		{"\x16\x02\x01\0\x50\x01",     6,  FIRST_BAD  },
		{"\x16\x02\x01\0\x50\x07",     6,  FIRST_OTHER},
		{"\x15\x03\x01\0\x02\x01\x5a", 7,  FIRST_BAD  },
		{"\x14\x03\x01\0\x01\x01",     6,  FIRST_BAD  },
		{"\x18\x03\x01\0\x03\x01",     6,  FIRST_BAD  },
		{"\x15\x03\0\0\x17\0",         6,  FIRST_OTHER},
		{"\x16",                       1,  FIRST_MORE },
		{"",			   0,  FIRST_MORE },
		{"aaaaaaaaaaaaaaaaaaaaaaaa",   24, FIRST_MORE },
		{"aaaaaaaaaaaaaaaaaaaaaaa\n",  24, FIRST_OTHER},
		{"aaaaaaaaaaaaaaaaaaaaaa /",   24, FIRST_HTTP },
		{"  GET",                      5,  FIRST_MORE },
		{"  GET /",                    7,  FIRST_HTTP },
		{"\n\n\n\n\n\n\n\n\n",         9,  FIRST_HTTP },
		{"\r\n\r\n\0\r\nQUIT\n",       12, FIRST_HTTP },
		{"BREW  /",                    7,  FIRST_HTTP },
		{"BREW\v/",                    6,  FIRST_HTTP },
		{"GET\v/",                     5,  FIRST_HTTP },
		{"connect a:443",              13, FIRST_HTTP },
		{"PROXY TCP4 ",                11, FIRST_HTTP },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct hello h;

		OK(first_look((const uint8_t *)t[i].text, t[i].n, &h) == t[i].want,
		   "first bytes %zu are %d", i, t[i].want);
	}
}

int main(void)
{
	names();
	extensions();
	pieces();
	long_gaps();
	others();
	return tap_done();
}
