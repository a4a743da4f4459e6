/* SPDX-License-Identifier: Apache-2.0 */
/* diff_stat - one row a file with a bar of the lines added and removed, and the sum. */
#include "cli/diff.h"
#include "cli/term.h"

struct row {
	char *name;
	char note[60]; /* instead of a bar; or "" */
	uint32_t added, removed;
};

struct diff_stat {
	struct row *v;
	size_t n, cap;
	uint64_t added, removed;
};

struct diff_stat *diff_stat_new(void)
{
	return calloc(1, sizeof(struct diff_stat));
}

void diff_stat_free(struct diff_stat *s)
{
	for (size_t i = 0; s && i < s->n; i++)
		free(s->v[i].name);
	if (s)
		free(s->v);
	free(s);
}

static int grow(struct diff_stat *s)
{
	size_t cap = s->cap ? s->cap * 2 : 64;
	struct row *v;

	if (s->n < s->cap)
		return 0;
	v = reallocarray(s->v, cap, sizeof(*v));
	if (!v)
		return -1;
	s->v = v;
	s->cap = cap;
	return 0;
}

static char *row_name(const struct cove_change *c)
{
	cleanup_free char *to = diff_quote("", c->path);
	cleanup_free char *from = c->from ? diff_quote("", c->from) : NULL;
	char *both = NULL;

	if (!from || !to) {
		both = to;
		to = NULL;
		return both;
	}
	return asprintf(&both, "%s => %s", from, to) < 0 ? NULL : both;
}

int diff_stat_add(struct diff_stat *s, const struct cove_change *c)
{
	struct row *row;
	char *name;

	if (grow(s) < 0 || !(name = row_name(c)))
		return -1;
	row = &s->v[s->n++];
	*row = (struct row){.name = name, .added = c->added, .removed = c->removed};
	if (c->what & COVE_WHAT_UNREADABLE)
		snprintf(row->note, sizeof(row->note), "unreadable");
	else if (c->what & COVE_WHAT_BINARY)
		snprintf(row->note, sizeof(row->note), "Bin %llu -> %llu bytes",
			 (unsigned long long)c->old_size,
			 (unsigned long long)c->new_size);
	s->added += c->added;
	s->removed += c->removed;
	return 0;
}

/* Something that is not nothing keeps at least one sign. */
static int scaled(uint64_t value, int width, uint64_t most)
{
	if (value == 0 || most <= (uint64_t)width)
		return (int)value;
	return 1 + (int)(value * (uint64_t)(width - 1) / most);
}

static void put_signs(FILE *f, char sign, int n, const char *sgr,
		      const struct diff_style *style)
{
	if (n > 0 && style->colour)
		fprintf(f, "\033[%sm", sgr);
	for (int i = 0; i < n; i++)
		fputc(sign, f);
	if (n > 0 && style->colour)
		fputs("\033[m", f);
}

struct widths {
	int name, number, bar;
	uint64_t most;
};

static struct widths measure(const struct diff_stat *s, const struct diff_style *style)
{
	struct widths w = {.name = 1, .number = 1};
	uint16_t rows = 24, cols = 80;
	char digits[24];

	if (style->terminal)
		cli_term_size(&rows, &cols);
	for (size_t i = 0; i < s->n; i++) {
		uint64_t lines = (uint64_t)s->v[i].added + s->v[i].removed;
		int name = (int)cli_width(s->v[i].name);

		w.name = name > w.name ? name : w.name;
		w.most = lines > w.most ? lines : w.most;
		if (*s->v[i].note) /* "Bin" is as wide as the numbers at least */
			w.number = w.number < 3 ? 3 : w.number;
	}
	snprintf(digits, sizeof(digits), "%llu", (unsigned long long)w.most);
	w.number = (int)strlen(digits) > w.number ? (int)strlen(digits) : w.number;
	if (cols < 40)
		cols = 40;
	if (w.name > cols - w.number - 5 - 10) /* ten columns stay for the bar */
		w.name = cols - w.number - 5 - 10;
	w.bar = cols - w.name - w.number - 5;
	return w;
}

/* A name that is too long loses its beginning. */
static void put_name(FILE *f, const char *name, int width)
{
	int over = (int)cli_width(name) - width;

	if (over > 0) {
		for (over += 3; over > 0 && *name; over--)
			do
				name++;
			while (((unsigned char)*name & 0xc0) == 0x80);
		fprintf(f, " ...%s", name);
		return;
	}
	fprintf(f, " %s%*s", name, -over, "");
}

static void put_row(FILE *f, const struct row *row, const struct widths *w,
		    const struct diff_style *style)
{
	uint64_t lines = (uint64_t)row->added + row->removed;
	int bar = scaled(lines, w->bar, w->most), plus;

	put_name(f, row->name, w->name);
	if (*row->note) {
		fprintf(f, " | %s\n", row->note);
		return;
	}
	plus = lines ? (int)((uint64_t)bar * row->added / lines) : 0;
	plus += row->added && plus == 0;
	plus -= row->removed && plus == bar && bar > 1;
	fprintf(f, " | %*llu%s", w->number, (unsigned long long)lines, bar ? " " : "");
	put_signs(f, '+', plus, "32", style);
	put_signs(f, '-', bar - plus, "31", style);
	fputc('\n', f);
}

void diff_stat_print(FILE *f, const struct diff_stat *s, const struct diff_style *style)
{
	struct widths w = measure(s, style);

	if (s->n == 0)
		return;
	for (size_t i = 0; i < s->n; i++)
		put_row(f, &s->v[i], &w, style);
	fprintf(f, " %zu file%s changed", s->n, s->n == 1 ? "" : "s");
	if (s->added || !s->removed)
		fprintf(f, ", %llu insertion%s(+)", (unsigned long long)s->added,
			s->added == 1 ? "" : "s");
	if (s->removed || !s->added)
		fprintf(f, ", %llu deletion%s(-)", (unsigned long long)s->removed,
			s->removed == 1 ? "" : "s");
	fputc('\n', f);
}
