/* SPDX-License-Identifier: Apache-2.0 */
/* text - which bytes may be in a file or a value at all. */
#include "spec/node.h"

#include <stdint.h>

/* Decodes one character of s (n bytes left, n > 0): its length, or 0 if it is not UTF-8.
 */
static size_t utf8_decode(const unsigned char *s, size_t n, uint32_t *ret)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t len = s[0] < 0x80   ? 1
		     : s[0] < 0xc0 ? 0
		     : s[0] < 0xe0 ? 2
		     : s[0] < 0xf0 ? 3
		     : s[0] < 0xf8 ? 4
				   : 0;
	uint32_t c = len == 1 ? s[0] : s[0] & (0xffu >> (len + 1));

	if (len == 0 || len > n)
		return 0;
	for (size_t i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3fu);
	}
	if (len > 1 && (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)))
		return 0;
	*ret = c;
	return len;
}

const char *text_problem(const char *text, size_t len, size_t *ret_at)
{
	const unsigned char *s = (const unsigned char *)text;

	for (size_t i = 0; i < len;) {
		uint32_t c = 0;
		size_t n =
			s[i] >= 0x20 && s[i] < 0x7f ? 1 : utf8_decode(s + i, len - i, &c);

		*ret_at = i;
		if (n == 0)
			return "invalid UTF-8";
		if (n == 1 && s[i] < 0x20 && s[i] != '\t' && s[i] != '\n' && s[i] != '\r')
			return s[i] ? "control character" : "NUL character";
		if (c >= 0x7f && c < 0xa0)
			return "control character";
		/* YAML would take the separators for line ends; the others are no
		 * characters. */
		if (c == 0x2028 || c == 0x2029 || c == 0xfeff || c == 0xfffe ||
		    c == 0xffff)
			return "Unicode control character";
		i += n;
	}
	return NULL;
}
