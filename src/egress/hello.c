/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hello - TLS ClientHello and HTTP request lines, as far as the decision needs them.
 *
 * The reader is strict: what it does not understand is FIRST_BAD, so that no server
 * can find another name in the same bytes than we did. A ClientHello may be spread over
 * several records (RFC 8446, 5.1); they are put together before it is read.
 */
#include "egress/hello.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#define RECORD_HEAD 5
#define RECORD_BODY_MAX 16384
#define CLIENT_HELLO 1
#define METHOD_MAX 8192 /* bytes before a target; most servers take no more */
#define BLANK_MAX 8     /* before a request line; some servers skip any number */

enum { TYPE_CIPHERS = 20, TYPE_ALERT, TYPE_HANDSHAKE, TYPE_DATA, TYPE_HEARTBEAT };

#define EXT_SERVER_NAME 0

/* ---- a cursor that cannot leave its bytes --------------------------------------- */

struct cursor {
	const uint8_t *p;
	size_t n;
	bool bad;
};

static unsigned get(struct cursor *c, size_t bytes)
{
	unsigned v = 0;

	if (c->n < bytes) {
		c->bad = true;
		c->n = 0;
		return 0;
	}
	for (size_t i = 0; i < bytes; i++)
		v = v << 8 | c->p[i];
	c->p += bytes;
	c->n -= bytes;
	return v;
}

static struct cursor sub(struct cursor *c, size_t n)
{
	struct cursor s = {.p = c->p, .n = n};

	if (c->bad || c->n < n) {
		c->bad = true;
		c->n = 0;
		return (struct cursor){.bad = true};
	}
	c->p += n;
	c->n -= n;
	return s;
}

/* A vector whose length takes this many bytes. */
static struct cursor vec(struct cursor *c, size_t len_bytes)
{
	return sub(c, get(c, len_bytes));
}

/* ---- extensions ----------------------------------------------------------------- */

/* Exactly one name of type host_name (RFC 6066, 3): a list with two would leave the
 * choice to the server. */
static bool read_sni(struct cursor *x, struct hello *h)
{
	struct cursor list = vec(x, 2), name;
	unsigned type = get(&list, 1);

	name = vec(&list, 2);
	if (x->bad || x->n || list.bad || list.n || name.bad)
		return false;
	h->has_sni = true;
	if (type != 0 || host_normalise((const char *)name.p, name.n, h->sni) < 0) {
		h->bad_sni = true;
		h->sni[0] = '\0';
	}
	return true;
}

static bool read_extensions(struct cursor *all, struct hello *h)
{
	while (all->n) {
		unsigned type = get(all, 2);
		struct cursor x = vec(all, 2);

		if (all->bad)
			return false;
		if (type == EXT_SERVER_NAME && (h->has_sni || !read_sni(&x, h)))
			return false; /* twice, or malformed */
	}
	return true;
}

/* The body of a ClientHello. */
static bool read_hello(struct cursor c, struct hello *h)
{
	struct cursor session, suites, compression, extensions;
	unsigned version = get(&c, 2);

	sub(&c, 32); /* random */
	session = vec(&c, 1);
	suites = vec(&c, 2);
	compression = vec(&c, 1);
	if (c.bad || version >> 8 != 3 || session.n > 32 || suites.n < 2 ||
	    suites.n % 2 || !compression.n)
		return false;
	if (!c.n) /* TLS 1.2 and before may have no extensions at all */
		return true;
	extensions = vec(&c, 2);
	return !c.bad && !c.n && read_extensions(&extensions, h);
}

/* ---- records -------------------------------------------------------------------- */

/* As much of a record's head as there is must be right: nonsense does not wait. */
static bool head_is_good(const uint8_t *p, size_t n)
{
	size_t body = n < RECORD_HEAD ? 1 : (size_t)p[3] << 8 | p[4];

	return p[0] == TYPE_HANDSHAKE && (n < 2 || p[1] == 3) && (n < 3 || p[2] <= 4) &&
	       body > 0 && body <= RECORD_BODY_MAX;
}

/* Puts the handshake bytes of the records together. FIRST_TLS: text is one ClientHello of
 * *ret_n bytes, and nothing hides behind it in its last record. */
static enum first_kind gather(const uint8_t *p, size_t n, uint8_t text[HELLO_MAX],
			      size_t *ret_n)
{
	size_t have = 0, need = HELLO_MAX;

	while (n) {
		size_t body, part;

		if (!head_is_good(p, n))
			return FIRST_BAD;
		if (n < RECORD_HEAD)
			return FIRST_MORE;
		body = (size_t)p[3] << 8 | p[4];
		part = n - RECORD_HEAD < body ? n - RECORD_HEAD : body;
		if (have + part > need)
			return FIRST_BAD;
		memcpy(text + have, p + RECORD_HEAD, part);
		have += part;
		if (have >= 1 && text[0] != CLIENT_HELLO)
			return FIRST_BAD;
		if (have >= 4)
			need = 4 +
			       ((size_t)text[1] << 16 | (size_t)text[2] << 8 | text[3]);
		if (need > HELLO_MAX || have > need || (have == need && part < body))
			return FIRST_BAD;
		if (have == need) {
			*ret_n = need;
			return FIRST_TLS;
		}
		p += RECORD_HEAD + part;
		n -= RECORD_HEAD + part;
	}
	return FIRST_MORE;
}

