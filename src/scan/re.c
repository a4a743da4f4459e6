/* SPDX-License-Identifier: Apache-2.0 */
/* re - prints the tree of an expression for PCRE2 and for Hyperscan. */
#include "scan/re_impl.h"

#include "base/util.h"

#define TREE_MAX (8u << 20)
#define PRINT_MAX (1u << 20)
#define COUNT_EXACT 200 /* repeats of wide sets beyond this are counted in bytes */

/* A repeat with a wider spread ends the text for Hyperscan: sooner when what stands
 * before it is rare already. */
#define LOOSE_SPREAD 40
#define LOOSE_SPREAD_SURE 8
#define LOOSE_SURE 5

enum edge { AT_START = 1, AT_END = 2 };

/* ---- width ------------------------------------------------------------------------ */

static uint32_t plus(uint32_t a, uint32_t b)
{
	return a > RE_UNBOUNDED - b ? RE_UNBOUNDED : a + b;
}

static uint32_t times(uint32_t a, uint32_t b)
{
	uint64_t v = (uint64_t)a * b;

	if (a == 0 || b == 0)
		return 0;
	return a == RE_UNBOUNDED || v > RE_UNBOUNDED ? RE_UNBOUNDED : (uint32_t)v;
}

void re_width(const struct re_node *n, uint32_t *min, uint32_t *max)
{
	uint32_t lo, hi;

	*min = *max = 0;
	if (n->type == RE_SET) {
		*min = 1;
		*max = re_set_wide(&n->set) ? 4 : 1;
	} else if (n->type == RE_REPEAT) {
		re_width(n->first, &lo, &hi);
		*min = times(lo, n->min);
		*max = times(hi, n->max);
	} else if (n->type == RE_CAT || n->type == RE_GROUP) {
		for (const struct re_node *c = n->first; c; c = c->next) {
			re_width(c, &lo, &hi);
			*min = plus(*min, lo);
			*max = plus(*max, hi);
		}
	} else if (n->type == RE_ALT) {
		*min = RE_UNBOUNDED;
		for (const struct re_node *c = n->first; c; c = c->next) {
			re_width(c, &lo, &hi);
			*min = lo < *min ? lo : *min;
			*max = hi > *max ? hi : *max;
		}
	}
}

/* ---- both dialects ---------------------------------------------------------------- */

static int print_times(struct buf *out, uint32_t min, uint32_t max, bool lazy)
{
	int r;

	if (max == RE_UNBOUNDED)
		r = buf_printf(out, "{%u,}", min);
	else if (min == max)
		r = buf_printf(out, "{%u}", min);
	else
		r = buf_printf(out, "{%u,%u}", min, max);
	return r == 0 && lazy ? buf_puts(out, "?") : r;
}

/* ---- PCRE2 ------------------------------------------------------------------------ */

static int print_exact(struct buf *out, const struct re_node *n);

static int print_children(struct buf *out, const struct re_node *n, const char *open,
			  const char *between)
{
	int r = buf_puts(out, open);

	for (const struct re_node *c = n->first; r == 0 && c; c = c->next) {
		r = print_exact(out, c);
		if (r == 0 && c->next)
			r = buf_puts(out, between);
	}
	return r == 0 && *open ? buf_puts(out, ")") : r;
}

/*
 * Repeats of a set that has all characters beyond ASCII. Any number of them: bytes count
 * as well as characters. A large count: PCRE2 would write the set out so many times that
 * its program gets too large, so one character is up to four bytes: a superset, as bytes
 * of one character may then count as several.
 */
static bool by_bytes(const struct re_node *n)
{
	if (n->first->type != RE_SET || !re_set_all_wide(&n->first->set))
		return false;
	return (n->min < 2 && n->max == RE_UNBOUNDED) || n->min > COUNT_EXACT ||
	       (n->max != RE_UNBOUNDED && n->max > COUNT_EXACT);
}

static int print_by_bytes(struct buf *out, const struct re_node *n)
{
	int r = re_set_print(out, &n->first->set, true);

	return r == 0 ? print_times(out, n->min, times(n->max, 4), n->lazy) : r;
}

