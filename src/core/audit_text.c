/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit_text - records and heads as text. Pure: no system call.
 *
 * The frame of a record (seq, time, event in front, prev and hash behind) is written and
 * read here byte by byte, not as JSON: the hash is over exact bytes, and nothing that a
 * JSON reader would forgive may pass. A quote inside a JSON string is always escaped, so
 * no field can look like the end of the frame.
 */
#include "core/audit_impl.h"

#include "base/redact.h"
#include "base/util.h"

#include <inttypes.h>
#include <sodium/crypto_generichash.h>
#include <stdio.h>
#include <time.h>

#define SEQ_HEAD "{\"seq\":"
#define TIME_HEAD ",\"time\":\""
#define EVENT_HEAD "\",\"event\":\""
#define PREV_HEAD ",\"prev\":\""
#define HASH_HEAD ",\"hash\":\""
#define TIME_LEN 24 /* 2025-01-31T23:59:59.999Z */
#define HASH_TAIL (sizeof(HASH_HEAD) - 1 + AUDIT_HEX + 2)

/* ---- hashes ---------------------------------------------------------------------- */

static void to_hex(const unsigned char *in, size_t n, char *out)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		out[2 * i] = digits[in[i] >> 4];
		out[2 * i + 1] = digits[in[i] & 15];
	}
	out[2 * n] = '\0';
}

static bool is_hex(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!((s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'f')))
			return false;
	return true;
}

/* Of two pieces, so that no line has to be put together for it. */
static void keyed(const struct audit_key *k, const char *a, size_t na, const char *b,
		  size_t nb, char out[AUDIT_HEX + 1])
{
	crypto_generichash_state state;
	unsigned char sum[AUDIT_HEX / 2];

	crypto_generichash_init(&state, k->bytes, sizeof(k->bytes), sizeof(sum));
	crypto_generichash_update(&state, (const unsigned char *)a, na);
	crypto_generichash_update(&state, (const unsigned char *)b, nb);
	crypto_generichash_final(&state, sum, sizeof(sum));
	to_hex(sum, sizeof(sum), out);
}

void audit_key_id(struct audit_key *k)
{
	static const char what[] = "cove audit key";
	char hex[AUDIT_HEX + 1];

	keyed(k, what, sizeof(what) - 1, "", 0, hex);
	memcpy(k->id, hex, sizeof(k->id) - 1);
	k->id[sizeof(k->id) - 1] = '\0';
}

void audit_hash(const struct audit_key *k, const char *line, size_t n,
		char out[AUDIT_HEX + 1])
{
	keyed(k, line, n - HASH_TAIL, "}", 1, out);
}

/* ---- reading --------------------------------------------------------------------- */

struct cursor {
	const char *p;
	size_t n;
};

static bool skip(struct cursor *c, const char *text)
{
	size_t n = strlen(text);

	if (c->n < n || memcmp(c->p, text, n) != 0)
		return false;
	c->p += n;
	c->n -= n;
	return true;
}

/* A number as we write it: no sign, no leading zero, below 2^53. */
static bool number(struct cursor *c, uint64_t *ret)
{
	uint64_t v = 0;
	size_t i = 0;

	for (; i < c->n && i < 16 && c->p[i] >= '0' && c->p[i] <= '9'; i++)
		v = v * 10 + (uint64_t)(c->p[i] - '0');
	if (i == 0 || c->p[0] == '0' || v >= UINT64_C(1) << 53)
		return false;
	c->p += i;
	c->n -= i;
	*ret = v;
	return true;
}

static bool hex_field(struct cursor *c, char out[AUDIT_HEX + 1])
{
	if (c->n < AUDIT_HEX || !is_hex(c->p, AUDIT_HEX))
		return false;
	memcpy(out, c->p, AUDIT_HEX);
	out[AUDIT_HEX] = '\0';
	c->p += AUDIT_HEX;
	c->n -= AUDIT_HEX;
	return true;
}

static bool event_name(struct cursor *c, char *out, size_t size)
{
	size_t i = 0;

	while (i < c->n && i + 1 < size &&
	       (c->p[i] == '-' || (c->p[i] >= 'a' && c->p[i] <= 'z')))
		i++;
	memcpy(out, c->p, i);
	out[i] = '\0';
	c->p += i;
	c->n -= i;
	return i > 0;
}

