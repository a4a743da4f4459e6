/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text - escaping, widths, durations and the nearest word.
 *
 * What a sandbox wrote (process names, paths) must not drive the reader's terminal:
 * cli_escape() lets printable characters through and spells out everything else.
 */
#include "cli/cli.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>

/* Length of the UTF-8 sequence at s with its code point, or 0 if it is broken. */
static size_t utf8_next(const unsigned char *s, uint32_t *ret)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t len = s[0] < 0x80             ? 1
		     : (s[0] & 0xe0) == 0xc0 ? 2
		     : (s[0] & 0xf0) == 0xe0 ? 3
		     : (s[0] & 0xf8) == 0xf0 ? 4
					     : 0;
	uint32_t cp = len == 1 ? s[0] : len ? s[0] & (0x7fu >> len) : 0;

	for (size_t i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		cp = cp << 6 | (s[i] & 0x3f);
	}
	if (len == 0 || cp < least[len] || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
		return 0;
	*ret = cp;
	return len;
}

static bool harmless(uint32_t cp)
{
	static const struct {
		uint32_t first, last;
	} bad[] = {
		{0x00,   0x1f  }, /* C0 controls */
		{0x7f,   0x9f  }, /* delete, C1 controls */
		{0x200b, 0x200f}, /* invisible and direction marks */
		{0x2028, 0x202e}, /* separators, direction overrides */
		{0x2066, 0x2069}, /* direction isolates */
		{0xfeff, 0xfeff}, /* byte order mark */
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (cp >= bad[i].first && cp <= bad[i].last)
			return false;
	return true;
}

char *cli_escape(const char *s)
{
	const unsigned char *p = (const unsigned char *)s;
	char *out = malloc(strlen(s) * 4 + 1);
	size_t n = 0;

	if (!out)
		return NULL;
	while (*p) {
		uint32_t cp = 0;
		size_t len = utf8_next(p, &cp);

		if (len && harmless(cp)) {
			memcpy(out + n, p, len);
			n += len;
			p += len;
			continue;
		}
		for (size_t i = 0; i < (len ? len : 1); i++, p++)
			n += (size_t)snprintf(out + n, 5, "\\x%02x", *p);
	}
	out[n] = '\0';
	return out;
}

size_t cli_width(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

bool cli_colour(int fd)
{
	const char *off = getenv("NO_COLOR");
	const char *term = getenv("TERM");

	return (!off || !*off) && term && strcmp(term, "dumb") != 0 && isatty(fd);
}

/* Edits (insert, delete, replace, swap) from a to b; words are short. */
static size_t distance(const char *a, const char *b)
{
	enum { MAX = 40 };
	size_t n = strlen(a), m = strlen(b), row[3][MAX + 1];

	if (n > MAX || m > MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= m; j++)
		row[0][j] = j;
	for (size_t i = 1; i <= n; i++) {
		size_t *now = row[i % 3], *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];

		now[0] = i;
		for (size_t j = 1; j <= m; j++) {
			size_t best = up[j - 1] + (a[i - 1] != b[j - 1]);

			best = up[j] + 1 < best ? up[j] + 1 : best;
			best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
			    a[i - 2] == b[j - 1])
				best = up2[j - 2] + 1 < best ? up2[j - 2] + 1 : best;
			now[j] = best;
		}
	}
	return row[n % 3][m];
}

const char *cli_nearest(const char *word, const char *const *names, size_t n)
{
	size_t best = strlen(word) / 3 + 2; /* farther than this is no help */
	const char *found = NULL;

	for (size_t i = 0; i < n; i++) {
		size_t d = distance(word, names[i]);

		if (d < best && d < strlen(names[i])) {
			best = d;
			found = names[i];
		}
	}
	return found;
}

int cli_duration(const char *text, int64_t *ret_ms)
{
	static const struct {
		const char *suffix;
		int64_t ms;
	} units[] = {
		{"",   1000    },
                {"ms", 1       },
                {"s",  1000    },
		{"m",  60000   },
                {"h",  3600000 },
                {"d",  86400000},
	};
	char *end;
	long long value;

	if (*text < '0' || *text > '9')
		return -1;
	errno = 0;
	value = strtoll(text, &end, 10);
	for (size_t i = 0; i < ARRAY_LEN(units) && errno == 0; i++) {
		if (strcmp(end, units[i].suffix) != 0)
			continue;
		if (value > INT_MAX / units[i].ms)
			return -1;
		*ret_ms = value * units[i].ms;
		return 0;
	}
	return -1;
}
