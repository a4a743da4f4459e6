/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/kernel_impl.h"

#include "base/io.h"
#include "base/util.h"
#include "vm/initramfs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define GUEST_MAX (64u << 20)

/* ---- initramfs.KEY.SUM: what it was made of, what it is ------------------------ */

#define RAMFS_PREFIX "initramfs."
#define RAMFS_FORMAT "cove-initramfs-1" /* changes with initramfs.c */
#define RAMFS_KEY 32                    /* digits of a checksum; enough for a name */
#define RAMFS_SUM (KERNEL_DIGEST_HEX - 1)
#define RAMFS_NAME_MAX (sizeof(RAMFS_PREFIX) + RAMFS_KEY + 1 + RAMFS_SUM)
#define RAMFS_KEPT 4 /* other versions of cove may be in use */

static const char *ramfs_sum(const char *name)
{
	return name + sizeof(RAMFS_PREFIX) - 1 + RAMFS_KEY + 1;
}

static bool ramfs_is(const char *name, const char *key)
{
	const size_t prefix = sizeof(RAMFS_PREFIX) - 1;

	return strlen(name) == RAMFS_NAME_MAX - 1 &&
	       memcmp(name, RAMFS_PREFIX, prefix) == 0 &&
	       (!key || memcmp(name + prefix, key, RAMFS_KEY) == 0);
}

static DIR *open_listing(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d && fd >= 0)
		close(fd);
	return d;
}

static bool ramfs_find(int kernel, const char *key, char ret[RAMFS_NAME_MAX])
{
	DIR *d = open_listing(kernel);
	bool found = false;
	struct dirent *e;

	while (d && !found && (e = readdir(d))) {
		found = ramfs_is(e->d_name, key);
		if (found)
			memcpy(ret, e->d_name, RAMFS_NAME_MAX);
	}
	if (d)
		closedir(d);
	return found;
}

