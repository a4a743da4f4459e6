/* SPDX-License-Identifier: Apache-2.0 */
/*
 * match - path patterns. Paths come from inside a sandbox, so there is no recursion: of
 * each kind of star only the last one is ever tried again, which is enough, because what
 * an earlier one could take instead the later one can take too.
 */
#include "work/change.h"

#include <string.h>

/* Where to go on after a mismatch. */
struct retry {
	const char *pattern; /* after the star; NULL: no such star yet */
	const char *path;    /* where what the star takes ends */
};

struct matcher {
	const char *p, *s;
	const char *begin, *end; /* of the pattern */
	struct retry star;       /* "*": takes one more byte, never a '/' */
	struct retry stars; /* "**": one more byte, or with by_part one more component */
	bool by_part;
};

/* [a-z], [!a-z]: is c in it? *end is set behind it; a '[' that is never closed is itself
 * and matched by the caller (*end NULL). */
static bool in_class(const char *p, unsigned char c, const char **end)
{
	bool negated = p[1] == '!' || p[1] == '^', in = false;
	const char *at = p + 1 + negated;

	*end = NULL;
	for (const char *first = at; *at && (*at != ']' || at == first); at++) {
		unsigned char lo, hi;

		if (*at == '\\' && at[1])
			at++;
		lo = hi = (unsigned char)*at;
		if (at[1] == '-' && at[2] && at[2] != ']') {
			at += 2;
			if (*at == '\\' && at[1])
				at++;
			hi = (unsigned char)*at;
		}
		in |= c >= lo && c <= hi;
	}
	if (*at)
		*end = at + 1;
	return in != negated;
}

/* One byte of the path against one element of the pattern that is no star. */
static bool step(struct matcher *m)
{
	const char *end;

	if (!*m->s)
		return false;
	if (*m->p == '[') {
		bool in = in_class(m->p, (unsigned char)*m->s, &end);

		if (end) {
			m->p = end;
			return in && *m->s++ != '/';
		}
	}
	if (*m->p == '?') {
		m->p++;
		return *m->s++ != '/';
	}
	if (*m->p == '\\' && m->p[1])
		m->p++;
	return *m->p++ == *m->s++;
}

static bool again(struct matcher *m)
{
	const char *next = m->stars.path;

	if (m->star.pattern && *m->star.path && *m->star.path != '/') {
		m->s = ++m->star.path;
		m->p = m->star.pattern;
		return true;
	}
	if (!m->stars.pattern)
		return false;
	if (m->by_part) {
		next = strchr(next, '/');
		if (!next)
			return false;
	} else if (!*next) {
		return false;
	}
	m->stars.path = m->s = next + 1;
	m->p = m->stars.pattern;
	m->star.pattern = NULL;
	return true;
}

/* At "**": of whole components ("**" and a slash at the start of one), or of bytes. */
static void take_stars(struct matcher *m)
{
	m->by_part = (m->p == m->begin || m->p[-1] == '/') && m->p + 2 < m->end &&
		     m->p[2] == '/';
	m->p += m->by_part ? 3 : 2;
	m->stars = (struct retry){m->p, m->s};
	m->star.pattern = NULL;
}

/* A match of a directory is one of what is in it: the pattern may end at any '/'. */
static bool run(struct matcher *m)
{
	for (;;) {
		bool ok;

		if (m->p >= m->end) {
			if (*m->s == '\0' || *m->s == '/')
				return true;
			ok = false;
		} else if (m->p[0] == '*' && m->p[1] == '*') {
			take_stars(m);
			continue;
		} else if (m->p[0] == '*') {
			m->star = (struct retry){++m->p, m->s};
			continue;
		} else {
			ok = step(m);
		}
		if (!ok && !again(m))
			return false;
	}
}

bool path_match(const char *pattern, const char *path)
{
	struct matcher m = {.s = path};
	size_t n = strlen(pattern);
	bool anchored;

	while (n && pattern[n - 1] == '/') /* "dir/": a type is not known here */
		n--;
	anchored = memchr(pattern, '/', n) != NULL;
	while (n && *pattern == '/')
		pattern++, n--;
	if (n == 0 || !*path)
		return false;
	m.p = m.begin = pattern;
	m.end = pattern + n;
	if (!anchored) { /* any component: as if it began with a "**" and a slash */
		m.stars = (struct retry){pattern, path};
		m.by_part = true;
	}
	return run(&m);
}
