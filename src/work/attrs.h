/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attrs - extended attributes of files: those that overlayfs keeps its own notes in, and
 * those that matter to whoever owns the file (user.*, capabilities, ACLs).
 *
 * A file is named by a directory and a name in it, or by its own descriptor (name NULL);
 * it is never followed.
 */
#ifndef COVE_WORK_ATTRS_H
#define COVE_WORK_ATTRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct attrs {
	bool opaque;     /* a directory that hides what is below it */
	bool origin;     /* was copied up: overlayfs noted from what */
	bool matter;     /* has attributes that matter */
	char forged[48]; /* a note that overlayfs does not leave: its name */
};

/* 0, or -errno. A file system without attributes has none. */
int attrs_look(int dir, const char *name, bool is_dir, struct attrs *ret);

/* Do the attributes that matter have the same names and values? 1, 0 or -errno. */
int attrs_same(int a_dir, const char *a_name, int b_dir, const char *b_name);

/* May this file of the host be what a copied-up one (attrs.origin) was copied from? Where
 * overlayfs is mounted in a user namespace, it notes that it copied, but not what. */
bool attrs_origin_fits(int up_dir, const char *up_name, int low_dir,
		       const char *low_name);

/* A key by which files that were copied up can be matched with what they were: the file
 * handle. Returns its length, 0 if there is none. */
#define ORIGIN_MAX 136
size_t origin_noted(int up_dir, const char *up_name, uint8_t key[ORIGIN_MAX]);
size_t origin_of(int low_dir, const char *low_name, uint8_t key[ORIGIN_MAX]);

/* When the inode was made: what a sandbox cannot change. CLOCK_REALTIME; 0: not known. */
int64_t birth_ns(int dir, const char *name);

#endif
