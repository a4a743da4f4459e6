/* SPDX-License-Identifier: Apache-2.0 */
#include "scan/exact.h"

#include "base/buf.h"
#include "base/util.h"
#include "scan/literals.h"

#include <ctype.h>

#define FORM_MAX (8u * EXACT_MAX_LEN)

struct form {
	char *text;
	size_t len, value;
	const char *name;
};

struct exact {
	struct form *form;
	size_t n, cap;
	struct literals *plain, *spread;
	char *squeezed; /* letters and digits of the text at hand */
	size_t squeezed_cap;
};

/* ---- forms ------------------------------------------------------------------------ */

static int add_form(struct exact *e, const char *name, size_t value, const char *text,
		    size_t len)
{
	struct form f = {NULL, len, value, name};

	for (size_t i = 0; i < e->n; i++)
		if (e->form[i].len == len && memcmp(e->form[i].text, text, len) == 0)
			return 0; /* URL-encoded and plain are often the same */
	if (e->n == e->cap) {
		size_t cap = e->cap ? 2 * e->cap : 16;
		struct form *v = reallocarray(e->form, cap, sizeof(*v));

		if (!v)
			return -ENOMEM;
		e->form = v;
		e->cap = cap;
	}
	f.text = malloc(len + 1);
	if (!f.text)
		return -ENOMEM;
	memcpy(f.text, text, len);
	f.text[len] = '\0';
	e->form[e->n++] = f;
	return 0;
}

