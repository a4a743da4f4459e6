/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forms in which a value can come back in a response, but for escapes, which
 * swap_view.c takes back: as it is, in hexadecimal, and inside base64 at each of its
 * three alignments. Each is paired with the placeholder in the same writing and of the
 * same length, so a response keeps its Content-Length; a value that is shorter than its
 * placeholder becomes the placeholder's beginning.
 */
#include "egress/swap_impl.h"

static void put(struct swap_arena *a, unsigned char c)
{
	if (a->mem)
		a->mem[a->used] = c;
	a->used++;
}

unsigned char swap_stand_in(const struct swap_secret *s, size_t i)
{
	return s->placeholder[(s->lead + i) % s->n_placeholder];
}

/* ---- base64 ------------------------------------------------------------------------ */
char swap_base64_char(unsigned v, bool url)
{
	static const char alphabet[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

	if (v < 62)
		return alphabet[v];
	return v == 62 ? (url ? '-' : '+') : (url ? '_' : '/');
}

int swap_base64_value(unsigned char c, bool url)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == (url ? '-' : '+'))
		return 62;
	return c == (url ? '_' : '/') ? 63 : -1;
}

/* The sextet that begins at a bit of p. */
static unsigned sextet(const unsigned char *p, size_t n, size_t bit)
{
	unsigned v = (unsigned)p[bit / 8] << 8 | (bit / 8 + 1 < n ? p[bit / 8 + 1] : 0);

	return v >> (10 - bit % 8) & 63;
}

/* The characters that p alone decides when `align` bytes stand before it. */
size_t swap_base64(const unsigned char *p, size_t n, unsigned align, bool url,
		   struct swap_arena *a, unsigned *ret_tail_bits, uint8_t *ret_tail)
{
	size_t first = align == 0 ? 0 : align + 1, end = (align + n) * 8 / 6;
	unsigned left = (unsigned)((align + n) * 8 % 6);

	for (size_t j = first; j < end; j++)
		put(a, (unsigned char)swap_base64_char(sextet(p, n, j * 6 - align * 8),
						       url));
	*ret_tail_bits = left;
	*ret_tail = left ? (uint8_t)sextet(p, n, end * 6 - align * 8) : 0;
	return end - first;
}

static void form_base64(const struct swap_secret *s, unsigned align, bool url,
			struct swap_arena *a, struct swap_form *f)
{
	unsigned bits;

	f->from = a->mem ? a->mem + a->used : NULL;
	f->n = swap_base64(s->value + s->lead, s->core, align, url, a, &bits,
			   &f->tail_from);
	f->to = a->mem ? a->mem + a->used : NULL;
	f->tail_mask = (uint8_t)(((1u << bits) - 1) << (6 - bits));
	f->url = url;
	if (s->n_placeholder >= s->n) {
		swap_base64(s->placeholder + s->lead, s->core, align, url, a, &bits,
			    &f->tail_to);
		return;
	}
	for (size_t i = 0; i < f->n; i++)
		put(a, swap_stand_in(s, i));
}

/* ---- byte by byte ------------------------------------------------------------------ */
/* In hexadecimal with these digits; NULL: as it is. */
static size_t form_byte(unsigned char c, const char *digits, struct swap_arena *a)
{
	put(a, digits ? (unsigned char)digits[c >> 4] : c);
	if (digits)
		put(a, (unsigned char)digits[c & 15]);
	return digits ? 2 : 1;
}

static void form_bytes(const struct swap_secret *s, const char *digits,
		       struct swap_arena *a, struct swap_form *f)
{
	f->from = a->mem ? a->mem + a->used : NULL;
	for (size_t i = 0; i < s->core; i++)
		f->n += form_byte(s->value[s->lead + i], digits, a);
	f->to = a->mem ? a->mem + a->used : NULL;
	for (size_t i = 0; i < s->core; i++)
		form_byte(swap_stand_in(s, i), digits, a);
}

size_t swap_forms(const struct swap_secret *s, unsigned id, struct swap_arena *a,
		  struct swap_form *f)
{
	static const char *const digits[] = {NULL, "0123456789abcdef",
					     "0123456789ABCDEF"};
	struct swap_form none = {0};
	size_t count = 0;

	if (s->core < NEEDLE_MIN)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(digits) + SWAP_BASE64_SETS; i++, count++) {
		struct swap_form *to = f ? &f[count] : &none;
		unsigned k = (unsigned)(i - ARRAY_LEN(digits));

		*to = (struct swap_form){.secret = id};
		if (i < ARRAY_LEN(digits))
			form_bytes(s, digits[i], a, to);
		else
			form_base64(s, k % 3, k >= 3, a, to);
	}
	return count;
}
