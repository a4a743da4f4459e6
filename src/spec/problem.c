/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/problem.h"

#include "base/util.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

void problem_add(struct problems *p, unsigned line, const char *fmt, ...)
{
	char text[512];
	struct problem *v;
	va_list ap;

	if (p->n >= PROBLEMS_MAX) {
		p->more++;
		return;
	}
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	v = p->v ? p->v : calloc(PROBLEMS_MAX, sizeof(*v));
	p->v = v;
	if (!v || !(v[p->n].text = strdup(text))) {
		p->nomem = true;
		return;
	}
	v[p->n++].line = line;
}

void problems_clear(struct problems *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->v[i].text);
	free(p->v);
	*p = (struct problems){.file = p->file};
}

/* By line; equal lines stay in the order in which they were found (insertion sort). */
static void problems_sort(struct problems *p)
{
	for (size_t i = 1; i < p->n; i++) {
		struct problem moved = p->v[i];
		size_t at = i;

		for (; at > 0 && p->v[at - 1].line > moved.line; at--)
			p->v[at] = p->v[at - 1];
		p->v[at] = moved;
	}
}

int problems_report(struct problems *p, struct buf *out, struct cove_error *err)
{
	size_t rest;

	if (p->nomem)
		return fail_nomem(err);
	if (p->n == 0)
		return 0;
	problems_sort(p);
	for (size_t i = 0; out && i < p->n;
	     i++) /* a full buffer loses lines, not the error */
		if (p->file)
			buf_printf(out, "%s:%u: %s\n", p->file, p->v[i].line,
				   p->v[i].text);
		else
			buf_printf(out, "%s\n", p->v[i].text);
	if (out && p->more)
		buf_printf(out, "%s: %zu more problems\n", p->file ? p->file : "spec",
			   p->more);
	rest = p->n - 1 + p->more;
	if (p->file)
		fail(err, COVE_EINVAL, 0, "%.200s:%u: %s", p->file, p->v[0].line,
		     p->v[0].text);
	else
		fail(err, COVE_EINVAL, 0, "%s", p->v[0].text);
	if (rest) {
		size_t n = strlen(err->msg);

		snprintf(err->msg + n, sizeof(err->msg) - n, " (and %zu more)", rest);
	}
	return err->code;
}

const char *shown(char out[SHOWN_MAX], const char *text)
{
	size_t n = strlen(text), max = SHOWN_MAX - 4;
	size_t keep = n > max ? max : n;

	while (keep < n && keep > 0 && ((unsigned char)text[keep] & 0xc0) == 0x80)
		keep--; /* not in the middle of a character */
	for (size_t i = 0; i < keep; i++)
		out[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? ' ' : text[i];
	snprintf(out + keep, SHOWN_MAX - keep, "%s", keep < n ? "..." : "");
	return out;
}

#define WORD_MAX 40

/* Edits (insert, delete, replace, swap of neighbours) from a to b, case apart. */
static size_t edits(const char *a, size_t na, const char *b, size_t nb)
{
	size_t row[3][WORD_MAX + 1];

	for (size_t j = 0; j <= nb; j++)
		row[0][j] = j;
	for (size_t i = 1; i <= na; i++) {
		size_t *now = row[i % 3], *last = row[(i + 2) % 3],
		       *older = row[(i + 1) % 3];

		now[0] = i;
		for (size_t j = 1; j <= nb; j++) {
			int ca = tolower((unsigned char)a[i - 1]);
			int cb = tolower((unsigned char)b[j - 1]);
			size_t d = last[j - 1] + (ca != cb);

			d = min_size(d, min_size(last[j], now[j - 1]) + 1);
			if (i > 1 && j > 1 && ca == tolower((unsigned char)b[j - 2]) &&
			    cb == tolower((unsigned char)a[i - 2]))
				d = min_size(d, older[j - 2] + 1);
			now[j] = d;
		}
	}
	return row[na % 3][nb];
}

void nearest_try(struct nearest *n, const char *candidate)
{
	size_t nw = strlen(n->word), nc = strlen(candidate), d, limit;

	if (nw == 0 || nw > WORD_MAX || nc > WORD_MAX)
		return;
	limit = nc <= 3 ? 1 : nc <= 6 ? 2 : 3;
	/* A word that begins or ends the other ("memory" for "memoryMiB") is near as
	 * well. */
	if (nw >= 3 && nc > nw &&
	    (strncasecmp(n->word, candidate, nw) == 0 ||
	     strcasecmp(n->word, candidate + nc - nw) == 0))
		d = limit;
	else
		d = edits(n->word, nw, candidate, nc);
	if (d <= limit && (!n->best || d < n->distance)) {
		n->best = candidate;
		n->distance = d;
	}
}
