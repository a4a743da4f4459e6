/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http1_framing - the fields that say where a message ends and what is for this hop only.
 * They are never passed on: http1_write.c writes what they were understood to mean.
 */
#include "egress/http1_priv.h"

#include "base/util.h"

#include <strings.h>

const char *http_check_authority(char *text)
{
	static const char bad[] =
		"a Host that is not NAME, ADDRESS or either with a port";
	char *end = text;
	size_t digits;
	unsigned long port = 0;

	if (*text == '[') { /* an IPv6 address; what it means is not judged here */
		end = text + 1 + strspn(text + 1, "0123456789abcdefABCDEF:.");
		if (*end++ != ']')
			return bad;
	} else {
		while (http_chars[(unsigned char)*end] & CH_HOST)
			end++;
	}
	if (end == text || end - text > 255)
		return bad;
	if (*end == ':') {
		digits = strspn(end + 1, "0123456789");
		if (!digits || digits > 5 || end[1] == '0' || end[1 + digits])
			return bad;
		for (size_t i = 1; i <= digits; i++)
			port = port * 10 + (unsigned long)(end[i] - '0');
		if (port > 65535)
			return bad;
	} else if (*end) {
		return bad;
	}
	for (; *text; text++)
		if (*text >= 'A' && *text <= 'Z')
			*text = (char)(*text | 0x20);
	return NULL;
}

static const char *take_host(struct http_head *h, struct http_framing *f, char *value)
{
	if (f->hosts++)
		return "more than one Host";
	f->host = value;
	return h->request ? http_check_authority(value) : NULL;
}

static const char *take_length(struct http_head *h, struct http_framing *f, char *value)
{
	size_t n = strlen(value);

	if (f->lengths++)
		return "more than one Content-Length";
	if (!http_all(value, n, CH_DIGIT))
		return "a Content-Length that is not digits";
	if (n > 18 || (n > 1 && *value == '0'))
		return "a Content-Length out of range";
	h->length = 0;
	for (; *value; value++)
		h->length = h->length * 10 + (uint64_t)(*value - '0');
	h->has_length = true;
	return NULL;
}

static const char *take_coding(struct http_head *h, struct http_framing *f, char *value)
{
	(void)h;
	if (f->codings++)
		return "more than one Transfer-Encoding";
	if (strcasecmp(value, "chunked") != 0)
		return "a Transfer-Encoding that is not chunked";
	f->chunked = true;
	return NULL;
}

static const char *take_option(struct http_framing *f, char *token)
{
	if (!*token) /* an empty element of a list */
		return NULL;
	if (!http_all(token, strlen(token), CH_TOKEN))
		return "a Connection field that is no list of names";
	if (f->n_options == HTTP_OPTIONS_MAX)
		return "too many names in Connection";
	f->option[f->n_options++] = token;
	f->close |= strcasecmp(token, "close") == 0;
	f->persist |= strcasecmp(token, "keep-alive") == 0;
	f->upgrade |= strcasecmp(token, "upgrade") == 0;
	return NULL;
}

static const char *take_connection(struct http_head *h, struct http_framing *f,
				   char *value)
{
	const char *why = NULL;

	(void)h;
	while (value && !why) {
		char *comma = strchr(value, ',');
		char *end = comma ? comma : value + strlen(value);

		while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
			end--;
		*end = '\0';
		why = take_option(f, value + strspn(value, " \t"));
		value = comma ? comma + 1 : NULL;
	}
	return why;
}

static const char *take_upgrade(struct http_head *h, struct http_framing *f, char *value)
{
	(void)h;
	f->websocket |= strcasecmp(value, "websocket") == 0;
	return NULL;
}

static const char *take_expect(struct http_head *h, struct http_framing *f, char *value)
{
	(void)f;
	if (h->request && strcasecmp(value, "100-continue") != 0)
		return "an Expect that is not 100-continue";
	h->expect = h->request && !h->http10;
	return NULL;
}

