/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_impl - what the files about snapshots, clones and archives share. */
#ifndef COVE_CORE_SNAPSHOT_IMPL_H
#define COVE_CORE_SNAPSHOT_IMPL_H

#include "core/snapshot.h"

#define SNAPSHOTS "snapshots"
#define SNAPSHOT_META "meta.json"
#define SNAPSHOT_MANIFEST "manifest"
#define RESTORING "restoring"
#define META_MAX (2u << 20)

int snapshot_check_tag(const char *tag, struct cove_error *err);
/* An existing snapshot: a descriptor, or a negative code. */
int snapshot_open(int record, const char *name, const char *tag, struct cove_error *err);
/* record/snapshots, made if `make`, without what was left half-made. */
int snapshots_dir(int record, bool make, struct cove_error *err);
/* Its meta.json, checked for shape; a new reference. */
json_t *snapshot_load_meta(int dir, const char *tag, struct cove_error *err);
int snapshot_load_spec(int dir, const char *tag, struct spec *ret,
		       struct cove_error *err);

/* One that `cove fork` makes for itself: with this file in it, and a lock on the open
 * directory for as long as it is used. Others do not see it, and remove it afterwards. */
int snapshot_mark_forking(int dir); /* -1 with errno */
bool snapshot_is_forking(int snapshots, const char *tag);

/* The tag in record/parent; "" if there is none. */
void snapshot_parent(int record, char out[SPEC_NAME_MAX + 1]);
int snapshot_set_parent(int record, const char *tag); /* -errno */

/* Removes names in dir that start with ".new-" or ".old-". */
void sweep_dots(int dir);
/* Makes everything below this descriptor's file system last. */
int sync_all(int dir, struct cove_error *err);
int write_json(int dir, const char *name, json_t *j,
	       struct cove_error *err); /* takes j */

/* Completes a restore that has been decided. */
int restore_finish(struct cut *c, struct cove_error *err);

#endif
