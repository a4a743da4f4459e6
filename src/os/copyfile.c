/* SPDX-License-Identifier: Apache-2.0 */
/* copyfile - the content and the attributes of one file, by the shortest way there is. */
#include "os/copytree.h"

#include "base/io.h"
#include "base/util.h"
#include "os/reach.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/limits.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#define SMALL (64u * 1024) /* one read and one write cost less than anything clever */
#define PIECE (1u << 30)

/* ---- content -------------------------------------------------------------------- */

/* The file systems that share blocks say so at the first file; the others are not asked
 * again. */
static int try_reflink(int from, int to, bool *no_reflink)
{
	if (*no_reflink)
		return 0;
	if (ioctl(to, FICLONE, from) == 0)
		return 1;
	*no_reflink = true;
	return 0;
}

static int copy_small(int from, int to)
{
	char data[SMALL];

	for (;;) {
		ssize_t n = read(from, data, sizeof(data));
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		r = write_all(to, data, (size_t)n);
		if (r < 0)
			return r;
		if ((size_t)n < sizeof(data))
			return 0;
	}
}

/* By hand, where the kernel will not do it between these two. */
static int copy_piece(int from, int to, off_t at, off_t end)
{
	char data[SMALL];

	while (at < end) {
		size_t want = min_size(sizeof(data), (size_t)(end - at));
		ssize_t n = pread(from, data, want, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		for (ssize_t done = 0, w; done < n; done += w) {
			w = pwrite(to, data + done, (size_t)(n - done), at + done);
			if (w < 0 && errno == EINTR)
				w = 0;
			if (w < 0)
				return -errno;
		}
		at += n;
	}
	return 0;
}

static int copy_range(int from, int to, off_t at, off_t end)
{
	while (at < end) {
		int64_t in = at, out = at;
		size_t want = min_size(PIECE, (size_t)(end - at));
		long n = syscall(SYS_copy_file_range, from, &in, to, &out, want, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS ||
			      errno == EOPNOTSUPP || errno == EPERM))
			return copy_piece(from, to, at, end);
		if (n <= 0) /* 0: it is shorter than it was */
			return n < 0 ? -errno : 0;
		at += n;
	}
	return 0;
}

/* Only where there is something. */
static int copy_sparse(int from, int to, off_t size)
{
	off_t at = 0;

	while (at < size) {
		off_t data = lseek(from, at, SEEK_DATA), hole;
		int r;

		if (data < 0)
			return errno == ENXIO    ? 0
			       : errno == EINVAL ? copy_range(from, to, at, size)
						 : -errno;
		hole = lseek(from, data, SEEK_HOLE);
		if (hole < 0)
			return -errno;
		if (hole > size)
			hole = size;
		r = copy_range(from, to, data, hole);
		if (r < 0)
			return r;
		at = hole;
	}
	return 0;
}

int copy_content(int from, int to, const struct stat *st, bool *no_reflink)
{
	bool sparse = (int64_t)st->st_blocks * 512 < st->st_size;
	int r;

	if (st->st_size == 0)
		return 0;
	if (try_reflink(from, to, no_reflink))
		return 0;
	if ((uint64_t)st->st_size <= SMALL)
		return copy_small(from, to);
	r = sparse ? copy_sparse(from, to, st->st_size)
		   : copy_range(from, to, 0, st->st_size);
	if (r == 0 && sparse && ftruncate(to, st->st_size) < 0)
		r = -errno;
	return r;
}

/* ---- attributes ----------------------------------------------------------------- */

static int copy_xattr(int from, int to, const char *name)
{
	char small[256];
	ssize_t n = reach_getxattr(from, name, small, sizeof(small));
	cleanup_free char *large = NULL;

	if (n == -ERANGE) {
		large = malloc(XATTR_SIZE_MAX);
		if (!large)
			return -ENOMEM;
		n = reach_getxattr(from, name, large, XATTR_SIZE_MAX);
	}
	if (n < 0)
		return n == -ENODATA ? 0 : (int)n;
	return fsetxattr(to, name, large ? large : small, (size_t)n, 0) < 0 ? -errno : 0;
}

int copy_xattrs(int from, int to)
{
	char small[1024];
	cleanup_free char *large = NULL;
	char *list = small;
	ssize_t n = flistxattr(from, small, sizeof(small));
	int r = 0;

	if (n < 0 && errno == ERANGE) {
		list = large = malloc(XATTR_LIST_MAX);
		if (!large)
			return -ENOMEM;
		n = flistxattr(from, large, XATTR_LIST_MAX);
	}
	if (n < 0)
		return errno == ENOTSUP ? 0 : -errno;
	for (char *p = list; r == 0 && p < list + n; p += strlen(p) + 1)
		if (strncmp(p, "user.", 5) == 0)
			r = copy_xattr(from, to, p);
	return r;
}
