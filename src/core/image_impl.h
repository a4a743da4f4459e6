/* SPDX-License-Identifier: Apache-2.0 */
/* image_impl - what the files of images share. */
#ifndef COVE_CORE_IMAGE_IMPL_H
#define COVE_CORE_IMAGE_IMPL_H

#include "core/image.h"

#define IMAGE_MANIFEST "manifest.json"
#define IMAGE_ROOT "root"
#define IMAGE_NEW ".new-"
#define IMAGE_OLD ".old-"
#define IMAGE_FORMAT 1
#define SHA256_HEX 65

/* The value of a spec's image, in its parts. */
struct image_ref {
	char path[PATH_MAX];
	char digest[SHA256_HEX]; /* "": not known yet */
	char key[IMAGE_KEY_HEX];
};

int image_ref_parse(struct image_ref *ret, const struct spec *s, struct cove_error *err);

/* HOME/images, made if it is not there: a descriptor, or a negative code and err. */
int image_folder(const struct store *st, struct cove_error *err);
/* The lock file of an image, open and not locked; likewise. */
int image_lock_file(int folder, const char *key, struct cove_error *err);
bool image_there(int folder, const char *key);
/* What crashed makers and removers left. */
void image_sweep(int folder);

/* image_digest.c: of a file, by its content; what was computed for the same file before
 * is believed. */
int image_digest(int folder, const char *path, int fd, char out[SHA256_HEX],
		 struct cove_error *err);

/* image_unpack.c: an open tar file into an empty directory, by cove-untar. */
struct image_facts {
	uint64_t entries, devices; /* made, and left out */
};
int image_unpack(int file, int dir, uint64_t bytes_max, struct image_facts *ret,
		 struct cove_error *err);

#endif
