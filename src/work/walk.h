/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk - goes over an upper layer beside the host directory below it, and reports each
 * path at which the two may differ.
 *
 * Only upper directories are listed, plus host directories that the layer hides (deleted,
 * replaced, opaque). A directory comes before what is in it; other than that there is no
 * order. Nothing is followed, and only directories are opened.
 */
#ifndef COVE_WORK_WALK_H
#define COVE_WORK_WALK_H

#include "work/attrs.h"
#include "work/layer.h"

struct walk_entry {
	const char *path;      /* below the layer; "." is the layer itself */
	const char *name;      /* in these directories; */
	int up_dir, low_dir;   /* -1: there is none */
	struct stat up, low;   /* st_mode 0: not there */
	bool hidden;           /* the host's path is not seen through this one */
	struct attrs up_attrs; /* of a directory; of a regular file with WALK_ATTRS */
	char why[80];          /* it cannot be looked into, because ... */
};

enum { WALK_ON = 0, WALK_SKIP = 1 }; /* WALK_SKIP: not into this directory */

enum walk_flags {
	WALK_ATTRS = 1 << 0, /* look at the attributes of files too */
};

/* fn: WALK_ON, WALK_SKIP, or -errno which ends the walk and is returned. */
int walk_layer(const struct layer *l, int (*fn)(void *arg, const struct walk_entry *e),
	       void *arg, uint32_t flags);

#endif
