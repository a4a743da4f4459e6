/* SPDX-License-Identifier: Apache-2.0 */
/*
 * change - what a sandbox changed, read from its upper layers.
 *
 * The list is flat and complete: a new directory is one change and everything in it is
 * one each; a deleted directory is one change for it and one for each path that was in it
 * on the host; likewise below a directory that became a file. Sorted by layer, then by
 * path (byte order, a directory before what is in it). Directories that are only there
 * because something below them changed are no change. Files whose content, mode, owner
 * and attributes equal the host's (touched only) are no change, nor are paths that the
 * ledger knows as applied and that the sandbox did not change since.
 *
 * Cost follows the changes: only upper directories are listed, plus host directories that
 * were deleted or replaced.
 */
#ifndef COVE_WORK_CHANGE_H
#define COVE_WORK_CHANGE_H

#include "work/layer.h"
#include "work/ledger.h"

struct change {
	size_t layer;  /* index in layers */
	char *path;    /* below the layer, no leading or trailing slash */
	char *from;    /* COVE_RENAMED: the path on the host that it was; or NULL */
	uint32_t kind; /* enum cove_change_kind */
	uint32_t what; /* bits of enum cove_change_what, BINARY left out */
	struct ident old, new;         /* lower and upper; mode 0: not there */
	char *old_target, *new_target; /* of symlinks */
	char why[80];                  /* with COVE_WHAT_UNREADABLE: the reason */
};

struct changes {
	struct change *v;
	size_t n;
};

#define CHANGES_MAX 2000000  /* more than this is refused, not listed by halves */
#define CHANGE_DEPTH_MAX 512 /* directories deeper than this are UNREADABLE */

enum changes_flags {
	CHANGES_NO_RENAMES = 1 << 0, /* a rename stays an add and a delete */
};

/* ledgers: one for each layer (entries may be NULL). paths: NULL, or a NULL-terminated
 * list of what to list: paths below a layer, absolute host paths, or globs (see
 * path_match()); a directory means everything in it. A pattern that names nothing is
 * COVE_ENOENT. */
int changes_list(struct changes *ret, const struct layers *l,
		 struct ledger *const *ledgers, const char *const *paths, uint32_t flags,
		 struct cove_error *err);
void changes_clear(struct changes *c);

/* Opens the content of one side of a regular file; checks that it is still the file that
 * was listed. -errno; -ESTALE: it changed meanwhile. */
int change_open_old(const struct layers *l, const struct change *c);
int change_open_new(const struct layers *l, const struct change *c);

/* As the public interface shows it; strings are borrowed. */
void change_export(const struct layers *l, const struct change *c,
		   struct cove_change *ret);

/* Does path match a pattern? Gitignore-like: '*' and '?' do not match '/', "**" does; a
 * pattern without '/' matches the last component at any depth; "dir" and "dir/" match
 * what is in it too. Pure; shared with the gate's allow and deny lists. */
bool path_match(const char *pattern, const char *path);

#endif