static int print_exact(struct buf *out, const struct re_node *n)
{
	static const char *const marks[] = {
		[RE_TEXT_START] = "\\A",
		[RE_TEXT_END] = "\\z",
		[RE_LINE_START] = "(?:\\A|(?<=\\n))",
		[RE_LINE_END] = "(?=\\n|\\z)",
		[RE_WORD] = "\\b",
		[RE_NOT_WORD] = "\\B",
		[RE_EMPTY] = "",
	};
	int r;

	switch (n->type) {
	case RE_SET:
		return re_set_print(out, &n->set, false);
	case RE_CAT:
		return print_children(out, n, "", "");
	case RE_ALT:
		return print_children(out, n, "(?:", "|");
	case RE_GROUP:
		return print_children(out, n, "(", "");
	case RE_REPEAT:
		if (by_bytes(n))
			return print_by_bytes(out, n);
		if (n->first->type == RE_SET || n->first->type == RE_GROUP)
			r = print_exact(out, n->first);
		else
			r = print_children(out, n, "(?:", "");
		return r == 0 ? print_times(out, n->min, n->max, n->lazy) : r;
	default:
		return buf_puts(out, marks[n->type]);
	}
}

/* ---- Hyperscan -------------------------------------------------------------------- */

/* Can be left out at an end of the expression. A mark of a start counts: without it the
 * expression only matches more often. */
static bool skippable(const struct re_node *n)
{
	const struct re_node *c = n->first;

	switch (n->type) {
	case RE_EMPTY:
	case RE_TEXT_START:
	case RE_LINE_START:
		return true;
	case RE_REPEAT:
		return n->min == 0 || skippable(c);
	case RE_CAT:
	case RE_GROUP:
		while (c && skippable(c))
			c = c->next;
		return !c;
	case RE_ALT:
		while (c && !skippable(c))
			c = c->next;
		return c != NULL;
	default:
		return false;
	}
}

/* A counted repeat of a wide range costs Hyperscan a state for each count. What comes
 * behind it is left to PCRE2. */
static bool costly(const struct re_node *n, uint32_t spread)
{
	if (n->type == RE_REPEAT && n->max != RE_UNBOUNDED && n->max - n->min > spread)
		return true;
	for (const struct re_node *c = n->first; c; c = c->next)
		if (costly(c, spread))
			return true;
	return false;
}

/* How many characters of n are nearly fixed, at least: what makes a match rare. */
static uint32_t fixed(const struct re_node *n)
{
	uint32_t sum = 0, few = RE_UNBOUNDED;

	if (n->type == RE_SET)
		return n->set.n && n->set.n <= 2 && n->set.r[0].lo == n->set.r[0].hi &&
		       n->set.r[n->set.n - 1].lo == n->set.r[n->set.n - 1].hi;
	for (const struct re_node *c = n->first; c; c = c->next) {
		uint32_t f = fixed(c);

		sum = plus(sum, f);
		few = f < few ? f : few;
	}
	if (n->type == RE_ALT)
		return few;
	return n->type == RE_REPEAT ? times(sum, n->min) : sum;
}

/* The children of a row that are printed: from the first that cannot be left out to *to,
 * the last one that matters. */
static const struct re_node *kept(const struct re_node *n, unsigned edges,
				  const struct re_node **to)
{
	const struct re_node *from = n->first;
	uint32_t sure = 0;

	*to = NULL;
	while (from && (edges & AT_START) && skippable(from))
		from = from->next;
	for (const struct re_node *c = from; c; c = c->next) {
		bool stop =
			(edges & AT_END) && *to &&
			costly(c, sure >= LOOSE_SURE ? LOOSE_SPREAD_SURE : LOOSE_SPREAD);

		if (!(edges & AT_END) || !skippable(c))
			*to = c;
		if (stop)
			break;
		sure = plus(sure, fixed(c));
	}
	return from;
}

static int print_loose(struct buf *out, const struct re_node *n, unsigned edges);

static int loose_row(struct buf *out, const struct re_node *n, unsigned edges)
{
	const struct re_node *to, *from = kept(n, edges, &to);
	int r = 0;

	for (const struct re_node *c = from; r == 0 && c && to; c = c->next) {
		unsigned e = (c == from ? edges & AT_START : 0u) |
			     (c == to ? edges & AT_END : 0u);

		r = print_loose(out, c, e);
		if (c == to)
			break;
	}
	return r;
}

