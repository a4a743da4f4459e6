/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view - a text that is scanned, and where it came from.
 *
 * The first view is the content itself. Others are made from it: UTF-16 as UTF-8, and
 * encoded pieces (base64, hex, percent, \u) decoded in place. Each knows its parent, so a
 * place in it can be traced back to a line of the file.
 */
#ifndef COVE_SCAN_VIEW_H
#define COVE_SCAN_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct seg {
	size_t at, len; /* in the view */
	size_t from;    /* in the parent */
	bool decoded;   /* else the same bytes as in the parent */
};

/* The last place whose line was asked for: places mostly come in rising order. */
struct line_cache {
	size_t at;
	uint64_t lines; /* line ends before it */
};

struct view {
	const char *text;
	size_t len;
	size_t seen;   /* what ends at or before this was looked at in the last piece */
	uint64_t line; /* number of the first line */
	const struct view *parent; /* NULL: the content, or with line ends of its own */
	const struct seg *seg;
	size_t n_segs;
	struct line_cache *cache; /* zeroed before the first use; or NULL */
};

/* A view with encoded pieces of `v` decoded, and some text around each. */
struct decoded {
	struct view view;
	char *text;
	struct seg *seg;
};

/* 1: there was something to decode; 0: nothing; -ENOMEM. */
int decode_view(struct decoded *ret, const struct view *v);
void decoded_clear(struct decoded *d);

/* UTF-16 in it as UTF-8: all of it if it is such a text, otherwise the runs that look
 * like it. zeros: there is a NUL in it. *kind (start with 0) carries what a file is from
 * one piece to the next. */
enum utf16_kind { UTF16_UNKNOWN, UTF16_LE, UTF16_BE, UTF16_NOT };
int utf16_view(char **ret, size_t *ret_len, const char *text, size_t len, bool zeros,
	       int *kind);

uint64_t view_line(const struct view *v, size_t at);
/* Touches something that was decoded; true for a view that is no decoded one. */
bool view_is_new(const struct view *v, size_t start, size_t end);

#endif
