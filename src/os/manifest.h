/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest - which file a copied tree has from which source file, so that the next copy
 * can share what did not change since (a hard link instead of a second copy).
 *
 * The text is our own, but may be damaged: it is parsed like foreign input, and a damaged
 * one is refused as a whole, which costs sharing, nothing else.
 */
#ifndef COVE_OS_MANIFEST_H
#define COVE_OS_MANIFEST_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define MANIFEST_MAX (1u << 30)

struct manifest_entry {
	uint64_t dev, ino, size;
	int64_t mtime_ns, ctime_ns;
	size_t path; /* offset in paths */
};

struct manifest {
	struct manifest_entry *v;
	size_t n, cap;
	struct buf paths; /* NUL-terminated, below the directory of the copy */
	bool sorted;
};

void manifest_init(struct manifest *m);
void manifest_clear(struct manifest *m);
int manifest_add(struct manifest *m, const struct stat *st, const char *prefix,
		 const char *path); /* -errno */
/* The path of the copy of exactly this state of the file, or NULL. */
const char *manifest_find(struct manifest *m, const struct stat *st);

int manifest_print(const struct manifest *m, struct buf *out);      /* -errno */
int manifest_parse(struct manifest *m, const char *text, size_t n); /* -EBADMSG */

#endif