/* The oldest one, if there are more than are kept; false: there are not. */
static bool ramfs_drop_oldest(int kernel)
{
	DIR *d = open_listing(kernel);
	char oldest[RAMFS_NAME_MAX] = "";
	struct timespec least = {0};
	struct dirent *e;
	unsigned n = 0;

	while (d && (e = readdir(d))) {
		struct stat st;

		if (!ramfs_is(e->d_name, NULL) ||
		    fstatat(kernel, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (n++ == 0 || st.st_mtim.tv_sec < least.tv_sec ||
		    (st.st_mtim.tv_sec == least.tv_sec &&
		     st.st_mtim.tv_nsec < least.tv_nsec)) {
			least = st.st_mtim;
			memcpy(oldest, e->d_name, RAMFS_NAME_MAX);
		}
	}
	if (d)
		closedir(d);
	return n > RAMFS_KEPT && unlinkat(kernel, oldest, 0) == 0;
}

/* The modules of the record, read and compared with it. */
static int read_modules(const struct kernel_record *r, int kernel, struct buf *contents,
			struct initramfs_module *v, struct cove_error *err)
{
	for (size_t i = 1; i < r->n_files; i++) {
		const struct kernel_file *f = &r->files[i];
		struct buf *b = &contents[i - 1];
		char sum[KERNEL_DIGEST_HEX];
		int e;

		buf_init(b, MODULE_MAX);
		e = read_file_at(kernel, f->path, b);
		if (e < 0)
			return fail(err, COVE_EDAMAGED, -e, "%s", f->path);
		kernel_digest(b->data, b->len, sum);
		if (strcmp(sum, f->sum) != 0)
			return fail(err, COVE_EDAMAGED, 0, "%s: its checksum is wrong",
				    f->path);
		v[i - 1] = (struct initramfs_module){
			.name = strrchr(f->path, '/') ? strrchr(f->path, '/') + 1
						      : f->path,
			.data = b->data,
			.size = b->len};
	}
	return 0;
}

static int ramfs_write(int kernel, const char *key, const struct buf *bytes,
		       char ret[RAMFS_NAME_MAX], struct cove_error *err)
{
	char sum[KERNEL_DIGEST_HEX];
	int e;

	kernel_digest(bytes->data, bytes->len, sum);
	snprintf(ret, RAMFS_NAME_MAX, RAMFS_PREFIX "%.32s.%s", key, sum);
	e = write_file_atomic(kernel, ret, bytes->data, bytes->len, 0600, 1);
	if (e < 0)
		return fail(err, COVE_EIO, -e, "write %s", ret);
	while (ramfs_drop_oldest(kernel))
		;
	return 0;
}

static int ramfs_make(const struct kernel_record *r, int kernel, const char *key,
		      const struct buf *guest, char ret[RAMFS_NAME_MAX],
		      struct cove_error *err)
{
	size_t n = r->n_files - 1;
	struct buf *contents = calloc(n + 1, sizeof(*contents));
	cleanup_free struct initramfs_module *v = calloc(n + 1, sizeof(*v));
	cleanup_buf struct buf bytes = BUF_INIT(INITRAMFS_MAX);
	int code = contents && v ? read_modules(r, kernel, contents, v, err)
				 : fail_nomem(err);

	if (code == 0) {
		int e = initramfs_build(&bytes, guest->data, guest->len, v, n);

		code = e < 0 ? fail(err, COVE_EIO, -e, "initramfs")
			     : ramfs_write(kernel, key, &bytes, ret, err);
	}
	for (size_t i = 0; contents && i < n; i++)
		buf_clear(&contents[i]);
	free(contents);
	return code;
}

/* ---- finding ------------------------------------------------------------------- */

/* DIR/NAME, open; name gets the default's if there is none. */
static int open_kernel(const char *dir, const char *name,
		       char ret_name[KERNEL_NAME_MAX + 1], struct cove_error *err)
{
	cleanup_fd int parent = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (parent < 0 && errno != ENOENT)
		return fail(err, COVE_EIO, errno, "open %s", dir);
	if (parent < 0 || (!name && !kernels_default(parent, ret_name)))
		return kernels_none(err);
	if (name && !kernel_name_ok(name))
		return fail(err, COVE_EINVAL, 0, "'%.60s' is not a name for a kernel",
			    name);
	if (name)
		snprintf(ret_name, KERNEL_NAME_MAX + 1, "%s", name);
	return kernels_open_one(parent, ret_name, err);
}

static int read_guest(const char *path, struct buf *out, struct cove_error *err)
{
	int e = read_file_at(AT_FDCWD, path, out);

	if (e < 0)
		return fail(err, COVE_EIO, -e, "%s", path);
	if (!initramfs_can_start(out->data, out->len))
		return fail(err, COVE_EUNSUPPORTED, 0,
			    "%s needs a loader: it cannot be the first program of a "
			    "machine",
			    path);
	return 0;
}

/* The initramfs depends on the guest and the modules, the whole on the image too. */
static int make_keys(const struct kernel_record *r, const struct buf *guest,
		     char ret_ramfs[KERNEL_DIGEST_HEX], char ret_all[KERNEL_DIGEST_HEX])
{
	cleanup_buf struct buf text = BUF_INIT(1u << 20);
	char sum[KERNEL_DIGEST_HEX];
	int e;

	kernel_digest(guest->data, guest->len, sum);
	e = buf_printf(&text, RAMFS_FORMAT " %s\n", sum);
	for (size_t i = 1; e == 0 && i < r->n_files; i++)
		e = buf_printf(&text, "%s %s\n", r->files[i].path, r->files[i].sum);
	if (e < 0)
		return e;
	kernel_digest(text.data, text.len, ret_ramfs);
	e = buf_printf(&text, "%s\n", r->files[0].sum);
	if (e == 0)
		kernel_digest(text.data, text.len, ret_all);
	return e;
}

static int fill_in(struct vm_kernel *ret, const char *dir, const char *ramfs,
		   struct cove_error *err)
{
	int a = snprintf(ret->image, sizeof(ret->image), "%s/%s/" IMAGE_NAME, dir,
			 ret->name);
	int b = snprintf(ret->initramfs, sizeof(ret->initramfs), "%s/%s/%s", dir,
			 ret->name, ramfs);

	if (a >= (int)sizeof(ret->image) || b >= (int)sizeof(ret->initramfs))
		return fail(err, COVE_EINVAL, ENAMETOOLONG, "%s", dir);
	return 0;
}

static int find_in(struct vm_kernel *k, const char *dir, int kernel,
		   const struct kernel_record *r, const char *guest_path,
		   struct cove_error *err)
{
	cleanup_buf struct buf guest = BUF_INIT(GUEST_MAX);
	char key[KERNEL_DIGEST_HEX], ramfs[RAMFS_NAME_MAX];

	/* The modules are looked at when the initramfs is made, and before a boot. */
	if (record_check_file(&r->files[0], kernel, false, err) < 0 ||
	    read_guest(guest_path, &guest, err) < 0)
		return err->code;
	if (make_keys(r, &guest, key, k->digest) < 0)
		return fail_nomem(err);
	if (!ramfs_find(kernel, key, ramfs) &&
	    ramfs_make(r, kernel, key, &guest, ramfs, err) < 0)
		return err->code;
	k->built_in = r->built_in;
	return fill_in(k, dir, ramfs, err);
}

/* On the way up: whose fault it is, and what helps if nobody said it yet. */
static int of_kernel(const char *name, struct cove_error *err)
{
	if (err->code != COVE_EDAMAGED)
		return err->code;
	if (!err->hint[0])
		hint(err, "run 'cove kernel install' again, or 'cove kernel rm %s'",
		     name);
	return wrap(err, "kernel %s", name);
}

int kernel_find(struct vm_kernel *ret, const char *dir, const char *name,
		const char *guest, struct cove_error *err)
{
	struct vm_kernel k = {0};
	cleanup_fd int kernel = open_kernel(dir, name, k.name, err);
	struct kernel_record r;
	int code;

	if (kernel < 0)
		return err->code;
	if (record_read(&r, kernel, err) < 0)
		return of_kernel(k.name, err);
	code = find_in(&k, dir, kernel, &r, guest, err);
	record_clear(&r);
	if (code < 0)
		return of_kernel(k.name, err);
	*ret = k;
	return 0;
}

/* ---- verifying ----------------------------------------------------------------- */

static int check_ramfs(const struct vm_kernel *k, int kernel, struct cove_error *err)
{
	const char *name = strrchr(k->initramfs, '/') + 1;
	cleanup_fd int fd = openat(kernel, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char sum[KERNEL_DIGEST_HEX];
	int e = fd < 0 ? -errno : kernel_digest_fd(fd, sum);

	if (e < 0)
		return fail(err, COVE_EIO, -e, "%s", name);
	if (!ramfs_is(name, NULL) || strcmp(sum, ramfs_sum(name)) != 0) {
		unlinkat(kernel, name, 0);
		fail(err, COVE_EDAMAGED, 0, "the initramfs had a wrong checksum");
		return hint(err, "it was removed and will be made again: try once more");
	}
	return 0;
}

int kernel_verify(const struct vm_kernel *k, struct cove_error *err)
{
	cleanup_free char *dir =
		strndup(k->image, (size_t)(strrchr(k->image, '/') - k->image));
	cleanup_fd int kernel =
		dir ? open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	struct kernel_record r;
	int code;

	if (!dir)
		return fail_nomem(err);
	if (kernel < 0)
		return fail(err, COVE_EIO, errno, "%s", dir);
	if (record_read(&r, kernel, err) < 0)
		return of_kernel(k->name, err);
	code = record_check(&r, kernel, true, err);
	record_clear(&r);
	if (code == 0)
		code = check_ramfs(k, kernel, err);
	return code < 0 ? of_kernel(k->name, err) : 0;
}
