/* SPDX-License-Identifier: Apache-2.0 */
/* Escapes as a value needs them where it is put in, and those that a client leaves open
 * before it. */
#include "egress/swap_impl.h"

#include <stdio.h>

static bool is_alnum(unsigned char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* All of it is unreserved in URLs. */
bool swap_is_mark(unsigned char c)
{
	return is_alnum(c) || c == '-' || c == '_';
}

size_t swap_percent(unsigned char c, bool always, char out[6])
{
	static const char digits[] = "0123456789ABCDEF";

	if (!always && (swap_is_mark(c) || c == '.' || c == '~')) {
		out[0] = (char)c;
		return 1;
	}
	out[0] = '%';
	out[1] = digits[c >> 4];
	out[2] = digits[c & 15];
	return 3;
}

size_t swap_json(unsigned char c, bool always, char out[6])
{
	static const char digits[] = "0123456789abcdef";
	static const char special[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
	const char *s = c ? strchr(special, c) : NULL;

	if (c >= 0x80 || (!always && !s && c >= 0x20)) {
		out[0] = (char)c; /* UTF-8 stays what it is */
		return 1;
	}
	if (s && !always) {
		out[0] = '\\';
		out[1] = letter[s - special];
		return 2;
	}
	memcpy(out, "\\u00", 4);
	out[4] = digits[c >> 4];
	out[5] = digits[c & 15];
	return 6;
}

size_t swap_escape(enum swap_where where, unsigned char c, char out[6])
{
	switch (where) {
	case SWAP_TARGET:
	case SWAP_BODY_FORM:
		return swap_percent(c, false, out);
	case SWAP_BODY_JSON:
		return swap_json(c, false, out);
	case SWAP_HEADER:
	case SWAP_BODY_RAW:
		break;
	}
	out[0] = (char)c;
	return 1;
}

/* ---- what was begun ---------------------------------------------------------------- */
static bool is_hex(unsigned char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

static void step(struct swap_open *s, unsigned char c)
{
	if (c == '%')
		s->percent = 1;
	else
		s->percent = s->percent == 1 && is_hex(c) ? 2 : 0;
	if (s->slash == 1) /* \\ stands for itself, \u wants four digits, \x two */
		s->slash = c == 'u' ? 2 : c == 'x' ? 4 : 0;
	else if (s->slash && is_hex(c))
		s->slash = s->slash == 5 ? 0 : s->slash + 1;
	else
		s->slash = c == '\\';
}

void swap_open_step(struct swap_open *s, const unsigned char *p, size_t n)
{
	size_t at = n > SWAP_OPEN_BYTES ? n - SWAP_OPEN_BYTES : 0;

	while (at && p[at - 1] == '\\') /* how many there are decides */
		at--;
	if (at)
		*s = (struct swap_open){0};
	for (; at < n; at++)
		step(s, p[at]);
}
