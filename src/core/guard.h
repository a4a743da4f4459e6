/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard - the paths of rw mounts that make the host run code.
 *
 * A rw mount is live in both directions, but what gate_fixed_paths() names is not the
 * sandbox's to change. What is there at the start is mounted read-only over itself, and
 * the directories above it cannot be moved away. What is not there cannot be held: it is
 * looked for at the end of each command and of the sandbox, and taken to quarantine.
 *
 * States of a watched path
 *	ABSENT	nothing there; what appears is taken away
 *	HELD	mounted read-only inside: only the host can change it
 *	LOOSE	there, but cannot be held (a symlink within the mount, a file with other
 *		names, a socket): taken away if it changed
 *
 * Not covered: repositories that the sandbox makes anew below the mount. And where the
 * host itself replaces a held file (git config, an editor), the kernel drops the mount on
 * it; that is noticed and told.
 */
#ifndef COVE_CORE_GUARD_H
#define COVE_CORE_GUARD_H

#include "backend/backend.h"
#include "core/store.h"

struct guards;

/* Looks at the rw mounts of a resolved spec. *ret is NULL if there is none. Refuses what
 * leaves its mount by a symlink. */
int guards_make(struct guards **ret, const struct spec *s, struct cove_error *err);
void guards_free(struct guards *g);

/* What the place has to hold in mount i of the spec; NULL: nothing. Lives with g. */
const struct place_guard *guards_of(const struct guards *g, size_t i, size_t *ret_n);

/* Looks again and takes to quarantine what must not be there; how many. g may be NULL. */
unsigned guards_check(struct guards *g, struct store *st, const char *box);

#endif
