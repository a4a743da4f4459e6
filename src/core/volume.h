/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume - named directories that outlive sandboxes: HOME/volumes/NAME.
 *
 * A volume is made when it is first mounted. Whoever runs with it holds the flock of
 * HOME/volumes/.locks/NAME: exclusive, or shared where the mount says so. The kernel
 * drops it with the holder. The lock files stay: one that is unlinked locks nothing.
 */
#ifndef COVE_CORE_VOLUME_H
#define COVE_CORE_VOLUME_H

#include "core/store.h"

struct volume_lock {
	char name[SPEC_NAME_MAX + 1];
	int fd;
};

struct volume_locks {
	struct volume_lock *v;
	size_t n;
};

/* HOME/volumes, made if it is not there: a descriptor, or a negative code and err. */
int volume_parent(struct store *st, struct cove_error *err);

/* Makes it if needed, locks it unless *l has it, and tells its absolute path.
 * COVE_EDENIED: somebody else uses it. */
int volume_use(struct store *st, const char *name, bool shared, struct volume_locks *l,
	       char *path, size_t size, struct cove_error *err);
/* The same for all volumes of a spec, without the paths: for whoever copies or replaces
 * them while the sandbox is stopped. */
int volumes_use(struct store *st, const struct spec *s, struct volume_locks *l,
		struct cove_error *err);
void volume_release(struct volume_locks *l);

/* See cove_volumes_json() and cove_volume_remove(). */
int volumes_list(struct store *st, json_t **ret, struct cove_error *err);
int volume_remove(struct store *st, const char *name, struct cove_error *err);

#endif
