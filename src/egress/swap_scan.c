/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which values are in a text, in whatever writing: the text itself is searched for their
 * forms, and every view of it that differs from it for the values as they are. So it does
 * not matter which characters a server escapes. A view of a view is for what is quoted
 * twice, such as a JSON body inside a JSON answer.
 */
#include "egress/swap_impl.h"

#define OF_TEXT (-1)

static const struct {
	enum swap_code code;
	int of; /* index of another, which comes first */
} views[SWAP_VIEWS] = {
	{SWAP_CODE_PERCENT, OF_TEXT},
        {SWAP_CODE_JSON,    OF_TEXT},
	{SWAP_CODE_HTML,    OF_TEXT},
        {SWAP_CODE_FORM,    OF_TEXT},
	{SWAP_CODE_JSON,    1      },
        {SWAP_CODE_PERCENT, 0      },
};

static void advance(struct swap_scan *s, struct swap_finder *f)
{
	const struct swap_table *t = s->t;
	struct needle_hit hit;
	size_t len;

	do {
		f->found = needles_next(f->set, f->p, f->n, f->from, true, &hit) ==
			   NEEDLE_HIT;
		if (!f->found)
			return;
		f->from = hit.at + 1;
		f->span = (struct swap_span){.view = f->view, .view_at = hit.at};
		if (!f->view)
			f->span.form = &t->form[hit.id];
		f->span.secret = f->view ? t->plain_of[hit.id] : f->span.form->secret;
	} while (!(s->wanted >> f->span.secret & 1));
	len = f->view ? t->secret[f->span.secret].core : f->span.form->n;
	f->span.at = f->view ? swap_place(f->view, hit.at) : hit.at;
	f->span.end = f->view ? swap_place(f->view, hit.at + len) : hit.at + len;
}

static void add_finder(struct swap_scan *s, const struct needles *set,
		       const struct swap_view *view, const unsigned char *p, size_t n)
{
	struct swap_finder *f = &s->finder[s->n_finders++];

	*f = (struct swap_finder){.set = set, .view = view, .p = p, .n = n};
	advance(s, f);
}

/* 1: there is such a view; 0: it would show nothing else. */
static int open_view(struct swap_scan *s, size_t i, const unsigned char *p, size_t n)
{
	const struct swap_view *of = views[i].of >= 0 ? &s->view[views[i].of] : NULL;

	if ((of && !of->own) || (views[i].code == SWAP_CODE_FORM && !s->t->spaces))
		return 0;
	return swap_view(&s->view[i], views[i].code, of, of ? of->p : p, of ? of->n : n,
			 true);
}

int swap_scan_begin(struct swap_scan *s, const struct swap_table *t, uint64_t wanted,
		    const unsigned char *p, size_t n)
{
	int r = 0;

	*s = (struct swap_scan){.t = t, .wanted = wanted};
	add_finder(s, t->back, NULL, p, n);
	for (size_t i = 0; r >= 0 && i < SWAP_VIEWS; i++) {
		r = open_view(s, i, p, n);
		if (r > 0)
			add_finder(s, t->plain, &s->view[i], s->view[i].p, s->view[i].n);
	}
	return r < 0 ? r : 0;
}

bool swap_scan_next(struct swap_scan *s, struct swap_span *ret)
{
	struct swap_finder *first = NULL;

	for (size_t i = 0; i < s->n_finders; i++) {
		struct swap_finder *f = &s->finder[i];

		if (f->found && (!first || f->span.at < first->span.at))
			first = f;
	}
	if (!first)
		return false;
	*ret = first->span;
	advance(s, first);
	return true;
}

size_t swap_scan_floor(const struct swap_scan *s, size_t place)
{
	size_t before;

	do {
		before = place;
		for (size_t i = 0; i < s->n_finders; i++)
			if (s->finder[i].view)
				place = swap_floor(s->finder[i].view, place);
	} while (place < before);
	return place;
}

void swap_scan_end(struct swap_scan *s)
{
	for (size_t i = 0; i < SWAP_VIEWS; i++)
		swap_view_clear(&s->view[i]);
}
