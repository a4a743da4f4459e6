/* SPDX-License-Identifier: Apache-2.0 */
/*
 * provision - the commands of `provision:`, run once for everybody who asks for the same.
 *
 *	HOME/cache/provision/DIGEST/{home,root}	what they made: the home directory and,
 *						with an image, the upper layer of the root
 *						(of one that is a disk: the disk over it)
 *	HOME/cache/provision/DIGEST.lock	held while they run
 *
 * DIGEST covers the commands, the image, the user, the environment and the version of
 * cove; of an image that is a disk also how large the disk over it is. They run in a
 * sandbox of the same spec, with persistent storage and without mounts. A sandbox gets a
 * copy (blocks shared where the file system can): at its first start with persistent
 * storage, at every start with ephemeral storage.
 */
#ifndef COVE_CORE_PROVISION_H
#define COVE_CORE_PROVISION_H

#include "core/store.h"

struct provision_hooks {
	void (*progress)(void *arg, const char *what, int percent); /* or NULL */
	void (*output)(void *arg, int fd, const void *data, size_t n);
	void *arg;
	bool degraded; /* as for a start */
};

/* Does the spec have any commands? */
bool provision_wanted(const struct spec *s);

/* Has the cache what sandbox `name` (NULL: a new one) would copy at its next start? Runs
 * the commands if it does not; whoever wants the same meanwhile waits. */
int provision_ensure(struct store *st, const struct spec *s, const char *name,
		     const struct provision_hooks *h, struct cove_error *err);

/* Copies what was made into a record that has no home yet. */
int provision_install(struct store *st, const struct spec *s, int record,
		      struct cove_error *err);

/* provision_run.c: runs the commands and leaves home and root in the directory `to`. */
int provision_run(struct store *st, const struct spec *s, int to,
		  const struct provision_hooks *h, struct cove_error *err);

#endif
