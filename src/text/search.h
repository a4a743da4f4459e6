/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search - the shortest edit script of two sequences of numbers: the algorithm of Myers
 * ("An O(ND) Difference Algorithm and Its Variations", 1986) by divide and conquer, in
 * linear space, and with a cost limit: a box whose middle is not found within it is cut
 * at the point furthest reached, so any input ends in time, if not always with the
 * shortest script.
 */
#ifndef COVE_TEXT_SEARCH_H
#define COVE_TEXT_SEARCH_H

#include <stdint.h>

struct sequence {
	const uint32_t *v;     /* what is compared */
	const uint32_t *place; /* v[i] is about line place[i] */
	uint32_t n;
	uint8_t *cut; /* by line: set for every line the script drops */
};

int search_changes(const struct sequence *a, const struct sequence *b); /* 0, -ENOMEM */

#endif
