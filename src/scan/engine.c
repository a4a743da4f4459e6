/* SPDX-License-Identifier: Apache-2.0 */
#include "scan/engine_impl.h"

#include "base/util.h"

#include <ctype.h>

#define DECODE_DEPTH 5 /* as gitleaks: base64 of base64 ... */
#define SLOW_ALL SIZE_MAX

/* ---- set-up ----------------------------------------------------------------------- */

/* Rules that only PCRE2 can take get machine code, and a way to be left out. */
static int open_slow(struct engine *e, const bool *taken, struct cove_error *err)
{
	cleanup_free const char **word = NULL;
	cleanup_free size_t *lens = NULL;
	size_t n = 0, words = 0;

	for (size_t i = 0; i < e->rules.n; i++)
		words += e->rules.rule[i].keywords.n;
	word = calloc(words + 1, sizeof(*word));
	lens = calloc(words + 1, sizeof(*lens));
	e->keyword_rule = calloc(words + 1, sizeof(*e->keyword_rule));
	e->always = calloc(e->rules.n + 1, sizeof(*e->always));
	if (!word || !lens || !e->keyword_rule || !e->always)
		return fail_nomem(err);
	for (size_t i = 0; i < e->rules.n; i++) {
		struct rule *r = &e->rules.rule[i];

		if (taken[i] || r->off || !r->regex.source)
			continue;
		r->regex.fast = true;
		if (pattern_compile(&r->regex, err) < 0)
			return wrap(err, "rule %s", r->id);
		if (!r->keywords.n)
			e->always[e->n_always++] = i;
		for (size_t j = 0; j < r->keywords.n; j++, n++) {
			word[n] = r->keywords.v[j];
			lens[n] = strlen(word[n]);
			e->keyword_rule[n] = i;
		}
	}
	if (!n)
		return 0;
	e->keywords = literals_new(word, lens, n, true);
	return e->keywords ? 0 : fail_nomem(err);
}

static int open_rules(struct engine *e, const struct engine_options *o,
		      struct cove_error *err)
{
	cleanup_free bool *taken = NULL;

	if (rules_load(&e->rules, o->rules, o->rules_len, built_in_rules,
		       strlen(built_in_rules), err) < 0)
		return err->code;
	taken = calloc(e->rules.n + 1, sizeof(*taken));
	e->state = calloc(e->rules.n + 1, sizeof(*e->state));
	if (!taken || !e->state)
		return fail_nomem(err);
	if (fast_open(e, taken, err) < 0)
		return err->code;
	return open_slow(e, taken, err);
}

int engine_new(struct engine **ret, const struct engine_options *o,
	       struct cove_error *err)
{
	struct engine *e = calloc(1, sizeof(*e));
	int r;

	if (!e)
		return fail_nomem(err);
	if (open_rules(e, o, err) < 0) {
		engine_free(e);
		return err->code;
	}
	r = exact_new(&e->exact, o->values, o->value_lens, o->n_values);
	if (r < 0) {
		engine_free(e);
		return fail(err, r == -E2BIG ? COVE_EINVAL : COVE_ENOMEM, -r,
			    "values of secrets");
	}
	*ret = e;
	return 0;
}

void engine_free(struct engine *e)
{
	if (!e)
		return;
	fast_close(e);
	rules_clear(&e->rules);
	literals_free(e->keywords);
	exact_free(e->exact);
	free(e->keyword_rule);
	free(e->always);
	free(e->state);
	free(e);
}

size_t engine_rules(const struct engine *e)
{
	size_t n = 0;

	for (size_t i = 0; i < e->rules.n; i++)
		n += !e->rules.rule[i].off;
	return n;
}

/* ---- one rule --------------------------------------------------------------------- */

static bool has_word(const char *t, size_t len, const char *word)
{
	size_t n = strlen(word);

	for (size_t i = 0; i + n <= len; i++)
		if (tolower((unsigned char)t[i]) == word[0] &&
		    strncasecmp(t + i, word, n) == 0)
			return true;
	return n == 0;
}

/* A view without keywords of its own still has those of the text it was made from. */
static bool has_keyword(const struct view *v, const struct words *w)
{
	for (; v; v = v->parent)
		for (size_t i = 0; i < w->n; i++)
			if (has_word(v->text, v->len, w->v[i]))
				return true;
	return false;
}

bool rule_wants_file(struct engine *e, size_t i)
{
	struct rule *r = &e->rules.rule[i];
	struct rule_state *s = &e->state[i];

	if (s->file != e->file) {
		s->file = e->file;
		s->not_here = r->off || e->path_allowed ||
			      (r->path.source &&
			       !pattern_is_in(&r->path, e->path, e->path_len)) ||
			      path_allowed(&r->allow, r, e->path, e->path_len) ||
			      path_allowed(&e->rules.allow, r, e->path, e->path_len);
	}
	return !s->not_here;
}

/* gitleaks looks for a keyword anywhere in the text. The built-in rules have theirs in
 * every match, so that they are asked for last. */
static bool keyword_missing(const struct engine *e, const struct rule *r, bool built_in)
{
	return (r->built_in >= 0) == built_in && r->keywords.n &&
	       !has_keyword(e->view, &r->keywords);
}

