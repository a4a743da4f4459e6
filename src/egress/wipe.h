/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wipe - buffers that values pass through: nothing of what was in them stays behind, be
 * it in a block that was outgrown or given back, or beyond the end of what is in use.
 */
#ifndef COVE_EGRESS_WIPE_H
#define COVE_EGRESS_WIPE_H

#include "base/buf.h"

int wipe_reserve(struct buf *b, size_t more); /* as buf_reserve() */
int wipe_append(struct buf *b, const void *p, size_t n);
int wipe_puts(struct buf *b, const char *s);
void wipe_consume(struct buf *b, size_t n);
void wipe_empty(struct buf *b); /* keeps the memory */
void wipe_clear(struct buf *b); /* releases it */

#endif