static enum first_kind look_tls(const uint8_t *p, size_t n, struct hello *ret)
{
	uint8_t text[HELLO_MAX];
	size_t len = 0;
	enum first_kind k = gather(p, n, text, &len);

	if (k != FIRST_TLS)
		return k;
	return read_hello((struct cursor){.p = text + 4, .n = len - 4}, ret) ? FIRST_TLS
									     : FIRST_BAD;
}

/* ---- HTTP ----------------------------------------------------------------------- */

static bool is_token(uint8_t c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       (c >= '0' && c <= '9') || (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* Between words; some servers take more than a space. */
static bool is_gap(uint8_t c)
{
	return c && c <= ' ' && c != '\r' && c != '\n';
}

static bool is_blank(uint8_t c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* PROXY is no method: what comes behind it is meant for a server behind a balancer. */
static bool is_known(const uint8_t *p, size_t n)
{
	static const char *const methods[] = {"GET",    "HEAD",    "POST",  "PUT",
					      "DELETE", "OPTIONS", "PATCH", "TRACE",
					      "PRI",    "PROXY"};

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (strlen(methods[i]) == n && memcmp(methods[i], p, n) == 0)
			return true;
	return n == 7 && strncasecmp((const char *)p, "CONNECT", n) == 0;
}

/* How a target begins: '/', '*', a scheme. */
static enum first_kind look_target(const uint8_t *p, size_t n)
{
	static const char scheme[] = "http";
	size_t i;

	if (n && (p[0] == '/' || p[0] == '*'))
		return FIRST_HTTP;
	for (i = 0; i < n && i < strlen(scheme); i++)
		if ((p[i] | 0x20) != (uint8_t)scheme[i])
			return FIRST_OTHER;
	return i == strlen(scheme) ? FIRST_HTTP : FIRST_MORE;
}

/* A known method and a gap; or any token, a gap, and how a target begins: "EHLO name" and
 * "USER name" of other protocols are not that. In doubt it is HTTP, if a careless server
 * could take it for that: the strict reader (http1.h) refuses it then, and nothing gets
 * past the check of Host. */
static enum first_kind look_http(const uint8_t *p, size_t n)
{
	size_t blank = 0, m = 0;

	while (blank < n && is_blank(p[blank]))
		if (++blank > BLANK_MAX)
			return FIRST_HTTP;
	p += blank;
	n -= blank;
	while (m < n && is_token(p[m]))
		if (++m > METHOD_MAX)
			return FIRST_HTTP;
	if (m == n)
		return FIRST_MORE;
	if (!m || !is_gap(p[m]))
		return blank ? FIRST_HTTP : FIRST_OTHER;
	if (blank || is_known(p, m))
		return FIRST_HTTP;
	while (m < n && is_gap(p[m]))
		if (++m > METHOD_MAX)
			return FIRST_HTTP;
	return look_target(p + m, n - m);
}

/* Records that some servers skip before a ClientHello (a warning, a heartbeat), and those
 * of versions that never were: what comes in or behind them is not looked for, so they
 * are refused. */
static enum first_kind look_odd_record(const uint8_t *p, size_t n)
{
	size_t body;
	bool odd = false;

	if (n > 1 && p[1] > 0x0f)
		return FIRST_OTHER;
	if (n <= RECORD_HEAD)
		return FIRST_MORE;
	body = (size_t)p[3] << 8 | p[4];
	if (p[0] == TYPE_HANDSHAKE)
		odd = body && p[RECORD_HEAD] == CLIENT_HELLO;
	else if (p[0] == TYPE_HEARTBEAT)
		odd = p[RECORD_HEAD] == 1 || p[RECORD_HEAD] == 2;
	else
		odd = body <= 2;
	return odd ? FIRST_BAD : FIRST_OTHER;
}

/* The ClientHello of SSL 2.0, which some servers take for TLS: it cannot say a name. */
static enum first_kind look_sslv2(const uint8_t *p, size_t n)
{
	if (!(p[0] & 0x80) || (n > 2 && p[2] != CLIENT_HELLO) || (n > 3 && p[3] != 3))
		return FIRST_OTHER;
	return n > 3 ? FIRST_BAD : FIRST_MORE;
}

enum first_kind first_look(const uint8_t *p, size_t n, struct hello *ret)
{
	struct hello h = {0};
	enum first_kind k;

	if (!n)
		return FIRST_MORE;
	if (p[0] == TYPE_HANDSHAKE && (n == 1 || p[1] == 3)) {
		k = look_tls(p, n, &h);
		if (k == FIRST_TLS)
			*ret = h;
		return k;
	}
	if (p[0] >= TYPE_CIPHERS && p[0] <= TYPE_HEARTBEAT)
		return look_odd_record(p, n);
	k = look_sslv2(p, n);
	return k == FIRST_OTHER ? look_http(p, n) : k;
}
