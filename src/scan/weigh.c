/* SPDX-License-Identifier: Apache-2.0 */
/* weigh - what a match of a rule is worth: its secret, entropy and allowlists. */
#include "scan/engine_impl.h"

#include "base/util.h"

#include <ctype.h>
#include <math.h>

#define SECRET_MAX 65536u

struct span {
	const char *text;
	size_t len;
};

/* In bits a character, over the length in bytes, as gitleaks computes it. Bytes of one
 * character beyond ASCII are counted apart, which only makes it higher. */
double shannon(const char *text, size_t len)
{
	size_t count[256] = {0};
	double sum = 0;

	for (size_t i = 0; i < len; i++)
		count[(unsigned char)text[i]]++;
	for (size_t i = 0; i < 256; i++)
		if (count[i]) {
			double share = (double)count[i] / (double)len;

			sum -= share * log2(share);
		}
	return sum;
}

static bool any_pattern(const struct patterns *p, const char *text, size_t len)
{
	for (size_t i = 0; i < p->n; i++)
		if (pattern_is_in(&p->v[i], text, len))
			return true;
	return false;
}

static bool meant_for(const struct allowlist *a, const struct rule *r)
{
	if (!a->rules.n)
		return true;
	for (size_t i = 0; r && i < a->rules.n; i++)
		if (strcmp(a->rules.v[i], r->id) == 0)
			return true;
	return false;
}

/* By its path alone. r NULL: for every rule. */
bool path_allowed(const struct allowlists *l, const struct rule *r, const char *path,
		  size_t len)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct allowlist *a = &l->v[i];

		if (!a->paths.n || !meant_for(a, r) || (!r && a->rules.n))
			continue;
		if (a->all && (a->regexes.n || a->stopwords.n))
			continue; /* the match has a word in it, too */
		if (any_pattern(&a->paths, path, len))
			return true;
	}
	return false;
}

static bool has_stopword(const struct words *w, struct span secret)
{
	char low[SECRET_MAX];
	size_t n = min_size(secret.len, sizeof(low));

	if (!w->n)
		return false;
	for (size_t i = 0; i < n; i++)
		low[i] = (char)tolower((unsigned char)secret.text[i]);
	for (size_t i = 0; i < w->n; i++)
		if (memmem(low, n, w->v[i], strlen(w->v[i])))
			return true;
	return false;
}

/* The lines that a match is on. */
static struct span lines_of(const struct view *v, struct span match)
{
	const char *from = match.text, *to = match.text + match.len;
	const char *end = v->text + v->len, *nl;

	nl = from > v->text ? memrchr(v->text, '\n', (size_t)(from - v->text)) : NULL;
	from = nl ? nl + 1 : v->text;
	nl = to < end ? memchr(to, '\n', (size_t)(end - to)) : NULL;
	to = nl ? nl : end;
	return (struct span){from, (size_t)(to - from)};
}

static bool list_allows(struct engine *e, const struct allowlist *a, struct span secret,
			struct span match)
{
	struct span t = secret;
	bool regex, stop = has_stopword(&a->stopwords, secret);

	if (a->target == TARGET_MATCH)
		t = match;
	else if (a->target == TARGET_LINE && a->regexes.n)
		t = lines_of(e->view, match);
	regex = any_pattern(&a->regexes, t.text, t.len);

	if (!a->all)
		return regex || stop;
	return (a->regexes.n || a->stopwords.n) && (!a->regexes.n || regex) &&
	       (!a->stopwords.n || stop) &&
	       (!a->paths.n || any_pattern(&a->paths, e->path, e->path_len));
}

static bool allowed(struct engine *e, const struct allowlists *l, const struct rule *r,
		    struct span secret, struct span match)
{
	for (size_t i = 0; i < l->n; i++)
		if (meant_for(&l->v[i], r) && list_allows(e, &l->v[i], secret, match))
			return true;
	return false;
}

/* The group that is the secret. The match is looked at again by itself, as gitleaks does:
 * what stands around it has no say in where the groups are. */
static bool pick_secret(struct rule *r, struct span match, struct span *ret)
{
	struct match m;

	*ret = match;
	if (!r->regex.re.groups ||
	    pattern_find(&r->regex, match.text, match.len, 0, SIZE_MAX, &m) != 1)
		return true;
	if (r->group) {
		if (r->group >= m.n || m.start[r->group] == SIZE_MAX) {
			ret->len = 0;
			return r->group < m.n;
		}
		*ret = (struct span){match.text + m.start[r->group],
				     m.end[r->group] - m.start[r->group]};
		return true;
	}
	for (uint32_t i = 1; i < m.n; i++)
		if (m.start[i] != SIZE_MAX && m.end[i] > m.start[i]) {
			*ret = (struct span){match.text + m.start[i],
					     m.end[i] - m.start[i]};
			break;
		}
	return true;
}

void engine_report(struct engine *e, const struct rule *rule, size_t start, size_t end)
{
	struct rule *r = &e->rules.rule[rule - e->rules.rule];
	const struct view *v = e->view;
	struct span match, secret;
	struct found f = {.rule = r->id, .what = r->what};

	while (start < end && v->text[start] == '\n')
		start++;
	while (end > start && v->text[end - 1] == '\n')
		end--;
	match = (struct span){v->text + start, end - start};
	secret = match;
	if (r->regex.source) {
		if (!pick_secret(r, match, &secret))
			return;
		if (r->entropy > 0 && shannon(secret.text, secret.len) <= r->entropy)
			return;
		if (allowed(e, &e->rules.allow, r, secret, match) ||
		    allowed(e, &r->allow, r, secret, match))
			return;
	}
	f.line = view_line(v, start);
	f.secret = secret.text;
	f.len = secret.len;
	e->fn(e->arg, &f);
}
