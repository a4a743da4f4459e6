/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qemu - the command line of one machine, as data.
 *
 * The machine is the smallest that QEMU has (microvm): no firmware that matters, no PCI,
 * no network, no graphics; a serial console, and one virtio-serial device with three
 * ports; a disk that is memory, for the bytes of files (base/fusemsg.h); other disks only
 * for swap, and for an image that is one. A machine that is saved and
 * one that is restored differ in `share` and `incoming` only; one that is neither has
 * memory that is no file.
 */
#ifndef COVE_VM_QEMU_H
#define COVE_VM_QEMU_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define QEMU_ARGS_MAX 80

/* Paths as QEMU sees them: it lives in a root of its own (backend/vm_root.c). */
#define QEMU_VM_DIR "/vm"         /* the template: ram */
#define QEMU_KERNEL_DIR "/kernel" /* image and initramfs */

/* What guest/machine_disk.c looks for. */
#define QEMU_SWAP_SERIAL "cove.swap"
#define QEMU_IMAGE_SERIAL "cove.image"
#define QEMU_LAYER_SERIAL "cove.layer"
#define QEMU_WINDOW_SERIAL "cove.window"

struct qemu_machine {
	const char *program; /* qemu-system-x86_64 */
	bool kvm;
	unsigned cpus;
	uint64_t memory; /* bytes */
	bool share;      /* writes reach the memory file: a template is being made */
	bool incoming;   /* wait for the state of a template */
	bool saved;      /* with incoming: of all of its memory, too, which is no file */
	const char *kernel, *initramfs;  /* file names below QEMU_KERNEL_DIR; or NULL */
	bool tuned;                      /* a kernel that finds its devices by itself */
	uint64_t tsc_khz;                /* of this host; needed to boot without KVM */
	const char *append;              /* what the kernel is told besides; or NULL */
	int console, qmp, link, fs, net; /* descriptors it inherits */
	int swap;                        /* the same, or -1: a disk for swap */
	int window;                      /* the same: memory for files' bytes */
	/* It has a disk with the image, read-only, and one for what is written. -1: the
	 * devices are there, but nothing is behind them yet: so a template is made. */
	bool disks, qcow2;
	int image, layer;
};

struct qemu_args {
	const char *v[QEMU_ARGS_MAX + 1];
	size_t n;
	char text[8192];
	size_t used;
	bool full;
};

/* -1: too much for the arrays, a bug. */
int qemu_args(struct qemu_args *a, const struct qemu_machine *m);

#define QEMU_VERSION_MAX 80
/* Where it is and what it calls itself ("7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)"). The
 * version is what the file says when it is run, kept for as long as the file is the same.
 */
int qemu_find(char path[4096], struct cove_error *err);
int qemu_version(const char *path, const char *cache_dir, char version[QEMU_VERSION_MAX],
		 struct cove_error *err);

#define QEMU_APPEND_MAX 512
/* COVE_KERNEL_ARGS: what the user wants every guest kernel to be told; "" if nothing. */
int qemu_append(char append[QEMU_APPEND_MAX], struct cove_error *err);

#endif