/* How far behind the start of a match its loose match can end at most. */
static uint32_t reach(const struct re_node *n)
{
	const struct re_node *to;
	uint32_t min, max, sum = 0;

	re_width(n, &min, &max);
	if (n->type == RE_CAT || n->type == RE_GROUP) {
		kept(n, AT_START | AT_END, &to);
		for (const struct re_node *c = n->first; c && to; c = c->next) {
			if (c == to)
				return plus(sum, reach(c));
			re_width(c, &min, &max);
			sum = plus(sum, max);
		}
	} else if (n->type == RE_ALT) {
		for (const struct re_node *c = n->first; c; c = c->next) {
			uint32_t far = reach(c);

			sum = far > sum ? far : sum;
		}
	} else if (n->type == RE_REPEAT) {
		re_width(n->first, &min, &max);
		return times(max, n->min);
	} else {
		return max;
	}
	return sum;
}

static int loose_repeat(struct buf *out, const struct re_node *n, unsigned edges)
{
	const struct re_node *c = n->first;
	uint32_t min = n->min, max = n->max;
	int r;

	if (edges)
		max = min;
	if (c->type == RE_SET) {
		r = re_set_print(out, &c->set, true);
		if (re_set_wide(&c->set) && !edges)
			max = times(max, 4);
	} else {
		r = buf_puts(out, "(?:");
		if (r == 0)
			r = print_loose(out, c, 0);
		if (r == 0)
			r = buf_puts(out, ")");
	}
	return r == 0 ? print_times(out, min, max, false) : r;
}

static int loose_choice(struct buf *out, const struct re_node *n, unsigned edges)
{
	int r = buf_puts(out, "(?:");

	for (const struct re_node *c = n->first; r == 0 && c; c = c->next) {
		r = print_loose(out, c, edges);
		if (r == 0 && c->next)
			r = buf_puts(out, "|");
	}
	return r == 0 ? buf_puts(out, ")") : r;
}

static int print_loose(struct buf *out, const struct re_node *n, unsigned edges)
{
	static const char *const marks[] = {
		[RE_TEXT_START] = "",     [RE_TEXT_END] = "\\z", [RE_LINE_START] = "",
		[RE_LINE_END] = "(?m:$)", [RE_WORD] = "\\b",     [RE_NOT_WORD] = "\\B",
		[RE_EMPTY] = "",
	};
	int r;

	switch (n->type) {
	case RE_SET:
		r = re_set_print(out, &n->set, true);
		if (r == 0 && re_set_wide(&n->set) && !edges)
			r = buf_puts(out, "{1,4}");
		return r;
	case RE_CAT:
	case RE_GROUP:
		return loose_row(out, n, edges);
	case RE_ALT:
		return loose_choice(out, n, edges);
	case RE_REPEAT:
		return loose_repeat(out, n, edges);
	default:
		return buf_puts(out, marks[n->type]);
	}
}

/* ---- interface -------------------------------------------------------------------- */

int re_translate(struct re *ret, const char *text, size_t len, struct cove_error *err)
{
	cleanup_pool struct pool pool = POOL_INIT(TREE_MAX);
	cleanup_buf struct buf exact = BUF_INIT(PRINT_MAX), loose = BUF_INIT(PRINT_MAX);
	struct re re = {0};
	struct re_node *tree;
	int r;

	if (re_parse(&tree, &re.groups, &pool, text, len, err) < 0)
		return err->code;
	re_width(tree, &re.min, &re.max);
	r = buf_puts(&exact, "");
	if (r == 0)
		r = print_exact(&exact, tree);
	if (r == 0 && !skippable(tree) && re.min > 0)
		r = print_loose(&loose, tree, AT_START | AT_END);
	if (r < 0)
		return fail(err, COVE_EINVAL, 0, "regular expression: too large");
	re.reach = reach(tree);
	re.pcre = buf_steal(&exact);
	re.hs = buf_steal(&loose);
	if (!re.pcre)
		re.pcre = strdup("");
	if (!re.pcre) {
		re_clear(&re);
		return fail_nomem(err);
	}
	*ret = re;
	return 0;
}

void re_clear(struct re *re)
{
	free(re->pcre);
	free(re->hs);
	*re = (struct re){0};
}
