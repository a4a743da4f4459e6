/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup_impl - what the cgroup_*.c files share. */
#ifndef COVE_OS_CGROUP_IMPL_H
#define COVE_OS_CGROUP_IMPL_H

#include "os/cgroup.h"

#include <stdio.h>

enum cg_controller { CTL_MEMORY, CTL_CPU, CTL_PIDS, CTL_CPUACCT, CTL_N };

struct cg_home { /* the hierarchy that has a controller */
	char mount[128];
	int v2;
};

struct cg_layout {
	struct cg_home home[CTL_N]; /* mount "" if the host has no such controller */
};

/* find: where the hierarchies are; looked up once a process. */
const struct cg_layout *cg_layout(void);
const char *cg_name(enum cg_controller ctl);
uint32_t cg_bit(enum cg_controller ctl);
/* The caller's own group in the hierarchy of ctl, as an absolute path. 0 or -errno. */
int cg_own(const struct cg_home *home, enum cg_controller ctl, char *out, size_t n);

/* v1, v2: make the directory of c in this hierarchy and fill in d->path. bits: what it is
 * needed for. 0 or -errno (then nothing was made). */
int cg_make_v1(struct cgroup_dir *d, const struct cg_home *home, enum cg_controller ctl,
	       const char *id);
int cg_make_v2(struct cgroup_dir *d, const struct cg_home *home, const char *id,
	       uint32_t bits);

/* limits: writes what l asks for into the directory; all: also lifts what it does not ask
 * for. Returns the bits that failed, and in *ret_sys why the first one did. */
uint32_t cg_write_limits(const struct cgroup_dir *d, const struct cgroup_limits *l,
			 int all, int *ret_sys);

/* mkdir, over an empty directory of a crashed namesake if need be. 0 or -errno. */
int cg_mkdir(const char *path);
/* Formats a path: 0 or -ENAMETOOLONG. */
int cg_path(char *out, size_t n, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int cg_write(const char *dir, const char *file, const char *text); /* 0 or -errno */
/* Reads a small file, NUL-terminated; 0 or -errno. */
int cg_read(const char *dir, const char *file, char *out, size_t n);
/* The first number of a file; "max" and v1's largest value give UINT64_MAX. */
int cg_read_u64(const char *dir, const char *file, uint64_t *ret);
/* The number behind "key " at the start of a line of text; 0 if it is not there. */
uint64_t cg_field(const char *text, const char *key);

int cg_id_ok(const char *id);
int cg_remove_path(const char *path); /* kills and removes one directory; 0 or -errno */

#endif
