/* SPDX-License-Identifier: Apache-2.0 */
/* table - rows of text in aligned columns, for people. */
#include "cli/cli.h"

#include <stdio.h>

struct cell {
	char *text;        /* escaped */
	const char *paint; /* SGR parameters or NULL; borrowed */
};

struct table {
	size_t columns, rows, cap;
	struct cell *cells; /* rows * columns; the first row is the heading */
	size_t *width;
};

struct table *cli_table_new(size_t columns, const char *const *heads)
{
	struct table *t = calloc(1, sizeof(*t));

	if (t) {
		t->columns = columns;
		t->width = calloc(columns, sizeof(*t->width));
	}
	if (!t || !t->width || cli_table_row(t, heads, NULL) < 0) {
		cli_table_free(t);
		return NULL;
	}
	return t;
}

static int grow(struct table *t)
{
	size_t cap = t->cap ? t->cap * 2 : 16;
	struct cell *cells = reallocarray(t->cells, cap * t->columns, sizeof(*cells));

	if (!cells)
		return -1;
	t->cells = cells;
	t->cap = cap;
	return 0;
}

int cli_table_row(struct table *t, const char *const *cells, const char *const *paint)
{
	struct cell *row;

	if (t->rows == t->cap && grow(t) < 0)
		return -1;
	row = t->cells + t->rows * t->columns;
	memset(row, 0, t->columns * sizeof(*row));
	t->rows++; /* counted first, so that a half-filled row is released too */
	for (size_t i = 0; i < t->columns; i++) {
		const char *text = cells[i] && *cells[i] ? cells[i] : "-";

		row[i].text = cli_escape(text);
		row[i].paint = paint ? paint[i] : NULL;
		if (!row[i].text)
			return -1;
		if (cli_width(row[i].text) > t->width[i])
			t->width[i] = cli_width(row[i].text);
	}
	return 0;
}

void cli_table_print(const struct table *t)
{
	bool colour = cli_colour(STDOUT_FILENO);

	for (size_t r = 0; r < t->rows; r++) {
		for (size_t c = 0; c < t->columns; c++) {
			const struct cell *cell = &t->cells[r * t->columns + c];
			const char *paint = colour ? cell->paint : NULL;
			size_t pad = t->width[c] - cli_width(cell->text) + 2;

			if (paint)
				printf("\033[%sm%s\033[0m", paint, cell->text);
			else
				fputs(cell->text, stdout);
			if (c + 1 < t->columns)
				printf("%*s", (int)pad, "");
		}
		putchar('\n');
	}
}

void cli_table_free(struct table *t)
{
	if (!t)
		return;
	for (size_t i = 0; t->cells && i < t->rows * t->columns; i++)
		free(t->cells[i].text);
	free(t->cells);
	free(t->width);
	free(t);
}
