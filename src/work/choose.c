/* SPDX-License-Identifier: Apache-2.0 */
/*
 * choose - which of the staged changes land: all, or what the caller picks file by file
 * and hunk by hunk; then what must come along, and what cannot go without the rest.
 */
#include "work/apply_impl.h"

#include "base/io.h"
#include "base/util.h"
#include "text/diff.h"

#include <fcntl.h>

#define TEXT_MAX (16u << 20) /* a larger file is taken whole or not at all */
#define CONTEXT 3

/* ---- the caller's choice -------------------------------------------------------- */

/* Both sides of an edited text file. */
struct sides {
	struct buf old, new;
	struct text_diff diff;
	bool text;
};

static struct text text_of(const struct buf *b)
{
	return (struct text){b->data ? b->data : "", b->len};
}

static void sides_clear(struct sides *s)
{
	buf_clear(&s->old);
	buf_clear(&s->new);
	text_diff_clear(&s->diff);
}

/* What cannot be read as text simply has no hunks. */
static void sides_read(struct apply *a, size_t i, struct sides *s)
{
	const struct change *c = &a->changes.v[i];

	*s = (struct sides){.old = BUF_INIT(TEXT_MAX), .new = BUF_INIT(TEXT_MAX)};
	if (!a->items[i].staged || !S_ISREG(c->new.mode) ||
	    (c->old.mode && !S_ISREG(c->old.mode)))
		return;
	cleanup_fd int new = stage_open_staged(a, i);
	cleanup_fd int old = c->old.mode ? change_open_old(a->w->layers, c) : -1;
	if (new < 0 || read_fd(new, &s->new) < 0 ||
	    (c->old.mode && (old < 0 || read_fd(old, &s->old) < 0)))
		return;
	s->text = !text_is_binary(text_of(&s->old)) &&
		  !text_is_binary(text_of(&s->new)) &&
		  text_diff(&s->diff, text_of(&s->old), text_of(&s->new)) == 0;
}

struct asking {
	struct apply *a;
	bool all, none; /* said for everything that is left */
};

static int ask(struct asking *q, const struct cove_change *c, int32_t hunk,
	       const struct buf *text)
{
	return q->a->o->choose(q->a->o->arg, c, hunk, text->data, text->len);
}

/* Asks for each group of changes; take[] gets the answers. Negative: abort. */
static int ask_hunks(struct asking *q, const struct cove_change *c, struct sides *s,
		     size_t groups, const size_t *first, bool *take)
{
	int held = -1; /* an answer for the rest of the file */

	for (size_t g = 0; g < groups; g++) {
		size_t end = g + 1 < groups ? first[g + 1] : s->diff.n;
		cleanup_buf struct buf text = BUF_INIT(TEXT_MAX * 2);
		int answer = held;

		if (held < 0) {
			if (text_unified_group(&text, text_of(&s->old), text_of(&s->new),
					       &s->diff, CONTEXT, g) < 0)
				return -ENOMEM;
			answer = ask(q, c, (int32_t)g, &text);
		}
		if (answer == COVE_CHOOSE_ABORT || answer < 0)
			return -ECANCELED;
		q->all |= answer == COVE_CHOOSE_ALL;
		q->none |= answer == COVE_CHOOSE_STOP;
		if (answer >= COVE_CHOOSE_ALL_FILE)
			held = answer == COVE_CHOOSE_ALL_FILE ||
			       answer == COVE_CHOOSE_ALL;
		for (size_t i = first[g]; i < end; i++)
			take[i] = held >= 0 ? held : answer == COVE_CHOOSE_YES;
	}
	return 0;
}

/* Some of the hunks: the staged file becomes the host's with these. */
static int pick_hunks(struct asking *q, size_t i, const struct cove_change *pub,
		      struct sides *s, struct cove_error *err)
{
	struct item *it = &q->a->items[i];
	cleanup_free size_t *first = calloc(s->diff.n + 1, sizeof(*first));
	cleanup_free bool *take = calloc(s->diff.n + 1, sizeof(*take));
	cleanup_buf struct buf out = BUF_INIT(TEXT_MAX * 2);
	size_t groups, taken = 0;
	int r;

