/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer - one overlay mount of a sandbox, seen from the host: the directory below it, and
 * the upper directory that holds what was changed.
 *
 * Everything in the upper directory was made by the sandbox: names, contents, modes and
 * attributes are hostile. It may change at any moment while the sandbox runs.
 */
#ifndef COVE_WORK_LAYER_H
#define COVE_WORK_LAYER_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct layer {
	char *source;  /* host directory, absolute */
	char *target;  /* inside, absolute */
	char name[24]; /* "m0": its directory in the record */
	char **skip;   /* paths below it that other mounts or masks cover; sorted */
	size_t n_skip;
	int lower; /* O_RDONLY | O_DIRECTORY of source */
	int dir;   /* record/mN */
	int upper; /* record/mN/upper; -1: there is none yet, so no changes */
};

struct layers {
	struct layer *v;
	size_t n;
	int record;   /* the sandbox's directory */
	bool running; /* the overlay is mounted: upper may be read, never written */
};

void layers_clear(struct layers *l);

/* When the overlay was last mounted: what the sandbox saw below is no newer than what it
 * was then, or it saw it change. CLOCK_REALTIME, ns; 0: never. (mtime of mN/work, in
 * which the kernel makes its scratch directory at the mount.) */
int64_t layer_since(const struct layer *l);

/* Opens path (relative, already a clean one) beneath dir without following any symlink,
 * in the middle or at the end. -errno on failure. */
int open_beneath(int dir, const char *path, int flags);
/* The parent of path, and the name in it. */
int open_parent(int dir, const char *path, const char **ret_name);

/* What identifies a state of a file well enough to notice that somebody changed it. */
struct ident {
	uint32_t mode; /* st_mode; 0: did not exist */
	uint32_t uid, gid;
	uint64_t dev, ino, size;
	int64_t mtime_ns, ctime_ns;
};

void ident_from(struct ident *id, const struct stat *st);
/* fstatat without following; a missing path gives mode 0 and success. */
int ident_at(int dir, const char *path, struct ident *ret);
bool ident_same(const struct ident *a, const struct ident *b); /* all fields */
/* Without ctime and device, which renames and remounts change. */
bool ident_same_file(const struct ident *a, const struct ident *b);
/* Moved, maybe by a copy: type, mode and owner, and but for directories size and time. */
bool ident_alike(const struct ident *a, const struct ident *b);

#endif
