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

#endif
