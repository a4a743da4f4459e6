/* SPDX-License-Identifier: Apache-2.0 */
/*
 * treewalk - every path of a tree, each once: no symlink is followed, nothing is
 * recursive, and the number of open descriptors is bounded, however deep an agent made
 * the tree.
 */
#ifndef COVE_OS_TREEWALK_H
#define COVE_OS_TREEWALK_H

#include "base/buf.h"

#include <sys/stat.h>

/* ---- a way down into a tree, with a way back ------------------------------------ */

/* Directories entered one after the other. Only the last few stay open; those above are
 * opened again through ".." and must be the same ones. */
struct dirstack {
	struct dirlevel *v;
	size_t n, cap;
};

void dirstack_clear(struct dirstack *s);
int dirstack_push(struct dirstack *s, int fd); /* takes fd, also on failure; -errno */
int dirstack_pop(struct dirstack *s);          /* 0, or -errno: the way up is gone */
int dirstack_top(const struct dirstack *s);    /* descriptor, borrowed */

/* ---- the walk ------------------------------------------------------------------- */

struct tree_entry {
	int dir; /* it is in this directory ... */
	const char *name;
	const char *path; /* ... and has this path below the start; "": the start */
	size_t path_len;
	const struct stat *st;
	int fd; /* of a directory, open for reading; else -1 */
};

#define TREE_HOLLOW 1 /* enter: not into this one; leave is called all the same */

/* Anything but 0 ends the walk and is its result. */
struct tree_ops {
	int (*enter)(void *arg, const struct tree_entry *e); /* before what is in it */
	int (*leave)(void *arg, const struct tree_entry *e); /* after that */
	int (*file)(void *arg, const struct tree_entry *e);  /* not a directory */
};

#define TREE_PATH_MAX (1u << 20)

/* The start is entered and left like any other. where: on failure the path that was
 * looked at. -EXDEV: something else is mounted in there. */
int tree_walk(int start, const struct tree_ops *ops, void *arg, struct buf *where);

#endif
