/* SPDX-License-Identifier: Apache-2.0 */
/*
 * literals - finds any of many fixed strings in one pass (Wu and Manber's algorithm: the
 * last two bytes of a window say how far it can move, usually nearly its whole length).
 */
#ifndef COVE_SCAN_LITERALS_H
#define COVE_SCAN_LITERALS_H

#include <stdbool.h>
#include <stddef.h>

struct literals;

/* Copies the words; empty ones are left out. fold: letters of ASCII match in either case
 * (words are lower case then). NULL: out of memory. */
struct literals *literals_new(const char *const *words, const size_t *lens, size_t n,
			      bool fold);
/* Calls fn for every place where words[index] ends; fn returns false to stop. */
void literals_find(const struct literals *l, const char *text, size_t len,
		   bool (*fn)(void *arg, size_t index, size_t end), void *arg);
void literals_free(struct literals *l);

#endif