void engine_give_up(struct engine *e, const char *rule, size_t at)
{
	char what[200];
	struct found f = {"scan-timeout", what, view_line(e->view, at), "", 0, true};

	snprintf(what, sizeof(what), "%.100s takes too long on this text", rule);
	e->fn(e->arg, &f);
}

/* How much of the text PCRE2 has to see: its search for a first character does not know
 * where we stop. One byte more than any match, so that the end is not taken for the end
 * of the text. */
static size_t search_end(const struct re *re, const struct view *v, size_t to)
{
	if (to == SLOW_ALL || re->max == RE_UNBOUNDED)
		return v->len;
	return min_size(v->len, to + re->max + 1);
}

void engine_confirm(struct engine *e, size_t i, size_t to)
{
	struct rule *r = &e->rules.rule[i];
	struct rule_state *s = &e->state[i];
	const struct view *v = e->view;
	size_t from;

	if (s->text != e->text) {
		s->text = e->text;
		s->pos = s->tried = 0;
		s->skip = !rule_wants_file(e, i) || keyword_missing(e, r, false);
		if (!s->skip && pattern_compile(&r->regex, &(struct cove_error){0}) < 0) {
			engine_give_up(e, r->id, 0);
			s->skip = true;
		}
	}
	while (!s->skip) {
		struct match m;
		int found;

		from = s->pos > s->tried ? s->pos : s->tried;
		if (to != SLOW_ALL && to > r->regex.re.reach &&
		    to - r->regex.re.reach > from)
			from = to - r->regex.re.reach;
		if (from > v->len || (to != SLOW_ALL && from >= to))
			return;
		found = pattern_find(&r->regex, v->text, search_end(&r->regex.re, v, to),
				     from, to == SLOW_ALL ? to : to - 1, &m);
		if (found == 0) {
			s->tried = to == SLOW_ALL ? v->len + 1 : to;
			return;
		}
		if (found < 0) {
			engine_give_up(e, r->id, from);
			s->skip = true;
			return;
		}
		s->pos = m.end[0] > m.start[0] ? m.end[0] : m.end[0] + 1;
		if (!view_is_new(v, m.start[0], m.end[0]))
			continue;
		if (keyword_missing(e, r, true))
			s->skip = true;
		else
			engine_report(e, r, m.start[0], m.end[0]);
	}
}

/* ---- one text --------------------------------------------------------------------- */

static bool on_keyword(void *arg, size_t index, size_t end)
{
	struct engine *e = arg;

	(void)end;
	engine_confirm(e, e->keyword_rule[index], SLOW_ALL);
	return true;
}

static void on_exact(void *arg, const struct exact_hit *hit)
{
	struct engine *e = arg;
	char what[120];
	struct found f = {.rule = "sandbox-secret",
			  .what = what,
			  .secret = e->view->text + hit->start,
			  .len = hit->end - hit->start,
			  .exact = true};

	if (!view_is_new(e->view, hit->start, hit->end))
		return;
	snprintf(what, sizeof(what), "secret %zu of the sandbox, %s", hit->value + 1,
		 hit->form);
	f.line = view_line(e->view, hit->start);
	e->fn(e->arg, &f);
}

static void scan_view(struct engine *e, const struct view *v)
{
	e->view = v;
	e->text++;
	if (!e->path_allowed) {
		fast_scan(e, v->text, v->len);
		if (e->keywords)
			literals_find(e->keywords, v->text, v->len, on_keyword, e);
		for (size_t i = 0; i < e->n_always; i++)
			engine_confirm(e, e->always[i], SLOW_ALL);
	}
	if (e->exact && exact_find(e->exact, v->text, v->len, on_exact, e) < 0)
		engine_give_up(e, "sandbox-secret", 0);
}

static void scan_deep(struct engine *e, const struct view *v, int depth)
{
	struct decoded d;
	int r;

	scan_view(e, v);
	if (depth == DECODE_DEPTH || (e->path_allowed && !e->exact))
		return;
	r = decode_view(&d, v);
	if (r < 0)
		engine_give_up(e, "decoding", 0);
	if (r <= 0)
		return;
	scan_deep(e, &d.view, depth + 1);
	decoded_clear(&d);
}

void engine_text(struct engine *e, const struct view *v, found_fn *fn, void *arg)
{
	e->fn = fn;
	e->arg = arg;
	scan_deep(e, v, 0);
	e->view = NULL;
}

void engine_file(struct engine *e, const char *path, found_fn *fn, void *arg)
{
	struct view name = {.text = path, .len = strlen(path)};

	e->path = path;
	e->path_len = name.len;
	e->file++;
	e->path_allowed = path_allowed(&e->rules.allow, NULL, path, name.len);
	e->fn = fn;
	e->arg = arg;
	e->view = &name;
	for (size_t i = 0; i < e->rules.n; i++) {
		struct rule *r = &e->rules.rule[i];

		if (!r->regex.source && !r->off && rule_wants_file(e, i))
			engine_report(e, r, 0, name.len);
	}
	scan_view(e, &name);
	e->view = NULL;
}