static bool parse_front(struct cursor *c, struct audit_record *r)
{
	if (!skip(c, SEQ_HEAD) || !number(c, &r->seq) || !skip(c, TIME_HEAD) ||
	    c->n < TIME_LEN)
		return false;
	c->p += TIME_LEN;
	c->n -= TIME_LEN;
	return skip(c, EVENT_HEAD) && event_name(c, r->event, sizeof(r->event)) &&
	       skip(c, "\"");
}

/* prev is of two sizes; where it begins is found from the end. */
static bool parse_back(const struct cursor *all, struct audit_record *r)
{
	static const size_t sizes[] = {AUDIT_HEX, 0};

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		size_t len = sizeof(PREV_HEAD) - 1 + sizes[i] + 1 + HASH_TAIL;
		struct cursor c;

		if (all->n < len)
			continue;
		c = (struct cursor){all->p + all->n - len, len};
		r->prev[0] = '\0';
		if (skip(&c, PREV_HEAD) && (!sizes[i] || hex_field(&c, r->prev)) &&
		    skip(&c, "\"" HASH_HEAD) && hex_field(&c, r->hash) && skip(&c, "\"}"))
			return true;
	}
	return false;
}

int audit_parse(const char *line, size_t n, struct audit_record *ret)
{
	struct audit_record r;
	struct cursor c = {line, n};

	if (n > AUDIT_LINE_MAX || memchr(line, '\n', n) || !parse_front(&c, &r) ||
	    !parse_back(&c, &r))
		return -EBADMSG;
	*ret = r;
	return 0;
}

/* ---- writing --------------------------------------------------------------------- */

