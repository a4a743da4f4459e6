/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views: a text with its escapes taken back to what they stand for, and where each byte
 * was. What is copied unchanged is one run, so a view costs little more than a copy; a
 * text without a single escape costs a search for the character that begins one.
 */
#include "egress/swap_impl.h"

#include <sodium/utils.h>

static int hex(unsigned char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The value of up to `max` digits at p; *ret_n: how many there are. */
static uint32_t number(const unsigned char *p, size_t n, size_t max, bool in_hex,
		       size_t *ret_n)
{
	uint32_t v = 0;
	size_t i = 0;

	for (; i < n && i < max; i++) {
		int d = hex(p[i]);

		if (d < 0 || (d > 9 && !in_hex))
			break;
		v = v * (in_hex ? 16 : 10) + (unsigned)d;
	}
	*ret_n = i;
	return v;
}

static size_t utf8(uint32_t c, unsigned char out[4])
{
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};

	for (size_t i = n; i-- > 1; c >>= 6)
		out[i] = (unsigned char)(0x80 | (c & 0x3f));
	out[0] = (unsigned char)(lead[n] | c);
	return n;
}

/* ---- readers: what stands at p --------------------------------------------------- */
/* The length of an escape, and what it stands for (*ret_n bytes); 0: none is there; -1:
 * the text ends inside something that may become one. */
typedef int (*reader)(const unsigned char *p, size_t n, unsigned char out[4],
		      size_t *ret_n);

static int read_percent(const unsigned char *p, size_t n, unsigned char out[4],
			size_t *ret_n)
{
	size_t digits;
	uint32_t v = number(p + 1, n - 1, 2, true, &digits);

	if (digits < 2)
		return n - 1 == digits ? -1 : 0;
	out[0] = (unsigned char)v;
	*ret_n = 1;
	return 3;
}

/* The second half of a pair, or 0; *ret_part: the text ends inside it. */
static uint32_t low_half(const unsigned char *p, size_t n, bool *ret_part)
{
	static const char pattern[] = "\\ud";
	size_t i = 0, digits;
	uint32_t v;

	while (i < n && i < 3 && (p[i] | (i ? 0x20 : 0)) == pattern[i])
		i++;
	v = i < 2 ? 0 : number(p + 2, n - 2, 4, true, &digits);
	*ret_part = i == n || (i == 3 && digits == n - 2 && digits < 4);
	return i == 3 && digits == 4 && v >= 0xdc00 && v < 0xe000 ? v : 0;
}

static int read_unicode(const unsigned char *p, size_t n, unsigned char out[4],
			size_t *ret_n)
{
	size_t digits;
	uint32_t v = number(p + 2, n - 2, 4, true, &digits), low = 0;
	bool part = false;

	if (digits < 4)
		return n - 2 == digits ? -1 : 0;
	if (v >= 0xd800 && v < 0xdc00) {
		low = low_half(p + 6, n - 6, &part);
		if (part)
			return -1;
		if (low)
			v = 0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00);
	}
	*ret_n = utf8(v, out);
	return low ? 12 : 6;
}

static int read_json(const unsigned char *p, size_t n, unsigned char out[4],
		     size_t *ret_n)
{
	static const char letter[] = "\"\\/'bfnrt", stands_for[] = "\"\\/'\b\f\n\r\t";
	const char *at;
	size_t digits;

	if (n < 2)
		return -1;
	if (p[1] == 'u')
		return read_unicode(p, n, out, ret_n);
	*ret_n = 1;
	if (p[1] == 'x') { /* JavaScript */
		out[0] = (unsigned char)number(p + 2, n - 2, 2, true, &digits);
		return digits == 2 ? 4 : n - 2 == digits ? -1 : 0;
	}
	at = p[1] ? strchr(letter, p[1]) : NULL;
	if (!at)
		return 0;
	out[0] = (unsigned char)stands_for[at - letter];
	return 2;
}

static int read_reference(const unsigned char *p, size_t n, unsigned char out[4],
			  size_t *ret_n)
{
	bool in_hex = n > 2 && (p[2] | 0x20) == 'x';
	size_t at = in_hex ? 3 : 2, digits;
	uint32_t v;

	if (n <= at)
		return -1;
	v = number(p + at, n - at, 7, in_hex, &digits);
	if (at + digits == n && digits < 7)
		return -1;
	if (!digits || at + digits == n || p[at + digits] != ';' || v > 0x10ffff)
		return 0;
	*ret_n = utf8(v, out);
	return (int)(at + digits + 1);
}

static int read_html(const unsigned char *p, size_t n, unsigned char out[4],
		     size_t *ret_n)
{
	static const struct {
		const char *text;
		unsigned char c;
	} names[] = {
		{"&amp;",  '&' },
		{"&lt;",   '<' },
		{"&gt;",   '>' },
		{"&quot;", '"' },
		{"&apos;", '\''}
        };
	bool part = n < 2;

	if (n >= 2 && p[1] == '#')
		return read_reference(p, n, out, ret_n);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		size_t len = strlen(names[i].text);

		if (memcmp(names[i].text, p, min_size(len, n)) != 0)
			continue;
		part |= n < len;
		if (part)
			continue;
		out[0] = names[i].c;
		*ret_n = 1;
		return (int)len;
	}
	return part ? -1 : 0;
}

static int read_space(const unsigned char *p, size_t n, unsigned char out[4],
		      size_t *ret_n)
{
	(void)p;
	(void)n;
	out[0] = ' ';
	*ret_n = 1;
	return 1;
}

