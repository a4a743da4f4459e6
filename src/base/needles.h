/* SPDX-License-Identifier: Apache-2.0 */
/*
 * needles - finds any of several byte strings in a text, leftmost first, longest first.
 * Pure; the memory is the caller's, so that it can be locked when the strings are secret.
 *
 * A window of the shortest needle's length slides over the text; its last two bytes say
 * how far it may jump (Wu and Manber), so most bytes are never looked at.
 */
#ifndef COVE_BASE_NEEDLES_H
#define COVE_BASE_NEEDLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NEEDLE_MIN 8     /* bytes of a needle at least */
#define NEEDLES_MAX 4096 /* of one set */

struct needle {
	const unsigned char *p; /* borrowed for the life of the set */
	size_t n;
};

struct needles;
struct needle_hit {
	size_t at;   /* where it begins */
	unsigned id; /* index of the needle; unset for a beginning */
};
enum needle_found { NEEDLE_NONE, NEEDLE_HIT, NEEDLE_BEGINNING };

/* Bytes that a set of n needles takes. */
size_t needles_size(size_t n);
/* Builds the set in mem (needles_size(n) bytes, aligned for a pointer). v may go after
 * it, what it points at may not. -EINVAL: too short, none, or too many. */
int needles_init(struct needles *set, const struct needle *v, size_t n);

/* The first needle at or after `from`. Unless `last`, a place from where the text ends
 * inside a needle is told (NEEDLE_BEGINNING) when no hit lies before it. */
enum needle_found needles_next(const struct needles *set, const unsigned char *text,
			       size_t n, size_t from, bool last, struct needle_hit *ret);

#endif
