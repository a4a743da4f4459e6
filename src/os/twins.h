/* SPDX-License-Identifier: Apache-2.0 */
/* twins - where a file with several names was put first. */
#ifndef COVE_OS_TWINS_H
#define COVE_OS_TWINS_H

#include <stddef.h>
#include <sys/stat.h>

struct twins {
	struct twin *v; /* a hash table */
	size_t n, cap;
};

void twins_clear(struct twins *t);
/* The path noted for this file; NULL, and now noted as `path`, if there was none. Files
 * with one name only are not noted. -errno in *ret_error. */
const char *twins_find(struct twins *t, const struct stat *st, const char *path,
		       int *ret_error);

#endif
