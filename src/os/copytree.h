/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copytree - an exact copy of a tree: contents, modes, owners, times, attributes user.*
 * (overlayfs keeps its own there), hard links within it, symlinks as they are, holes as
 * holes, whiteouts as whiteouts.
 *
 * The tree may be an agent's work: no symlink is followed, no device, fifo or socket is
 * opened, no set-user-id bit is copied. Blocks are shared where the file system can
 * (reflink); a file that is known unchanged since an earlier, immutable copy becomes a
 * hard link to that.
 */
#ifndef COVE_OS_COPYTREE_H
#define COVE_OS_COPYTREE_H

#include "base/error.h"
#include "os/manifest.h"

#include <stdbool.h>

struct copytree {
	/* in */
	const char *label;      /* of the tree, in manifests: "m0/upper" */
	struct manifest *known; /* of an earlier copy, or NULL */
	int known_dir;          /* that copy */
	struct manifest *note;  /* to note this copy in, or NULL */
	int64_t note_before_ns; /* only files that last changed before this moment */
	const char *hollow; /* a directory of which only the shell is copied; or NULL */
	int (*tick)(void *arg); /* called now and then; not 0 ends it (a COVE_E*) */
	void *arg;
	/* out: added to */
	uint64_t files, bytes, linked; /* linked: of the files, those shared by link */
	/* own */
	bool no_reflink;
	unsigned since_tick;
};

/* Copies the directory src to a new directory `name` in dst, whose maker cleans up when
 * this fails. err says which path. */
int copytree(struct copytree *c, int src, int dst, const char *name,
	     struct cove_error *err);

/* One regular file's content: from the start of `from` to the empty file `to`. -errno. */
int copy_content(int from, int to, const struct stat *st, bool *no_reflink);

/* Attributes user.* of one descriptor onto another. -errno. */
int copy_xattrs(int from, int to);

#endif
