/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm_disk - the two disks of a machine whose image is one.
 *
 * The image is a file of the user's, opened read-only and never written. What the sandbox
 * writes goes to a second disk: a sparse file of resources.diskGiB bytes with an empty
 * ext4 in it, which the guest lays over the image. So the limit is the size of a file
 * system, and what is deleted inside becomes a hole here. No file system of either is
 * ever mounted by the host.
 *
 *	LAYER/disk	the second disk
 *	LAYER/base	of which image it is a layer: its size and time. A layer over
 *			another image would be neither the one nor the other.
 */
#include "backend/vm_impl.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/util.h"
#include "vm/kernel_tool.h"
#include "vm/qcow2.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define UNLIMITED (64ull << 30) /* of a spec that has no limit */
#define BLOCK 4096u
#define SMALL (1ull << 30)
#define BASE_MAX 200

/* ---- the image ------------------------------------------------------------------ */

static int check_qcow2(int fd, const char *path, struct cove_error *err)
{
	uint8_t head[QCOW2_HEAD];
	ssize_t n = pread(fd, head, sizeof(head), 0);
	const char *why = NULL;
	uint64_t size;

	if (n < 0)
		return fail(err, COVE_EIO, errno, "image: %s", path);
	why = qcow2_check(head, (size_t)n, &size);
	if (!why)
		return 0;
	fail(err, COVE_EINVAL, 0, "image: %s: %s", path, why);
	return hint(err, "'qemu-img convert -O qcow2' makes one that stands alone");
}

static int open_image(const struct place_config *c, struct stat *ret,
		      struct cove_error *err)
{
	const char *path = c->image_disk;
	cleanup_fd int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, ret) < 0)
		return fail(err, COVE_EINVAL, errno, "image: %s", path);
	if (!S_ISREG(ret->st_mode) || ret->st_size < (off_t)BLOCK)
		return fail(err, COVE_EINVAL, 0, "image: %s is no file with a disk in it",
			    path);
	if (c->spec->image.kind == IMAGE_QCOW2 && check_qcow2(fd, path, err) < 0)
		return err->code;
	return take_fd(&fd);
}

int vm_disk_check(const struct place_config *c, struct cove_error *err)
{
	struct stat st;

	if (!c->image_disk)
		return 0;
	cleanup_fd int fd = open_image(c, &st, err);
	return fd < 0 ? err->code : 0;
}

static void name_base(char out[BASE_MAX], const struct place_config *c,
		      const struct stat *st)
{
	snprintf(out, BASE_MAX, "%s %lld bytes of %lld.%09ld\n",
		 spec_image_prefix(c->spec->image.kind), (long long)st->st_size,
		 (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
}

/* ---- the layer ------------------------------------------------------------------ */

/* An ordinary user's PATH may lack the directory in which it is. */
static const char *find_mke2fs(void)
{
	static const char *const places[] = {"/usr/sbin/mke2fs", "/sbin/mke2fs",
					     "/usr/local/sbin/mke2fs"};

	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		if (access(places[i], X_OK) == 0)
			return places[i];
	return "mke2fs";
}

/* What the kernel would clear in the background is a hole already. */
static int format(const char *path, uint64_t bytes, struct cove_error *err)
{
	const char *const argv[] = {
		find_mke2fs(),
		"-q",
		"-F",
		"-t",
		"ext4",
		"-m",
		"0",
		"-b",
		"4096",
		"-E",
		"lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0",
		"-J",
		bytes < SMALL ? "size=4" : "size=32",
		path,
		NULL};
	const struct tool t = {.argv = argv, .in = -1, .out = -1};
	int r = tool_run(&t, err);

	if (r == COVE_EUNSUPPORTED) {
		fail(err, COVE_EUNSUPPORTED, 0,
		     "no mke2fs: a layer over the image needs it");
		return hint(err, "apt-get install e2fsprogs");
	}
	return r < 0 ? wrap(err, "layer of the image") : 0;
}

/* It appears whole, or not at all. */
static int make_layer(int dir, const char *where, const char *base, uint64_t bytes,
		      struct cove_error *err)
{
	char path[4200];
	int r = 0;

	snprintf(path, sizeof(path), "%s/disk.new", where);
	unlinkat(dir, "disk.new", 0);
	cleanup_fd int fd =
		openat(dir, "disk.new",
		       O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		return fail(err, COVE_EIO, errno, "layer of the image");
	if (format(path, bytes, err) < 0)
		return err->code;
	r = write_file_atomic(dir, "base", base, strlen(base), 0600, 0);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "layer of the image");
	if (renameat(dir, "disk.new", dir, "disk") < 0)
		return fail(err, COVE_EIO, errno, "layer of the image");
	return take_fd(&fd);
}

static int check_base(int dir, const char *want, const char *image,
		      struct cove_error *err)
{
	cleanup_buf struct buf have = BUF_INIT(BASE_MAX);

	if (read_file_at(dir, "base", &have) == 0 && have.len == strlen(want) &&
	    memcmp(have.data, want, have.len) == 0)
		return 0;
	fail(err, COVE_EINVAL, 0,
	     "image: %s is not what the sandbox's disk is a layer of", image);
	return hint(err,
		    "put the old file back with its time, or 'cove reset' the sandbox");
}

/* The guest makes the file system as large as it has become. */
static int check_size(int fd, uint64_t bytes, uint64_t *ret, struct cove_error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return fail(err, COVE_EIO, errno, "layer of the image");
	if ((uint64_t)st.st_size > bytes) {
		fail(err, COVE_EINVAL, 0,
		     "resources.diskGiB: the sandbox has a disk of %llu MiB, which "
		     "cannot "
		     "shrink",
		     (unsigned long long)st.st_size >> 20);
		return hint(err, "set it back, or 'cove reset' the sandbox");
	}
	if ((uint64_t)st.st_size < bytes && ftruncate(fd, (off_t)bytes) < 0)
		return fail(err, COVE_EIO, errno, "layer of the image");
	*ret = bytes;
	return 0;
}

static int open_layer(struct vm_disks *d, const struct place_config *c,
		      const struct stat *image, struct cove_error *err)
{
	uint64_t limit = c->spec->resources.disk_bytes;
	uint64_t bytes = (limit ? limit : UNLIMITED) & ~(uint64_t)(BLOCK - 1);
	cleanup_fd int dir = open(c->root_layer, OPEN_DIR);
	char base[BASE_MAX];

	if (dir < 0)
		return fail(err, COVE_EIO, errno, "layer of the image");
	name_base(base, c, image);
	d->layer = openat(dir, "disk", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (d->layer < 0 && errno == ENOENT)
		d->layer = make_layer(dir, c->root_layer, base, bytes, err);
	else if (d->layer < 0)
		fail(err, COVE_EIO, errno, "layer of the image");
	else if (check_base(dir, base, c->image_disk, err) < 0)
		return err->code;
	if (d->layer < 0)
		return err->code;
	return check_size(d->layer, bytes, &d->bytes, err);
}

int vm_disks_open(struct vm_disks *ret, const struct place_config *c,
		  struct cove_error *err)
{
	struct stat st;

	*ret = (struct vm_disks){-1, -1, 0};
	ret->image = open_image(c, &st, err);
	if (ret->image >= 0 && open_layer(ret, c, &st, err) == 0)
		return 0;
	close_fd(&ret->image);
	close_fd(&ret->layer);
	return err->code;
}
