/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image - root file systems that come as a file: unpacked once, shared by all sandboxes.
 *
 *	HOME/images/KEY/	manifest.json, root/
 *	HOME/images/.locks/KEY	flock: shared by who runs with it, exclusive by who makes
 *				or removes it
 *	HOME/images/.files/	digests of files, for as long as these are the same
 *	HOME/images/.new-KEY	half made, .old-KEY half removed: nobody uses them
 *
 * Invariants
 *  1. The spec of a sandbox names its image by content: `tar:FILE` becomes
 *     `tar:FILE@sha256:HEX` when it is resolved. What is below its layer never changes,
 *     whatever becomes of the file; and with the image unpacked, the file may go.
 *  2. HOME/images/KEY appears by one rename, whole and on disk. Lock files stay: one that
 *     is unlinked locks nothing.
 *  3. The file is anybody's work: only cove-untar reads it in depth.
 */
#ifndef COVE_CORE_IMAGE_H
#define COVE_CORE_IMAGE_H

#include "core/store.h"

#include <limits.h>

#define IMAGE_KEY_HEX 33

/* Held while it is used. */
struct image {
	int lock;            /* -1: nothing to hold */
	char root[PATH_MAX]; /* directory on the host; "": the root is none */
};
#define IMAGE_NONE \
	{ \
		.lock = -1, .root = "" \
	}

/* Makes the image of a spec complete: absolute, and with its digest. */
int image_resolve(const struct store *st, struct spec *s, struct cove_error *err);
/* It is there: unpacked now, if nobody did before, which is told by log lines. */
int image_use(const struct store *st, const struct spec *s, struct image *ret,
	      struct cove_error *err);
void image_release(struct image *im);

/* image_list.c; see cove_images_json() and cove_image_remove(). */
int images_list(struct store *st, json_t **ret, struct cove_error *err);
int image_remove(struct store *st, const char *key, struct cove_error *err);

#endif