/* The characters of base64 that `skip` unknown bytes in front do not touch. */
static int add_base64(struct exact *e, size_t value, const unsigned char *v, size_t len,
		      size_t skip, const char *tail)
{
	static const char common[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
	cleanup_buf struct buf b = BUF_INIT(FORM_MAX);
	size_t first = (8 * skip + 5) / 6, last = 8 * (skip + len) / 6;
	int r = 0;

	for (size_t i = first; r == 0 && i < last; i++) {
		size_t bit = 6 * i - 8 * skip, byte = bit / 8;
		unsigned pair =
			(unsigned)v[byte] << 8 | (byte + 1 < len ? v[byte + 1] : 0u);
		unsigned six = pair >> (10 - bit % 8) & 63;

		r = buf_append(&b, six < 62 ? &common[six] : &tail[six - 62], 1);
	}
	return r == 0 && b.len ? add_form(e, "base64", value, b.data, b.len) : r;
}

static int add_hex(struct exact *e, size_t value, const unsigned char *v, size_t len,
		   const char *digits)
{
	cleanup_buf struct buf b = BUF_INIT(FORM_MAX);
	int r = 0;

	for (size_t i = 0; r == 0 && i < len; i++) {
		char pair[2] = {digits[v[i] >> 4], digits[v[i] & 15]};

		r = buf_append(&b, pair, 2);
	}
	return r == 0 ? add_form(e, "hex", value, b.data, b.len) : r;
}

static int add_url(struct exact *e, size_t value, const unsigned char *v, size_t len,
		   bool upper, bool form)
{
	cleanup_buf struct buf b = BUF_INIT(FORM_MAX);
	int r = 0;

	for (size_t i = 0; r == 0 && i < len; i++) {
		if (isalnum(v[i]) || strchr("-._~", v[i] ? v[i] : ' '))
			r = buf_append(&b, &v[i], 1);
		else if (form && v[i] == ' ')
			r = buf_puts(&b, "+");
		else
			r = buf_printf(&b, upper ? "%%%02X" : "%%%02x", v[i]);
	}
	return r == 0 ? add_form(e, "URL-encoded", value, b.data, b.len) : r;
}

/* A code point beyond ASCII from v, or 0 if there is no valid one; *n is its length. */
static unsigned rune(const unsigned char *v, size_t len, size_t *n)
{
	size_t want = v[0] >= 0xf0 ? 4 : v[0] >= 0xe0 ? 3 : 2;
	unsigned c = v[0] & (0x7fu >> want);

	if (v[0] < 0xc2 || want > len)
		return 0;
	for (size_t i = 1; i < want; i++) {
		if ((v[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (v[i] & 0x3f);
	}
	*n = want;
	return c;
}

enum { JSON_SLASH = 1, JSON_ASCII = 2, JSON_HTML = 4 };

static int json_char(struct buf *b, const unsigned char *v, size_t len, int how,
		     size_t *n)
{
	static const char from[] = "\b\t\n\f\r\"\\", to[] = "btnfr\"\\";
	const char *f = v[0] ? strchr(from, v[0]) : NULL;
	unsigned c;

	*n = 1;
	if (f)
		return buf_printf(b, "\\%c", to[f - from]);
	if (v[0] == '/' && (how & JSON_SLASH))
		return buf_puts(b, "\\/");
	if (v[0] < 0x20 || ((how & JSON_HTML) && strchr("<>&'", v[0])))
		return buf_printf(b, "\\u%04x", v[0]);
	if (v[0] < 0x80 || !(how & JSON_ASCII))
		return buf_append(b, v, 1);
	c = rune(v, len, n);
	if (!c)
		return buf_append(b, v, 1);
	if (c < 0x10000)
		return buf_printf(b, "\\u%04x", c);
	c -= 0x10000;
	return buf_printf(b, "\\u%04x\\u%04x", 0xd800 + (c >> 10), 0xdc00 + (c & 0x3ff));
}

static int add_json(struct exact *e, size_t value, const unsigned char *v, size_t len,
		    int how)
{
	cleanup_buf struct buf b = BUF_INIT(FORM_MAX);
	int r = 0;

	for (size_t i = 0, n; r == 0 && i < len; i += n)
		r = json_char(&b, v + i, len - i, how, &n);
	return r == 0 ? add_form(e, "JSON-escaped", value, b.data, b.len) : r;
}

static int add_value(struct exact *e, size_t value, const char *text, size_t len)
{
	const unsigned char *v = (const unsigned char *)text;
	int r;

	if (len < EXACT_MIN)
		return 0;
	r = add_form(e, "as it is", value, text, len);
	if (len < EXACT_ENCODED_MIN)
		return r;
	for (size_t skip = 0; r == 0 && skip < 3; skip++) {
		r = add_base64(e, value, v, len, skip, "+/");
		if (r == 0)
			r = add_base64(e, value, v, len, skip, "-_");
	}
	for (int i = 0; r == 0 && i < 2; i++)
		r = add_hex(e, value, v, len,
			    i ? "0123456789ABCDEF" : "0123456789abcdef");
	for (int i = 0; r == 0 && i < 4; i++)
		r = add_url(e, value, v, len, i & 1, i & 2);
	for (int how = 0; r == 0 && how < 8; how++)
		r = add_json(e, value, v, len, how);
	return r;
}

/* ---- tables ----------------------------------------------------------------------- */

static size_t squeeze(char *out, const char *text, size_t len)
{
	static unsigned char keep[256];
	size_t n = 0;

	if (!keep['a'])
		for (int i = 0; i < 256; i++)
			keep[i] = i < 0x80 && isalnum(i);
	for (size_t i = 0; i < len; i++) {
		out[n] = text[i];
		n += keep[(unsigned char)text[i]];
	}
	return n;
}

static int build(struct exact *e)
{
	cleanup_free const char **word = calloc(e->n, sizeof(*word));
	cleanup_free size_t *lens = calloc(e->n, sizeof(*lens));
	cleanup_free char *room = NULL;
	size_t sum = 0;
	char *at;

	for (size_t i = 0; i < e->n; i++)
		sum += e->form[i].len + 1;
	at = room = malloc(sum + 1);
	if (!word || !lens || !room)
		return -ENOMEM;
	for (size_t i = 0; i < e->n; i++) {
		word[i] = e->form[i].text;
		lens[i] = e->form[i].len;
	}
	e->plain = literals_new(word, lens, e->n, false);
	for (size_t i = 0; i < e->n; i++) {
		size_t n = squeeze(at, e->form[i].text, e->form[i].len);

		word[i] = at;
		lens[i] = n < EXACT_SPREAD_MIN ? 0 : n;
		at += n;
	}
	e->spread = literals_new(word, lens, e->n, false);
	return e->plain && e->spread ? 0 : -ENOMEM;
}

int exact_new(struct exact **ret, const char *const *values, const size_t *lens, size_t n)
{
	struct exact *e = calloc(1, sizeof(*e));
	int r = e ? 0 : -ENOMEM;

	if (n > EXACT_MAX_VALUES)
		r = -E2BIG;
	for (size_t i = 0; r == 0 && i < n; i++)
		r = lens[i] > EXACT_MAX_LEN ? -E2BIG
					    : add_value(e, i, values[i], lens[i]);
	if (r == 0 && e->n)
		r = build(e);
	if (r < 0 || !e->n) {
		exact_free(e);
		e = NULL;
	}
	if (r == 0)
		*ret = e;
	return r;
}

/* ---- search ----------------------------------------------------------------------- */

struct search {
	struct exact *e;
	const char *text;
	size_t len;
	size_t n_hits, from, squeezed_from; /* second pass: last place that was traced */
	void (*fn)(void *arg, const struct exact_hit *hit);
	void *arg;
};

#define HITS_MAX 100 /* of one text; what is found once is found */

static bool on_plain(void *arg, size_t index, size_t end)
{
	struct search *s = arg;
	const struct form *f = &s->e->form[index];
	struct exact_hit hit = {f->value, f->name, end - f->len, end};

	s->fn(s->arg, &hit);
	return ++s->n_hits < HITS_MAX;
}

/* Place `n` of the squeezed text in the text itself. Hits come in rising order. */
static size_t trace(struct search *s, size_t n)
{
	char one;

	if (n < s->squeezed_from)
		s->from = s->squeezed_from = 0;
	while (s->from < s->len) {
		bool keep = squeeze(&one, s->text + s->from, 1) != 0;

		if (keep && s->squeezed_from == n)
			break;
		s->squeezed_from += keep;
		s->from++;
	}
	return s->from;
}

static bool on_spread(void *arg, size_t index, size_t end)
{
	struct search *s = arg;
	const struct form *f = &s->e->form[index];
	size_t n = 0, start, last, from;
	char one;

	for (size_t i = 0; i < f->len; i++)
		n += squeeze(&one, f->text + i, 1);
	start = trace(s, end - n);
	last = trace(s, end - 1) + 1;
	/* In one piece the first pass has it already. */
	from = start - min_size(start, f->len);
	if (memmem(s->text + from, min_size(last + f->len, s->len) - from, f->text,
		   f->len))
		return true;
	s->fn(s->arg, &(struct exact_hit){f->value, "spread over the text", start, last});
	return ++s->n_hits < HITS_MAX;
}

int exact_find(struct exact *e, const char *text, size_t len,
	       void (*fn)(void *arg, const struct exact_hit *hit), void *arg)
{
	struct search s = {.e = e, .text = text, .len = len, .fn = fn, .arg = arg};
	size_t n;

	literals_find(e->plain, text, len, on_plain, &s);
	if (e->squeezed_cap < len) {
		char *more = realloc(e->squeezed, len);

		if (!more)
			return -ENOMEM;
		e->squeezed = more;
		e->squeezed_cap = len;
	}
	if (!len)
		return 0;
	n = squeeze(e->squeezed, text, len);
	s.n_hits = 0;
	literals_find(e->spread, e->squeezed, n, on_spread, &s);
	return 0;
}

void exact_free(struct exact *e)
{
	if (!e)
		return;
	for (size_t i = 0; i < e->n; i++)
		free(e->form[i].text);
	free(e->form);
	literals_free(e->plain);
	literals_free(e->spread);
	free(e->squeezed);
	free(e);
}
