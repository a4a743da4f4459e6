/* SPDX-License-Identifier: Apache-2.0 */
/* store_impl - what the files of the store share. */
#ifndef COVE_CORE_STORE_IMPL_H
#define COVE_CORE_STORE_IMPL_H

#include "core/store.h"

#include <dirent.h>

#define SPEC_FILE "spec.json"

int store_rename_new(int dir, const char *from, const char *to);     /* like renameat2 */
int store_open_lock(struct store *s, const char *name, bool create); /* fd or -errno */
/* SPEC_FILE in a record or in one that is being made. */
int store_write_spec(int dir, const struct spec *spec, int sync, struct cove_error *err);
DIR *store_open_record(struct store *s, const char *name); /* NULL and errno */
bool store_is_layer(const char *name); /* m0, m1 ...: the layers of overlay mounts */

/* ---- what stays of removed sandboxes: HOME/WHAT/NAME-TIME (store_kept.c) ---------- */

int store_kept_open(const struct store *st, const char *what, bool make); /* or -errno */
/* The "-TIME" of an entry that is one of `name` (NULL: of any); NULL: it is none. Sorts
 * by time. */
const char *store_kept_stamp(const char *entry, const char *name);
/* Makes the directory PREFIX NAME-TIME of now, which was not there; out gets its name. */
int store_kept_make(int kept, const char *prefix, const char *name, char *out,
		    size_t size);

#endif
