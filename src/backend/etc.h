/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etc - a filtered copy of the host's /etc, shared by all sandboxes of this user.
 *
 * Only what programs need is in it (linker cache, alternatives, certificates, terminfo,
 * time zone, shell defaults ...), plus passwd, group, hosts and their like made here. One
 * read-only bind of the copy costs less than forty binds, and hides the rest entirely.
 *
 * The copy carries a manifest of all directories and files it was made from; a start
 * compares their identity and times, and makes a new copy when anything differs.
 */
#ifndef COVE_BACKEND_ETC_H
#define COVE_BACKEND_ETC_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* Path of an up-to-date copy below cache_dir. *ret_ref: a descriptor to keep open while
 * the copy is in use. */
int etc_ensure(const char *cache_dir, char *path, size_t size, int *ret_ref,
	       struct cove_error *err);

#endif
