/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utf16 - text of two bytes a character, made readable for rules that are written in
 * ASCII. With a byte order mark, or when nearly every other byte is zero, the whole text
 * is converted; in anything else that has zeros, the runs of ASCII in it are.
 */
#include "scan/view.h"

#include "base/util.h"

#define RUN_MIN 8        /* characters; shorter ones are chance */
#define SAMPLE 4096u     /* bytes that decide what a text is */
#define SEPARATOR '\037' /* between two runs: in no class that a rule would use */

static int guess(const unsigned char *t, size_t len)
{
	size_t n = min_size(len, SAMPLE) & ~(size_t)1, zero[2] = {0, 0};

	if (len >= 2 && t[0] == 0xff && t[1] == 0xfe)
		return UTF16_LE;
	if (len >= 2 && t[0] == 0xfe && t[1] == 0xff)
		return UTF16_BE;
	for (size_t i = 0; i < n; i++)
		zero[i & 1] += t[i] == 0;
	if (zero[1] * 5 > n && zero[0] * 20 < n)
		return UTF16_LE;
	if (zero[0] * 5 > n && zero[1] * 20 < n)
		return UTF16_BE;
	return UTF16_NOT;
}

static size_t put(char *out, uint32_t c)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	/* A surrogate by itself is as good as any other: no rule has one. */
	out[0] = (char)(0xe0 | c >> 12);
	out[1] = (char)(0x80 | (c >> 6 & 0x3f));
	out[2] = (char)(0x80 | (c & 0x3f));
	return 3;
}

static size_t convert(char *out, const unsigned char *t, size_t len, int kind)
{
	size_t n = 0, hi = kind == UTF16_LE ? 1 : 0;

	for (size_t i = 0; i + 1 < len; i += 2)
		n += put(out + n, (uint32_t)t[i + hi] << 8 | t[i + 1 - hi]);
	return n;
}

static bool ascii(unsigned char c)
{
	return (c >= ' ' && c < 0x7f) || (c >= '\t' && c <= '\r');
}

/* Runs of c 0 c 0 ... (or 0 c 0 c: the same, shifted by one), at any offset. */
static size_t runs(char *out, const unsigned char *t, size_t len)
{
	size_t n = 0, i = 0;

	while (i + 1 < len) {
		const unsigned char *zero = memchr(t + i + 1, 0, len - i - 1);
		size_t at, end, count = 0;

		if (!zero)
			break;
		at = (size_t)(zero - t) - 1;
		for (end = at; end + 1 < len && ascii(t[end]) && t[end + 1] == 0;
		     end += 2)
			count++;
		if (end < len && count && ascii(t[end]) && end + 1 == len)
			count++;
		if (count >= RUN_MIN) {
			for (size_t j = 0; j < count; j++)
				out[n++] = (char)t[at + 2 * j];
			out[n++] = SEPARATOR;
		}
		i = end;
		if (!count) /* zeros in a row: there may be megabytes of them */
			for (i = at + 1; i < len && t[i] == 0; i++)
				;
	}
	return n;
}

int utf16_view(char **ret, size_t *ret_len, const char *text, size_t len, bool zeros,
	       int *kind)
{
	const unsigned char *t = (const unsigned char *)text;
	size_t n;
	char *out;

	if (*kind == UTF16_UNKNOWN)
		*kind = zeros || (len >= 2 && t[0] >= 0xfe) ? guess(t, len) : UTF16_NOT;
	if (*kind == UTF16_NOT && !zeros)
		return 0;
	out = malloc(len / 2 * 3 + 8);
	if (!out)
		return -ENOMEM;
	n = *kind == UTF16_NOT ? runs(out, t, len) : convert(out, t, len, *kind);
	if (!n) {
		free(out);
		return 0;
	}
	*ret = out;
	*ret_len = n;
	return 1;
}