static const char *drop(struct http_head *h, struct http_framing *f, char *value)
{
	(void)h;
	(void)f;
	(void)value;
	return NULL;
}

static const struct {
	const char *name;
	const char *(*take)(struct http_head *h, struct http_framing *f, char *value);
} hop[] = {
	{"Host",                take_host      },
	{"Content-Length",      take_length    },
	{"Transfer-Encoding",   take_coding    },
	{"Connection",          take_connection},
	{"Upgrade",             take_upgrade   },
	{"Expect",              take_expect    },
	{"Keep-Alive",          drop           },
	{"Close",               drop           }, /* our own "Connection: close" names it */
	{"TE",		  drop           },
	{"Trailer",             drop           },
	{"Proxy-Connection",    drop           },
	{"Proxy-Authenticate",  drop           },
	{"Proxy-Authorization", drop           },
	{"HTTP2-Settings",      drop           },
};

const char *http_framing_field(struct http_head *h, struct http_framing *f,
			       const char *name, char *value, bool *ret_taken)
{
	for (size_t i = 0; i < ARRAY_LEN(hop); i++) {
		if (strcasecmp(name, hop[i].name) != 0)
			continue;
		*ret_taken = true;
		return hop[i].take(h, f, value);
	}
	return NULL;
}

static void drop_named(struct http_head *h, const struct http_framing *f)
{
	size_t kept = 0;

	for (size_t i = 0; f->n_options && i < h->n_fields; i++) {
		bool named = false;

		for (size_t o = 0; o < f->n_options && !named; o++)
			named = strcasecmp(h->field[i].name, f->option[o]) == 0;
		if (!named)
			h->field[kept++] = h->field[i];
	}
	if (f->n_options)
		h->n_fields = kept;
}

static const char *settle_host(struct http_head *h, const struct http_framing *f)
{
	if (!f->hosts && (!h->http10 || h->authority))
		return "no Host";
	if (f->hosts && h->authority && strcmp(h->authority, f->host) != 0)
		return "the URL in the request line is not for Host";
	if (f->hosts)
		h->authority = f->host;
	return NULL;
}

static const char *settle_request(struct http_head *h, const struct http_framing *f)
{
	const char *why = settle_host(h, f);

	if (why)
		return why;
	h->body = f->chunked ? BODY_CHUNKED : f->lengths ? BODY_LENGTH : BODY_NONE;
	if (h->body != BODY_NONE && strcmp(h->method, "TRACE") == 0)
		return "TRACE with a body";
	h->expect = h->expect && h->body != BODY_NONE;
	h->upgrade = f->upgrade && f->websocket && h->body == BODY_NONE && !h->http10 &&
		     strcmp(h->method, "GET") == 0;
	return NULL;
}

static const char *settle_response(struct http_head *h, const struct http_framing *f,
				   const char *method)
{
	bool interim = h->status < 200 || h->status == 204;

	if (interim && (f->chunked || h->length))
		return "a body after a status that has none";
	if (interim)
		h->has_length = false;
	if (interim || h->status == 304 || strcmp(method, "HEAD") == 0)
		h->body = BODY_NONE;
	else
		h->body = f->chunked   ? BODY_CHUNKED
			  : f->lengths ? BODY_LENGTH
				       : BODY_CLOSE;
	h->upgrade = h->status == 101 && f->upgrade && f->websocket;
	if (h->body == BODY_CLOSE)
		h->keep_alive = false;
	return NULL;
}

const char *http_framing_settle(struct http_head *h, struct http_framing *f,
				const char *method)
{
	if (f->chunked && f->lengths)
		return "both Content-Length and Transfer-Encoding";
	if (f->chunked && h->http10)
		return "Transfer-Encoding in HTTP/1.0";
	h->keep_alive = !f->close && (!h->http10 || f->persist);
	drop_named(h, f);
	return h->request ? settle_request(h, f) : settle_response(h, f, method);
}
