/* SPDX-License-Identifier: Apache-2.0 */
/*
 * script - from two split texts to a list of changes: number the lines, search, slide.
 *
 * Often several scripts are equally short: a line inserted among its equals could be any
 * of them. The bias says which is wanted: the one that reads best, or one of the two
 * extremes, which a merge compares to see whether its result hangs on that choice.
 */
#ifndef COVE_TEXT_SCRIPT_H
#define COVE_TEXT_SCRIPT_H

#include "text/lines.h"

enum script_bias { SCRIPT_READABLE, SCRIPT_UP, SCRIPT_DOWN };

int script_make(struct text_diff *ret, const struct lines *old, const struct lines *new,
		enum script_bias bias); /* 0, -ENOMEM */

/* One text with the lines that the script drops or adds marked, cut[0 .. lines->n]; the
 * last entry is always 0, so a run of marks ends within it. */
struct side {
	const struct lines *lines;
	uint8_t *cut;
};

/* Moves every run of marked lines of `s` where its equals allow it: to meet a change of
 * the other side, so that both become one, otherwise to where the bias wants it. */
void slide_changes(const struct side *s, const struct side *other, enum script_bias bias);

#endif
