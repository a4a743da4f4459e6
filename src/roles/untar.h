/* SPDX-License-Identifier: Apache-2.0 */
/* untar - what the files of cove-untar share. */
#ifndef COVE_ROLES_UNTAR_H
#define COVE_ROLES_UNTAR_H

#include "base/buf.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct archive;

/* What an entry says, as far as it counts here. */
struct item {
	char path[PATH_MAX]; /* clean: relative, no "." or ".." in it */
	char link[PATH_MAX]; /* a symlink's text, or the clean path of a hard link */
	mode_t type;         /* S_IFREG, ...; 0: a hard link */
	mode_t mode;
	int64_t seconds; /* time of its last change */
	long nanoseconds;
	uint64_t size;
};

/* Where files are made, with the directory that was used last. */
struct tree {
	int root;
	int parent;                 /* open directory; -1: none */
	char parent_path[PATH_MAX]; /* its path */
	struct buf dirs;            /* those made: their times come last */
	uint64_t left;              /* bytes that may still be written */
};

void tree_init(struct tree *t, int root, uint64_t bytes_max);
/* Makes it, over what has the name already unless that is a directory with something in
 * it; a file's data comes from the archive's present entry. -errno; -EFBIG: more than
 * allowed; -EBADMSG: the archive is damaged. */
int tree_make(struct tree *t, const struct item *item, struct archive *a);
int tree_finish(struct tree *t);

#define UNTAR_BLOCK (256u * 1024)

struct untar {
	int fd; /* the file */
	uint64_t bytes_max;
	struct tree tree;
	uint64_t entries, devices; /* made, and left out */
	struct item item;          /* the present one */
	const char *why; /* what is wrong with the archive; NULL: what errno says */
	struct archive *a;
	char block[UNTAR_BLOCK];
};

/* untar_run.c: everything that is in the file. 0 or -errno, as of tree_make(). */
int untar_run(struct untar *u);

/* A path of an archive without "." and doubled or leading slashes; "" is the root itself.
 * -EINVAL: it has ".." in it, -ENAMETOOLONG. */
int untar_clean(const char *path, char out[PATH_MAX]);

#endif
