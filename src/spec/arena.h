/* SPDX-License-Identifier: Apache-2.0 */
/* arena - memory that is taken in small pieces and given back all at once. */
#ifndef COVE_SPEC_ARENA_H
#define COVE_SPEC_ARENA_H

#include <stddef.h>

struct chunk;

void *arena_alloc(struct chunk **chunks, size_t n); /* aligned; NULL without memory */
void arena_clear(struct chunk **chunks);

#endif