static int read_form(const unsigned char *p, size_t n, unsigned char out[4],
		     size_t *ret_n)
{
	return *p == '+' ? read_space(p, n, out, ret_n) : read_percent(p, n, out, ret_n);
}

/* Escapes that nobody needs: %41 and \u0041, for what a placeholder can have. */
static int read_mark(const unsigned char *p, size_t n, unsigned char out[4],
		     size_t *ret_n)
{
	int len;

	if (p[0] == '\\' && n >= 2 && p[1] == '\\') { /* does not escape what follows */
		memcpy(out, p, 2);
		*ret_n = 2;
		return 2;
	}
	if (p[0] == '\\' && n >= 2 && p[1] != 'u')
		return 0;
	len = p[0] == '%' ? read_percent(p, n, out, ret_n) : read_json(p, n, out, ret_n);
	if (len > 0 && (*ret_n != 1 || !swap_is_mark(out[0])))
		return 0;
	return len;
}

static const struct {
	char begins[3];
	reader read;
} codes[] = {
	[SWAP_CODE_MARKS] = {"%\\", read_mark   },
          [SWAP_CODE_PERCENT] = {"%",   read_percent},
	[SWAP_CODE_JSON] = {"\\",  read_json   },
          [SWAP_CODE_HTML] = {"&",   read_html   },
	[SWAP_CODE_FORM] = {"%+",  read_form   },
};

/* ---- building ---------------------------------------------------------------------- */
static const unsigned char *first_of(const unsigned char *p, size_t n, const char *set)
{
	const unsigned char *a = n ? memchr(p, set[0], n) : NULL, *b;

	if (!set[1] || a == p)
		return a;
	b = n ? memchr(p, set[1], a ? (size_t)(a - p) : n) : NULL;
	return b ? b : a;
}

static int add_run(struct swap_view *v, size_t at, size_t place)
{
	if (v->n_runs == v->room) {
		size_t room = v->room ? v->room * 2 : 64;
		struct swap_run *more = realloc(v->run, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		v->run = more;
		v->room = room;
	}
	if (v->n_runs && v->run[v->n_runs - 1].at == at) /* nothing was in it */
		v->n_runs--;
	v->run[v->n_runs++] = (struct swap_run){(uint32_t)at, (uint32_t)place};
	return 0;
}

/* One escape of `len` bytes at `place` becomes out[0..k). */
static int add_escape(struct swap_view *v, size_t place, size_t len,
		      const unsigned char *out, size_t k)
{
	int r = 0;

	for (size_t i = 0; i < k && r == 0; i++) {
		r = add_run(v, v->n, place);
		v->own[v->n++] = out[i];
	}
	return r < 0 ? r : add_run(v, v->n, place + len);
}

static int copy_run(struct swap_view *v, const unsigned char *p, size_t n)
{
	if (!v->own) {
		v->own = malloc(v->size);
		if (!v->own || add_run(v, 0, 0) < 0)
			return -ENOMEM;
	}
	memcpy(v->own + v->n, p, n);
	v->n += n;
	return 0;
}

static int build(struct swap_view *v, enum swap_code code, const unsigned char *p,
		 size_t n, bool last)
{
	reader read = codes[code].read;
	size_t from = 0, at = 0; /* [from, at) is to be copied */
	const unsigned char *e;
	int r = 0;

	v->cut = n;
	while (r == 0 && (e = first_of(p + at, n - at, codes[code].begins))) {
		unsigned char out[4] = {0};
		size_t k = 0;
		int len;

		at = (size_t)(e - p);
		len = read(e, n - at, out, &k);
		if (len < 0 && !last) {
			v->cut = at;
			break;
		}
		if (len <= 0) {
			at++;
			continue;
		}
		r = copy_run(v, p + from, at - from);
		if (r == 0)
			r = add_escape(v, at, (size_t)len, out, k);
		from = at += (size_t)len;
	}
	if (r == 0 && v->own)
		r = copy_run(v, p + from, v->cut - from);
	return r;
}

int swap_view(struct swap_view *v, enum swap_code code, const struct swap_view *of,
	      const unsigned char *p, size_t n, bool last)
{
	int r;

	*v = (struct swap_view){.of = of, .size = n + 1};
	if (n >= UINT32_MAX)
		return -E2BIG;
	r = build(v, code, p, n, last);
	if (r < 0) {
		swap_view_clear(v);
		return r;
	}
	v->p = v->own ? v->own : p;
	v->n = v->own ? v->n : v->cut;
	return v->own || v->cut < n;
}

void swap_view_clear(struct swap_view *v)
{
	if (v->own)
		sodium_memzero(v->own, v->n);
	free(v->own);
	free(v->run);
	*v = (struct swap_view){0};
}

size_t swap_place(const struct swap_view *v, size_t at)
{
	size_t low = 0, high = v->n_runs;

	while (high - low > 1) {
		size_t mid = (low + high) / 2;

		if (v->run[mid].at <= at)
			low = mid;
		else
			high = mid;
	}
	if (v->n_runs)
		at = v->run[low].place + (at - v->run[low].at);
	return v->of ? swap_place(v->of, at) : at;
}

size_t swap_floor(const struct swap_view *v, size_t place)
{
	size_t low = 0, high = v->n, at;

	while (low < high) { /* the last byte of the view that is not behind it */
		size_t mid = low + (high - low + 1) / 2;

		if (swap_place(v, mid) <= place)
			low = mid;
		else
			high = mid - 1;
	}
	at = swap_place(v, low);
	return low < v->n && swap_place(v, low + 1) - at > 1 ? at : place;
}
