/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glob - see glob.h. Paths are hostile, so nothing here goes back: all places of the
 * pattern that the text so far may have led to are kept at once.
 */
#include "policy/glob.h"

#include "base/util.h"

/* How many stars begin here. */
static size_t stars(const char *s)
{
	return strspn(s, "*");
}

/* Marks place i, and what follows the stars there, as stars may stand for nothing. */
static void reach(bool *at, const char *pattern, size_t i)
{
	at[i] = true;
	if (pattern[i] == '*')
		at[i + stars(pattern + i)] = true;
}

/* All places after one more byte; false if there is none. */
static bool step(const char *pattern, size_t n, const bool *from, bool *to, char c)
{
	bool any = false;

	memset(to, 0, n + 1);
	for (size_t i = 0; i < n; i++) {
		if (!from[i])
			continue;
		if (pattern[i] == '*' && (c != '/' || stars(pattern + i) > 1))
			reach(to, pattern, i);
		else if (pattern[i] != '*' && pattern[i] == c)
			reach(to, pattern, i + 1);
		else
			continue;
		any = true;
	}
	return any;
}

bool glob_matches(const char *pattern, const char *path)
{
	bool places[2][GLOB_MAX + 1] = {0};
	size_t fixed = strcspn(pattern, "*"), n, k = 0;

	/* Most patterns are text, or end in their only stars. */
	if (strncmp(pattern, path, fixed) != 0)
		return false;
	pattern += fixed;
	path += fixed;
	if (!*pattern)
		return !*path;
	n = strlen(pattern);
	if (stars(pattern) == n)
		return n > 1 || !strchr(path, '/');
	if (n > GLOB_MAX)
		return false;
	reach(places[0], pattern, 0);
	for (; *path; path++, k ^= 1)
		if (!step(pattern, n, places[k], places[k ^ 1], *path))
			return false;
	return places[k][n];
}
