/* SPDX-License-Identifier: Apache-2.0 */
/* utf8 - one character, strictly: shortest form, no surrogates. Pure. */
#ifndef COVE_POLICY_UTF8_H
#define COVE_POLICY_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* The character at s, of which n > 0 bytes are there: its length, or -EINVAL. */
int utf8_get(const char *s, size_t n, uint32_t *ret);
/* Writes c, at most 4 bytes, and returns how many; c is a character. */
size_t utf8_put(uint32_t c, char out[4]);

#endif
