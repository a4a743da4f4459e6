/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_package - finds an image and its modules in a kernel package.
 *
 * A .deb is opened by dpkg-deb (or taken apart here, where there is none) and its tree
 * comes out as one tar archive, of ustar or GNU kind, which is looked at in memory. The
 * package may be anybody's: whatever reads it is pure, and only two sorts of paths are
 * looked for in it.
 */
#ifndef COVE_VM_KERNEL_PACKAGE_H
#define COVE_VM_KERNEL_PACKAGE_H

#include "vm/modules.h"

/* ---- an archive in memory; pure ------------------------------------------------ */

#define PACKAGE_PATH_MAX 4095

struct tar_walk {
	const uint8_t *data;
	size_t size, at;
	char path[PACKAGE_PATH_MAX + 1];
};

struct tar_file {
	const char *path; /* without "./"; valid until the next call */
	const uint8_t *data;
	size_t size;
};

/* The next ordinary file. 1; 0: the end; -EBADMSG. */
int tar_walk_next(struct tar_walk *w, struct tar_file *ret);

/* The member of a .deb that has the tree: "data.tar", with what follows in its name.
 * -EBADMSG: not a package. */
int deb_find_tree(const uint8_t *data, size_t n, size_t *ret_at, size_t *ret_size,
		  enum module_packing *ret_packing);

/* What an image says of itself, "6.1.0-54-cloud-amd64" (a bzImage or an ELF file). False:
 * it is not the image of a kernel, or it does not say. */
#define KERNEL_VERSION_MAX 100
bool image_version(const uint8_t *data, size_t n, char ret[KERNEL_VERSION_MAX + 1]);
bool image_is_one(const uint8_t *data, size_t n);

/* ---- what was found ------------------------------------------------------------ */

struct package_module {
	char name[MODULE_NAME_MAX + 1];
	enum module_packing packing;
	const uint8_t *data;
	size_t size;
};

struct package {
	const uint8_t *image;
	size_t image_size;
	char version[KERNEL_VERSION_MAX + 1]; /* of its file name */
	const char *builtin;                  /* modules.builtin */
	size_t builtin_size;
	struct package_module *modules;
	size_t n_modules;
};

/* Points into the archive, which must stay. */
int package_look(struct package *ret, const uint8_t *tar, size_t n,
		 struct cove_error *err);
void package_clear(struct package *p);
/* Its modules as a source; borrows p. */
struct module_source package_source(struct package *p);

#endif
