/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/kernel_unpack.h"

#include "base/io.h"
#include "base/util.h"
#include "vm/kernel_package.h"
#include "vm/kernel_tool.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

static const char *const programs[][4] = {
	[MODULE_XZ] = {"xz",   "-dc",  NULL},
	[MODULE_ZSTD] = {"zstd", "-dcq", NULL},
	[MODULE_GZIP] = {"gzip", "-dc",  NULL},
};

int unpack_bytes(enum module_packing packing, const void *data, size_t n, struct buf *out,
		 struct cove_error *err)
{
	cleanup_fd int in = -1;
	int r;

	if (packing == MODULE_PLAIN) {
		r = buf_append(out, data, n);
		return r == -ENOMEM ? fail_nomem(err)
		       : r < 0      ? fail(err, COVE_EDAMAGED, -r, "too large")
				    : 0;
	}
	in = memfd_create("cove-packed", MFD_CLOEXEC);
	r = in < 0 ? -errno : write_all(in, data, n);
	if (r < 0 || lseek(in, 0, SEEK_SET) < 0)
		return fail(err, COVE_EIO, r < 0 ? -r : errno, "unpack");
	return tool_run(
		&(struct tool){
			.argv = programs[packing], .in = in, .out = -1, .text = out},
		err);
}

/* ---- a .deb -------------------------------------------------------------------- */

struct growth {
	int fd;
	void (*tick)(void *arg, uint64_t bytes);
	void *arg;
};

static void look(void *arg)
{
	const struct growth *g = arg;
	struct stat st;

	if (g->tick && fstat(g->fd, &st) == 0)
		g->tick(g->arg, (uint64_t)st.st_size);
}

/* Not every file system has unnamed files; the holder of the lock is alone in there. */
static int unnamed_file(const char *dir)
{
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	char path[PATH_MAX];

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
		return fd;
	if (snprintf(path, sizeof(path), "%s/.tree", dir) >= (int)sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0)
		unlink(path);
	return fd;
}

/* The archive in the package, copied out of it: a decompressor wants a file of its own.
 */
static int copy_tree(int from, size_t at, size_t n, int to)
{
	off_t offset = (off_t)at;

	while (n) {
		char piece[65536];
		ssize_t k = pread(from, piece, min_size(n, sizeof(piece)), offset);
		int r;

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return k < 0 ? -errno : -EBADMSG;
		r = write_all(to, piece, (size_t)k);
		if (r < 0)
			return r;
		n -= (size_t)k;
		offset += k;
	}
	return lseek(to, 0, SEEK_SET) < 0 ? -errno : 0;
}

static int find_tree(int fd, size_t *ret_at, size_t *ret_n, enum module_packing *ret)
{
	struct stat st;
	void *map;
	int r;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size == 0)
		return -EBADMSG;
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	r = deb_find_tree(map, (size_t)st.st_size, ret_at, ret_n, ret);
	munmap(map, (size_t)st.st_size);
	return r;
}

/* Where there is no dpkg-deb: a host of another distribution. */
static int open_by_hand(const char *deb, const char *dir, struct growth *g,
			struct cove_error *err)
{
	cleanup_fd int fd = open(deb, O_RDONLY | O_CLOEXEC);
	cleanup_fd int tree = unnamed_file(dir);
	enum module_packing packing;
	size_t at, n;
	int r;

	if (fd < 0 || tree < 0)
		return fail(err, COVE_EIO, errno, "%s", fd < 0 ? deb : dir);
	r = find_tree(fd, &at, &n, &packing);
	if (r == 0)
		r = copy_tree(fd, at, n, packing == MODULE_PLAIN ? g->fd : tree);
	if (r == -EBADMSG)
		return fail(err, COVE_EINVAL, 0, "%s: not a Debian package", deb);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "%s", deb);
	if (packing == MODULE_PLAIN)
		return 0;
	return tool_run(&(struct tool){.argv = programs[packing],
				       .in = tree,
				       .out = g->fd,
				       .tick = look,
				       .arg = g},
			err);
}

int unpack_deb(const char *deb, const char *dir, int *ret_fd,
	       void (*tick)(void *arg, uint64_t bytes), void *arg, struct cove_error *err)
{
	cleanup_fd int out = unnamed_file(dir);
	const char *const argv[] = {"dpkg-deb", "--fsys-tarfile", deb, NULL};
	struct growth g = {.fd = out, .tick = tick, .arg = arg};
	int r;

	if (out < 0)
		return fail(err, COVE_EIO, errno, "a temporary file in %s", dir);
	r = tool_run(
		&(struct tool){
			.argv = argv, .in = -1, .out = out, .tick = look, .arg = &g},
		err);
	if (r == COVE_EUNSUPPORTED)
		r = open_by_hand(deb, dir, &g, err);
	if (r == 0)
		*ret_fd = take_fd(&out);
	return r;
}
