/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate_name - names that could drive a terminal, deceive a reader or break a tool. Pure.
 */
#include "work/gate_impl.h"

#include <string.h>

/* Sequences by their first byte: how many bytes follow, and the least value that needs as
 * many. */
static const struct {
	unsigned char first, last, bits;
	int more;
	int32_t least;
} forms[] = {
	{0xc2, 0xdf, 0x1f, 1, 0x80   },
	{0xe0, 0xef, 0x0f, 2, 0x800  },
	{0xf0, 0xf4, 0x07, 3, 0x10000},
};

int32_t utf8_next(const unsigned char **p, const unsigned char *end)
{
	const unsigned char *s = (*p)++;
	int32_t c;

	if (*s < 0x80)
		return *s;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (*s < forms[i].first || *s > forms[i].last)
			continue;
		if (end - s <= forms[i].more)
			return -1;
		c = *s & forms[i].bits;
		for (int k = 1; k <= forms[i].more; k++) {
			if ((s[k] & 0xc0) != 0x80)
				return -1;
			c = (int32_t)((uint32_t)c << 6 | (s[k] & 0x3f));
		}
		if (c < forms[i].least || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
			return -1;
		*p = s + forms[i].more + 1;
		return c;
	}
	return -1;
}

int gate_name_problem(const char *name, size_t n)
{
	const unsigned char *p = (const unsigned char *)name, *end = p + n;
	int worst = -1;

	if (n >= sizeof(STAGE_PREFIX) - 1 &&
	    memcmp(name, STAGE_PREFIX, sizeof(STAGE_PREFIX) - 1) == 0)
		return RULE_NAME_RESERVED;
	while (p < end) {
		int32_t c = utf8_next(&p, end);

		if (c >= 0 && (c < 0x20 || (c >= 0x7f && c < 0xa0)))
			return RULE_NAME_CONTROL;
		if (c < 0)
			worst = RULE_NAME_ENCODING;
		else if (c >= 0xa0 && worst < 0 && utf8_hidden((uint32_t)c))
			worst = RULE_NAME_INVISIBLE;
	}
	return worst;
}

int gate_path_problem(const char *path, size_t source_len)
{
	size_t depth = 0, len = strlen(path);

	if (len == 0 || strcmp(path, ".") == 0)
		return RULE_MOUNT_ROOT;
	for (const char *p = path;; p++) {
		size_t n = strcspn(p, "/");

		if (n == 0 || (n == 1 && p[0] == '.') ||
		    (n == 2 && p[0] == '.' && p[1] == '.'))
			return RULE_PATH_OUTSIDE;
		if (n > GATE_NAME_MAX)
			return RULE_NAME_TOO_LONG;
		if (++depth > GATE_DEPTH_MAX)
			return RULE_PATH_TOO_DEEP;
		p += n;
		if (*p == '\0')
			break;
	}
	return source_len + 1 + len > GATE_PATH_MAX ? RULE_PATH_TOO_LONG : -1;
}