static void print_time(int64_t ns, char out[TIME_LEN + 1])
{
	time_t sec = (time_t)(ns / 1000000000);
	struct tm tm = {0};

	gmtime_r(&sec, &tm);
	snprintf(out, TIME_LEN + 1, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ",
		 (unsigned)(tm.tm_year + 1900) % 10000, (unsigned)(tm.tm_mon + 1) % 100,
		 (unsigned)tm.tm_mday % 100, (unsigned)tm.tm_hour % 100,
		 (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100,
		 (unsigned)(ns / 1000000 % 1000));
}

/* The members of fields as text, without the braces; NULL when out of memory. */
static char *members(json_t *fields)
{
	static const char *const frame[] = {"seq", "time", "event", "prev", "hash"};
	char *text;

	for (size_t i = 0; fields && i < ARRAY_LEN(frame); i++)
		json_object_del(fields, frame[i]);
	if (!fields || json_object_size(fields) == 0)
		return strdup("");
	/* ASCII only: the log itself can be looked at on any terminal. */
	text = json_dumps(fields,
			  JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(6));
	if (redact_string(&text) < 0) {
		free(text);
		return NULL;
	}
	if (text) {
		text[0] = ',';
		text[strlen(text) - 1] = '\0';
	}
	return text;
}

/* What a record that is too large is left with: its numbers and short texts. */
static void shrink(json_t *fields)
{
	const char *key;
	json_t *value;
	void *next;

	json_object_foreach_safe(
		fields, next, key,
		value) if (json_is_array(value) || json_is_object(value) ||
			   json_string_length(value) > 1024) json_object_del(fields, key);
	json_object_set_new(fields, "truncated", json_true());
}

/* The one control character that JSON does not ask to escape. */
static int put_printable(struct buf *out, const char *text)
{
	int r = 0;

	while (r == 0 && *text) {
		size_t n = strcspn(text, "\x7f");

		r = buf_append(out, text, n);
		text += n;
		if (r == 0 && *text) {
			r = buf_puts(out, "\\u007f");
			text++;
		}
	}
	return r;
}

int audit_print(struct buf *out, const struct audit_key *k, struct audit_record *r,
		int64_t time_ns, json_t *fields)
{
	char at[TIME_LEN + 1];
	cleanup_free char *text = members(fields);
	size_t start = out->len;
	int n;

	if (text && strlen(text) > AUDIT_LINE_MAX - 512) {
		free(text);
		shrink(fields);
		text = members(fields);
	}
	if (!text)
		return -ENOMEM;
	print_time(time_ns, at);
	n = buf_printf(out, SEQ_HEAD "%" PRIu64 TIME_HEAD "%s" EVENT_HEAD "%s\"", r->seq,
		       at, r->event);
	if (n == 0)
		n = put_printable(out, text);
	if (n == 0)
		n = buf_printf(out, PREV_HEAD "%s\"", r->prev);
	if (n < 0)
		return n;
	keyed(k, out->data + start, out->len - start, "}", 1, r->hash);
	return buf_printf(out, HASH_HEAD "%s\"}\n", r->hash);
}

/* ---- head ------------------------------------------------------------------------ */

#define KEY_HEAD "\",\"key\":\""
#define MAC_HEAD "\",\"mac\":\""

void audit_head_print(const struct audit_key *k, const struct audit_head *h, char *out)
{
	char mac[AUDIT_HEX + 1];
	int n = snprintf(out, AUDIT_SLOT,
			 SEQ_HEAD "%" PRIu64 HASH_HEAD "%s" KEY_HEAD "%s", h->seq,
			 h->hash, k->id);

	keyed(k, out, (size_t)n, "head", 4, mac);
	n += snprintf(out + n, AUDIT_SLOT - (size_t)n, MAC_HEAD "%s\"}", mac);
	memset(out + n, ' ', AUDIT_SLOT - (size_t)n);
	out[AUDIT_SLOT - 1] = '\n';
}

static bool parse_slot(const struct audit_key *k, const char *text, struct audit_head *h,
		       bool *foreign)
{
	struct cursor c = {text, AUDIT_SLOT};
	char mac[AUDIT_HEX + 1], want[AUDIT_HEX + 1];
	size_t id = sizeof(k->id) - 1, signed_len;

	if (!skip(&c, SEQ_HEAD) || !number(&c, &h->seq) || !skip(&c, HASH_HEAD) ||
	    !hex_field(&c, h->hash) || !skip(&c, KEY_HEAD) || c.n < id ||
	    !is_hex(c.p, id))
		return false;
	*foreign |= memcmp(c.p, k->id, id) != 0;
	c.p += id;
	c.n -= id;
	signed_len = (size_t)(c.p - text);
	if (!skip(&c, MAC_HEAD) || !hex_field(&c, mac) || !skip(&c, "\"}"))
		return false;
	keyed(k, text, signed_len, "head", 4, want);
	return memcmp(mac, want, AUDIT_HEX) == 0;
}

void audit_head_parse(const struct audit_key *k, const char *text, size_t n,
		      struct audit_head *ret)
{
	bool foreign = false;

	*ret = (struct audit_head){.seq = 0};
	for (size_t at = 0; at + AUDIT_SLOT <= n && at < 2 * AUDIT_SLOT;
	     at += AUDIT_SLOT) {
		struct audit_head h = {.seq = 0};

		if (parse_slot(k, text + at, &h, &foreign) && h.seq > ret->seq)
			*ret = h;
	}
	if (ret->seq)
		return;
	ret->foreign = foreign;
	ret->damaged = n > 0;
}

/* ---- foreign bytes --------------------------------------------------------------- */

/* Bytes of the UTF-8 character at s, 0 if it is none. NUL is none: it ends strings. */
static size_t utf8_len(const unsigned char *s, size_t n)
{
	static const uint32_t least[] = {0, 1, 0x80, 0x800, 0x10000};
	size_t len = s[0] < 0x80             ? 1
		     : (s[0] & 0xe0) == 0xc0 ? 2
		     : (s[0] & 0xf0) == 0xe0 ? 3
		     : (s[0] & 0xf8) == 0xf0 ? 4
					     : 0;
	uint32_t cp;

	if (len == 0 || len > n)
		return 0;
	cp = len == 1 ? s[0] : s[0] & (0x7fu >> len);
	for (size_t i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		cp = cp << 6 | (s[i] & 0x3f);
	}
	return cp < least[len] || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000) ? 0
										 : len;
}

json_t *audit_text(const char *s, size_t n, size_t max)
{
	cleanup_buf struct buf b = BUF_INIT(max * 4 + 16);
	const unsigned char *p = (const unsigned char *)s;
	size_t i = 0;
	int r = buf_puts(&b, "");

	while (r == 0 && i < n && b.len < max) {
		size_t len = utf8_len(p + i, n - i);

		r = len ? buf_append(&b, p + i, len) : buf_printf(&b, "\\x%02x", p[i]);
		i += len ? len : 1;
	}
	if (r == 0 && i < n)
		r = buf_puts(&b, "...");
	return r == 0 ? json_stringn(b.data, b.len) : NULL;
}