	if (!first || !take)
		return fail_nomem(err);
	groups = text_groups(&s->diff, CONTEXT, first, s->diff.n);
	if (groups < 2)
		return 0;
	r = ask_hunks(q, pub, s, groups, first, take);
	if (r < 0)
		return r == -ENOMEM ? fail_nomem(err)
				    : fail(err, COVE_EINVAL, 0, "nothing was applied");
	for (size_t k = 0; k < s->diff.n; k++)
		taken += take[k];
	it->take = taken > 0;
	it->whole = taken == s->diff.n;
	if (!it->take || it->whole)
		return 0;
	if (text_pick(&out, text_of(&s->old), text_of(&s->new), &s->diff, take) < 0)
		return fail_nomem(err);
	return stage_content(q->a, i, out.data, out.len, err);
}

static int ask_change(struct asking *q, size_t i, struct cove_error *err)
{
	struct apply *a = q->a;
	const struct change *c = &a->changes.v[i];
	struct item *it = &a->items[i];
	cleanup_buf struct buf text = BUF_INIT(TEXT_MAX * 2);
	struct cove_change pub;
	struct sides s;
	int answer, r = 0;

	sides_read(a, i, &s);
	change_export(a->w->layers, c, &pub);
	if (s.text &&
	    text_unified(&text, text_of(&s.old), text_of(&s.new), &s.diff, CONTEXT) < 0) {
		sides_clear(&s);
		return fail_nomem(err);
	}
	pub.text = text.data;
	pub.text_len = text.len;
	pub.added = s.diff.added;
	pub.removed = s.diff.removed;
	answer = ask(q, &pub, -1, &text);
	it->take = answer == COVE_CHOOSE_YES || answer == COVE_CHOOSE_ALL_FILE ||
		   answer == COVE_CHOOSE_ALL;
	q->all |= answer == COVE_CHOOSE_ALL;
	q->none |= answer == COVE_CHOOSE_STOP;
	if (answer == COVE_CHOOSE_ABORT || answer < 0)
		r = fail(err, COVE_EINVAL, 0, "nothing was applied");
	else if (answer == COVE_CHOOSE_YES && s.text && c->kind == COVE_EDITED)
		r = pick_hunks(q, i, &pub, &s, err);
	sides_clear(&s);
	return r;
}

int choose_changes(struct apply *a, struct cove_error *err)
{
	struct asking q = {.a = a};

	for (size_t i = 0; i < a->changes.n; i++) {
		a->items[i].take = !q.none;
		a->items[i].whole = true;
		if (a->o->choose && !q.all && !q.none && ask_change(&q, i, err) < 0)
			return err->code;
	}
	return 0;
}

/* ---- what belongs together ------------------------------------------------------ */

static bool is_below(const struct change *c, const struct change *dir)
{
	size_t n = strlen(dir->path);

	return c->layer == dir->layer && strncmp(c->path, dir->path, n) == 0 &&
	       c->path[n] == '/';
}

static bool becomes_dir(const struct change *c)
{
	return S_ISDIR(c->new.mode) && !S_ISDIR(c->old.mode);
}

static bool was_dir(const struct change *c)
{
	return S_ISDIR(c->old.mode) && !S_ISDIR(c->new.mode);
}

/* The list is sorted: what is in a directory follows it. A new directory comes along with
 * anything taken in it; a directory that goes away stays while anything in it stays. */
void choose_close(struct apply *a)
{
	for (size_t i = a->changes.n; i-- > 0;) {
		const struct change *c = &a->changes.v[i];
		struct item *it = &a->items[i];

		if (!becomes_dir(c) && !was_dir(c))
			continue;
		for (size_t k = i + 1; k < a->changes.n && is_below(&a->changes.v[k], c);
		     k++) {
			if (becomes_dir(c) && a->items[k].take &&
			    a->changes.v[k].new.mode)
				it->take = true;
			if (was_dir(c) && !a->items[k].take)
				it->take = false;
		}
	}
}
