/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_impl - what the files of `kernel` share: the record of a kernel, and how one
 * comes into the directory.
 *
 * Invariants
 *  1. Whoever changes the directory holds the flock of DIR/.lock.
 *  2. A name that starts with '.' is half-made or half-removed; it is swept by the next
 *     one who gets the lock.
 *  3. A kernel appears, and is replaced, by one rename, after everything in it is on the
 *     disk. What is below a kernel's directory never changes, but for initramfs.*, which
 *     can be made again.
 */
#ifndef COVE_VM_KERNEL_IMPL_H
#define COVE_VM_KERNEL_IMPL_H

#include "vm/kernel.h"
#include "vm/kernel_package.h"

#include <sys/types.h>

#define IMAGE_NAME "vmlinuz"
#define MODULES_DIR "modules"
#define RECORD_NAME "manifest.json"
#define DEFAULT_NAME "default"
#define KERNEL_IMAGE_MAX (1u << 30)

/* ---- the record: manifest.json ------------------------------------------------- */

#define KERNEL_FILE_MAX 100
struct kernel_file {
	char path[KERNEL_FILE_MAX + 1]; /* below the kernel's directory */
	uint64_t bytes;
	char sum[KERNEL_DIGEST_HEX];
};

enum kernel_origin { ORIGIN_PACKAGE, ORIGIN_OWN, ORIGIN_BUILT };

#define KERNEL_SOURCE_MAX 250
struct kernel_record {
	char version[KERNEL_VERSION_MAX + 1];
	char source[KERNEL_SOURCE_MAX + 1]; /* for people */
	enum kernel_origin origin;
	int64_t installed_at;
	bool built_in;
	struct kernel_file *files; /* the image, then the modules as they are loaded */
	size_t n_files;
};

void record_clear(struct kernel_record *r);
int record_read(struct kernel_record *ret, int kernel, struct cove_error *err);
int record_print(const struct kernel_record *r, struct buf *out); /* -errno */
uint64_t record_bytes(const struct kernel_record *r);

/* It is there with its size (and, if whole, its content). COVE_EDAMAGED. */
int record_check_file(const struct kernel_file *f, int kernel, bool whole,
		      struct cove_error *err);
int record_check(const struct kernel_record *r, int kernel, bool whole,
		 struct cove_error *err); /* all of them */

void kernel_digest(const void *data, size_t n, char ret[KERNEL_DIGEST_HEX]);
int kernel_digest_fd(int fd, char ret[KERNEL_DIGEST_HEX]); /* -errno */

/* ---- the directory ------------------------------------------------------------- */

bool kernel_name_ok(const char *name);
/* Letters, digits and what versions have between them; the rest becomes '-'. */
void kernel_name_from(const char *version, char ret[KERNEL_NAME_MAX + 1]);

/* Where to say how far things are; the callback may be NULL. */
struct kernel_report {
	kernel_progress progress;
	void *arg;
};
void report(const struct kernel_report *r, const char *what, uint64_t done,
	    uint64_t total);

/* DIR, locked and swept. make: it is made if needed; otherwise that it is not there is
 * COVE_ENOENT. */
struct kernels {
	const char *path;
	int dir, lock;
};
int kernels_lock(struct kernels *ret, const char *path, bool make,
		 const struct kernel_report *r, struct cove_error *err);
int kernels_none(
	struct cove_error *err); /* says so, with the command that installs one */
/* Removes what is half-made or half-removed, of oneself or of somebody killed. */
void kernels_sweep(struct kernels *k);
void kernels_unlock(struct kernels *k);
#define cleanup_kernels __attribute__((cleanup(kernels_unlock)))

/* A directory of its own below DIR; what is in it goes with the next sweep. */
int kernels_scratch(struct kernels *k, const char *prefix, char *ret, size_t size,
		    struct cove_error *err);
int kernels_open_one(int dir, const char *name, struct cove_error *err);
/* The name that DIR/default points to; false: none. */
bool kernels_default(int dir, char ret[KERNEL_NAME_MAX + 1]);
int kernels_point(struct kernels *k, const char *name, struct cove_error *err);

/* ---- a kernel in the making ---------------------------------------------------- */

struct stage {
	struct kernels *k;
	char name[64]; /* below DIR */
	int dir;
	struct kernel_record record;
};

int stage_begin(struct stage *s, struct kernels *k, struct cove_error *err);
/* Writes a file and enters it into the record, which begins with the image. */
int stage_put(struct stage *s, const char *path, const void *data, size_t n,
	      struct cove_error *err);
int stage_put_modules(struct stage *s, const struct module_set *m,
		      struct cove_error *err);
/* Gives it its name; one that is there is replaced. The rest of the record is filled in
 * by then. It becomes the default if there is none, or one of the same origin. */
int stage_commit(struct stage *s, const char *name, struct cove_error *err);
void stage_clear(struct stage *s); /* removes what was not committed */
#define cleanup_stage __attribute__((cleanup(stage_clear)))

/* ---- Debian's archive ---------------------------------------------------------- */

#define PACKAGE_FILE_MAX 255

/* apt, without root: the host's package lists, or our own where these are missing or
 * stale. dir: a scratch directory. */
struct archive {
	const char *dir;
	const struct kernel_report *report;
	bool own_lists;
	struct cove_error lists; /* what went wrong with them */
};

/* The package that `meta` stands for: its dependency whose name begins with prefix, as
 * NAME_VERSION (what a file of it begins with). */
int archive_resolve(struct archive *a, const char *meta, const char *prefix,
		    char ret[PACKAGE_FILE_MAX + 1], struct cove_error *err);
/* Fetches it (NAME_VERSION as above, or a name); apt checks signature and checksum. ret:
 * the file's name below dir. */
int archive_fetch(struct archive *a, const char *package, char ret[PACKAGE_FILE_MAX + 1],
		  struct cove_error *err);

#endif
