/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate_rules - the gate's rules: the two tables (gate_rules.def, gate_paths.def, listed
 * in docs/gate.md too), and how a path is looked up in the second.
 */
#include "work/gate_impl.h"

#include "base/util.h"

#define HARD RULE_HARD
#define SOFT 0
const struct gate_rule gate_rules[N_GATE_RULES] = {
#define RULE(name_, id_, flags_, why_) [RULE_##name_] = {id_, flags_, why_},
#include "work/gate_rules.def"
#undef RULE
};

#define LEAF 0
#define TREE RULE_TREE
#define DATA (RULE_TREE | RULE_GROUP)
const struct gate_path gate_paths[] = {
#define FIXED(id_, path_, covers_, why_) {id_, path_, why_, (covers_) | RULE_MOUNT},
#define PATTERN(id_, path_, covers_, why_) {id_, path_, why_, covers_},
#include "work/gate_paths.def"
#undef FIXED
#undef PATTERN
	{0},
};

static const char *const fixed_paths[] = {
#define FIXED(id_, path_, covers_, why_) path_,
#define PATTERN(id_, path_, covers_, why_)
#include "work/gate_paths.def"
#undef FIXED
#undef PATTERN
	NULL,
};

const char *const *gate_fixed_paths(void)
{
	return fixed_paths;
}

/* ---- matching ------------------------------------------------------------------- */

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

/* name is folded; '*' matches any part of it. */
static bool glob_component(const char *pat, size_t pn, const char *name, size_t n)
{
	size_t p = 0, i = 0, star = pn, mark = 0;

	while (i < n) {
		if (p < pn && pat[p] == '*') {
			star = p++;
			mark = i;
		} else if (p < pn && lower(pat[p]) == name[i]) {
			p++;
			i++;
		} else if (star < pn) {
			p = star + 1;
			i = ++mark;
		} else {
			return false;
		}
	}
	while (p < pn && pat[p] == '*')
		p++;
	return p == pn;
}

/* Some file systems do not see dots and blanks at the end of a name, and take what
 * follows a colon for a part of the file. */
static size_t plain_length(const char *name, size_t n)
{
	size_t colon = 0;

	while (colon < n && name[colon] != ':')
		colon++;
	n = colon;
	while (n > 0 && (name[n - 1] == '.' || name[n - 1] == ' '))
		n--;
	return n;
}

/* Does the pattern match path from its beginning? */
static bool match_here(const struct gate_path *e, const char *path, bool partial)
{
	const char *pat = e->pattern;

	if (*pat != '*' && lower(*pat) != *path)
		return false; /* most of the table, at once */
	for (;;) {
		size_t pn = strcspn(pat, "/"), n = strcspn(path, "/");

		if (!glob_component(pat, pn, path, n) &&
		    !glob_component(pat, pn, path, plain_length(path, n)))
			return false;
		pat += pn;
		path += n;
		if (*pat == '\0')
			return *path == '\0' || (e->flags & RULE_TREE);
		if (*path == '\0')
			return partial;
		pat++;
		path++;
	}
}

/* Length of path up to and with its component number k. */
static size_t length_to(const char *path, size_t k)
{
	size_t at = strcspn(path, "/");

	while (k-- > 0 && path[at] == '/')
		at += 1 + strcspn(path + at + 1, "/");
	return at;
}

const struct gate_path *gate_path_match(const char *path, bool partial,
					size_t *ret_prefix)
{
	/* Fails closed: a path that cannot be folded counts as one that runs code. */
	static const struct gate_path unknown = {"unchecked", "", "out of memory", 0};
	cleanup_buf struct buf folded = BUF_INIT(1u << 20);
	size_t k = 0;

	*ret_prefix = strlen(path);
	if (gate_fold(&folded, path, strlen(path)) < 0)
		return &unknown;
	for (const char *p = folded.data; p; k++) {
		for (const struct gate_path *e = gate_paths; e->id; e++) {
			if (!match_here(e, p, partial))
				continue;
			*ret_prefix = length_to(path, k);
			return e;
		}
		p = strchr(p, '/');
		p = p ? p + 1 : NULL;
	}
	return NULL;
}

const char *gate_executing_path(const char *path, const char **ret_why)
{
	size_t prefix;
	const struct gate_path *e = gate_path_match(path, false, &prefix);

	if (e && ret_why)
		*ret_why = e->why;
	return e ? e->id : NULL;
}
