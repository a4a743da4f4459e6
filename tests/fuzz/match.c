/* SPDX-License-Identifier: Apache-2.0 */
/* Input: a pattern, NUL, a path. Property: without classes and escapes, the answer is
 * that of a matcher which tries everything. */
#include "fuzz.h"
#include "work/change.h"

#define SMALL 48

static signed char known[SMALL + 1][SMALL + 1]; /* -1: not yet */
static const char *pat, *pat_end, *path;

static bool slow(const char *p, const char *s);

static bool slow_stars(const char *p, const char *s)
{
	if ((p == pat || p[-1] == '/') && p + 2 < pat_end && p[2] == '/') {
		for (; s; s = strchr(s, '/') ? strchr(s, '/') + 1 : NULL)
			if (slow(p + 3, s))
				return true;
		return false;
	}
	for (;; s++) {
		if (slow(p + 2, s))
			return true;
		if (!*s)
			return false;
	}
}

static bool try_all(const char *p, const char *s)
{
	if (p >= pat_end)
		return !*s || *s == '/';
	if (p[0] == '*' && p[1] == '*')
		return slow_stars(p, s);
	if (*p == '*')
		return slow(p + 1, s) || (*s && *s != '/' && slow(p, s + 1));
	return *s && (*p == '?' ? *s != '/' : *p == *s) && slow(p + 1, s + 1);
}

static bool slow(const char *p, const char *s)
{
	signed char *k = &known[p - pat][s - path];

	if (*k < 0)
		*k = try_all(p, s);
	return *k;
}

static bool expected(const char *pattern, const char *name)
{
	size_t n = strlen(pattern);
	bool anchored;

	while (n && pattern[n - 1] == '/')
		n--;
	anchored = memchr(pattern, '/', n) != NULL;
	while (n && *pattern == '/')
		pattern++, n--;
	if (!n || !*name)
		return false;
	memset(known, -1, sizeof(known));
	pat = pattern;
	pat_end = pattern + n;
	path = name;
	if (anchored)
		return slow(pattern, name);
	for (const char *s = name; s; s = strchr(s, '/') ? strchr(s, '/') + 1 : NULL)
		if (slow(pattern, s))
			return true;
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 2);
	const char *name;
	bool match;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = text[size + 1] = '\0';
	name = text + strlen(text) + 1;
	match = path_match(text, name);
	if (strlen(text) <= SMALL && strlen(name) <= SMALL && !strpbrk(text, "[\\") &&
	    match != expected(text, name))
		abort();
	free(text);
	return 0;
}
