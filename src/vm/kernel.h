/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel - the kernels that virtual machines run, in a directory of ours.
 *
 * DIR/NAME/ holds one: `vmlinuz`, `modules/` with the few modules that a guest needs, and
 * `manifest.json` with the checksum of each file, the modules in the order in which they
 * are loaded. A kernel is unpacked beside and renamed into place: it is there whole, or
 * not at all. Beside these lies initramfs.KEY.SUM, one for each cove-guest that was used
 * with it, made when it is needed; KEY says what it was made of, SUM is its checksum.
 * DIR/default is a symbolic link to the one that is used when nobody names another.
 */
#ifndef COVE_VM_KERNEL_H
#define COVE_VM_KERNEL_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define KERNEL_NAME_MAX 100
#define KERNEL_PATH_MAX 4200
#define KERNEL_DIGEST_HEX 65 /* BLAKE2b-256 and the terminator */

struct vm_kernel {
	char name[KERNEL_NAME_MAX + 1];
	char image[KERNEL_PATH_MAX];     /* bzImage or ELF: QEMU takes both */
	char initramfs[KERNEL_PATH_MAX]; /* of this kernel and that guest */
	char digest[KERNEL_DIGEST_HEX];  /* of image, modules and guest together */
	bool built_in; /* virtio-mmio devices from the command line: a tuned kernel */
};

/* Progress: done and total in bytes or steps (total 0: unknown); what: a few words. */
typedef void (*kernel_progress)(void *arg, const char *what, uint64_t done,
				uint64_t total);

/* Finds one (name NULL: the default), makes its initramfs for this cove-guest if it is
 * not there yet, and says its digest. Does not read the whole of the files: that is
 * kernel_verify(), before a boot. COVE_ENOENT with the command that installs one. */
int kernel_find(struct vm_kernel *ret, const char *dir, const char *name,
		const char *guest, struct cove_error *err);
/* Every file is what the manifest says, and the initramfs what its name says. */
int kernel_verify(const struct vm_kernel *k, struct cove_error *err);

/* The cloud kernel package of this distribution, unpacked, not installed; no root. deb:
 * a package file at hand, or NULL to fetch it. ret_name: KERNEL_NAME_MAX + 1 bytes. */
int kernel_install(const char *dir, const char *deb, char *ret_name,
		   kernel_progress progress, void *arg, struct cove_error *err);
/* A kernel of the user's own: an image, and a directory of modules (or NULL: all is
 * built in). */
int kernel_add(const char *dir, const char *name, const char *image, const char *modules,
	       struct cove_error *err);
/* The tuned one, compiled from the distribution's source package. */
int kernel_build(const char *dir, char *ret_name, kernel_progress progress, void *arg,
		 struct cove_error *err);
/* [{"name","version","bytes","modules","default","source","installedAt"}] */
json_t *kernel_list(const char *dir, struct cove_error *err);
int kernel_remove(const char *dir, const char *name, struct cove_error *err);
int kernel_set_default(const char *dir, const char *name, struct cove_error *err);

#endif
