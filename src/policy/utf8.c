/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/utf8.h"

#include <errno.h>

int utf8_get(const char *s, size_t n, uint32_t *ret)
{
	static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
	unsigned char b = (unsigned char)s[0];
	unsigned more = b < 0x80 ? 0 : b >= 0xf0 ? 3 : b >= 0xe0 ? 2 : 1;
	uint32_t c = more == 0 ? b : b & (0x3fu >> more);

	if ((b >= 0x80 && b < 0xc0) || b >= 0xf8 || n <= more)
		return -EINVAL;
	for (unsigned i = 1; i <= more; i++) {
		unsigned char next = (unsigned char)s[i];

		if ((next & 0xc0) != 0x80)
			return -EINVAL;
		c = c << 6 | (next & 0x3f);
	}
	if (c < least[more] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return -EINVAL;
	*ret = c;
	return (int)more + 1;
}

size_t utf8_put(uint32_t c, char out[4])
{
	static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	for (size_t i = n; i > 1; i--, c >>= 6)
		out[i - 1] = (char)(0x80 | (c & 0x3f));
	out[0] = (char)(lead[n] | c);
	return n;
}
