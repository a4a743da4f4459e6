/* SPDX-License-Identifier: Apache-2.0 */
#include "core/archive_out.h"

#include "base/io.h"
#include "base/util.h"
#include "core/archive.h"
#include "os/reach.h"

#include <fcntl.h>
#include <linux/limits.h>
#include <stdio.h>
#include <sys/xattr.h>
#include <time.h>

#define CHUNK (256u * 1024)
#define OUT_MAX (CHUNK + 4 * TAR_PAX_MAX)
#define READ_FILE (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

void archive_out_init(struct archive_out *a, int fd)
{
	*a = (struct archive_out){.fd = fd};
	buf_init(&a->out, OUT_MAX);
	tar_entry_init(&a->entry);
	crypto_generichash_init(&a->sum, NULL, 0, ARCHIVE_SUM_LEN);
}

void archive_out_clear(struct archive_out *a)
{
	buf_clear(&a->out);
	tar_entry_clear(&a->entry);
	twins_clear(&a->twins);
}

/* ---- bytes ---------------------------------------------------------------------- */

static int flush(struct archive_out *a)
{
	int r = write_all(a->fd, a->out.data, a->out.len);

	crypto_generichash_update(&a->sum, (const unsigned char *)a->out.data,
				  a->out.len);
	a->out.len = 0;
	return r;
}

static int put(struct archive_out *a, const void *data, size_t n)
{
	int r = buf_append(&a->out, data, n);

	return r == 0 && a->out.len >= CHUNK ? flush(a) : r;
}

static int put_padding(struct archive_out *a, uint64_t size)
{
	static const char zeros[TAR_BLOCK];

	return put(a, zeros, (size_t)(tar_padded(size) - size));
}

static int put_headers(struct archive_out *a)
{
	int r = tar_print(&a->entry, &a->out);

	return r == 0 && a->out.len >= CHUNK ? flush(a) : r;
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int archive_put_text(struct archive_out *a, const char *path, const char *text)
{
	size_t n = strlen(text);
	int r;

	tar_entry_reset(&a->entry);
	a->entry.type = TAR_FILE;
	a->entry.mode = 0600;
	a->entry.size = n;
	a->entry.mtime_ns = now_ns();
	r = buf_puts(&a->entry.path, path);
	if (r == 0)
		r = put_headers(a);
	if (r == 0)
		r = put(a, text, n);
	return r < 0 ? r : put_padding(a, n);
}

/* ---- files ---------------------------------------------------------------------- */

static int add_xattrs(struct tar_entry *e, int fd)
{
	cleanup_free char *list = NULL;
	cleanup_free char *value = NULL;
	ssize_t n = flistxattr(fd, NULL, 0);
	int r = 0;

	if (n <= 0)
		return n < 0 && errno != ENOTSUP ? -errno : 0;
	list = malloc(XATTR_LIST_MAX);
	value = malloc(XATTR_SIZE_MAX);
	if (!list || !value)
		return -ENOMEM;
	n = flistxattr(fd, list, XATTR_LIST_MAX);
	for (char *p = list; r == 0 && p < list + n; p += strlen(p) + 1) {
		ssize_t len;

		if (strncmp(p, "user.", 5) != 0)
			continue;
		len = reach_getxattr(fd, p, value, XATTR_SIZE_MAX);
		if (len < 0)
			return (int)len;
		r = tar_add_xattr(e, p, value, (size_t)len);
	}
	return n < 0 ? -errno : r;
}

static int put_range(struct archive_out *a, int fd, uint64_t at, uint64_t n)
{
	char data[65536];

	while (n) {
		ssize_t got =
			pread(fd, data, (size_t)(n < sizeof(data) ? n : sizeof(data)),
			      (off_t)at);
		int r;

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) /* shorter than it was: somebody writes to it */
			return got < 0 ? -errno : -ESTALE;
		r = put(a, data, (size_t)got);
		if (r < 0)
			return r;
		at += (uint64_t)got;
		n -= (uint64_t)got;
	}
	return 0;
}

/* The pieces that hold data; more than TAR_MAP_MAX end in one large one. */
static size_t find_pieces(int fd, uint64_t size, struct tar_piece *v, size_t max)
{
	uint64_t at = 0;
	size_t n = 0;

	while (at < size && n < max) {
		off_t data = lseek(fd, (off_t)at, SEEK_DATA), hole;

		if (data < 0 || (uint64_t)data >= size)
			break;
		hole = n + 1 < max ? lseek(fd, data, SEEK_HOLE) : (off_t)size;
		if (hole < 0 || (uint64_t)hole > size)
			hole = (off_t)size;
		v[n++] = (struct tar_piece){(uint64_t)data, (uint64_t)(hole - data)};
		at = (uint64_t)hole;
	}
	return n;
}

static int put_sparse(struct archive_out *a, int fd, uint64_t size)
{
	cleanup_free struct tar_piece *v = calloc(TAR_MAP_MAX, sizeof(*v));
	cleanup_buf struct buf map = BUF_INIT(4u << 20);
	size_t n = v ? find_pieces(fd, size, v, TAR_MAP_MAX) : 0;
	int r = v ? tar_print_map(v, n, &map) : -ENOMEM;

	if (r < 0)
		return r;
	a->entry.sparse = true;
	a->entry.real_size = size;
	a->entry.size = map.len;
	for (size_t i = 0; i < n; i++)
		a->entry.size += v[i].len;
	r = put_headers(a);
	if (r == 0)
		r = put(a, map.data, map.len);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = put_range(a, fd, v[i].at, v[i].len);
	return r < 0 ? r : put_padding(a, a->entry.size);
}

static int put_file(struct archive_out *a, int dir, const char *name,
		    const struct stat *st)
{
	cleanup_fd int fd = reach_openat(dir, name, READ_FILE);
	uint64_t size = (uint64_t)st->st_size;
	struct stat now;
	int r;

	if (fd < 0)
		return fd;
	if (fstat(fd, &now) < 0)
		return -errno;
	if (!S_ISREG(now.st_mode) || now.st_ino != st->st_ino)
		return -ESTALE;
	r = add_xattrs(&a->entry, fd);
	if (r < 0)
		return r;
	if (size > 65536 && (uint64_t)now.st_blocks * 512 < size)
		return put_sparse(a, fd, size);
	a->entry.size = size;
	r = put_headers(a);
	if (r == 0)
		r = put_range(a, fd, 0, size);
	return r < 0 ? r : put_padding(a, size);
}

static int put_symlink(struct archive_out *a, int dir, const char *name)
{
	char target[TAR_LINK_MAX + 2];
	ssize_t n = reach_readlink(dir, name, target, sizeof(target) - 1);
	int r;

	if (n < 0)
		return (int)n;
	if (n > TAR_LINK_MAX)
		return -ENAMETOOLONG;
	r = buf_append(&a->entry.link, target, (size_t)n);
	return r < 0 ? r : put_headers(a);
}

static int put_regular(struct archive_out *a, const char *path, int dir, const char *name,
		       const struct stat *st)
{
	int r;
	const char *first = twins_find(&a->twins, st, path, &r);

	if (r < 0)
		return r;
	if (!first)
		return put_file(a, dir, name, st);
	a->entry.type = TAR_LINK;
	r = buf_puts(&a->entry.link, first);
	return r < 0 ? r : put_headers(a);
}

int archive_put_path(struct archive_out *a, const char *path, int dir, const char *name,
		     int fd, const struct stat *st)
{
	struct tar_entry *e = &a->entry;
	int r;

	tar_entry_reset(e);
	e->mode = st->st_mode & 01777;
	e->mtime_ns = st->st_mtim.tv_sec < 0 ? 0
					     : (int64_t)st->st_mtim.tv_sec * 1000000000 +
						       st->st_mtim.tv_nsec;
	r = buf_puts(&e->path, path);
	if (r < 0)
		return r == -ENOBUFS ? -ENAMETOOLONG : r;
	switch (st->st_mode & S_IFMT) {
	case S_IFDIR:
		e->type = TAR_DIR;
		r = add_xattrs(e, fd);
		return r < 0 ? r : put_headers(a);
	case S_IFREG:
		e->type = TAR_FILE;
		return put_regular(a, path, dir, name, st);
	case S_IFLNK:
		e->type = TAR_SYMLINK;
		return put_symlink(a, dir, name);
	case S_IFCHR:
		e->type = TAR_WHITEOUT;
		return st->st_rdev ? -EPERM : put_headers(a);
	case S_IFIFO:
		e->type = TAR_FIFO;
		return put_headers(a);
	case S_IFSOCK:
		return 0;
	default:
		return -EPERM;
	}
}

int archive_put_end(struct archive_out *a)
{
	unsigned char sum[ARCHIVE_SUM_LEN];
	char text[2 * ARCHIVE_SUM_LEN + 2];
	static const char zeros[2 * TAR_BLOCK];
	int r = flush(a);

	if (r < 0)
		return r;
	crypto_generichash_final(&a->sum, sum, sizeof(sum));
	for (size_t i = 0; i < sizeof(sum); i++)
		snprintf(text + 2 * i, 3, "%02x", sum[i]);
	memcpy(text + 2 * ARCHIVE_SUM_LEN, "\n", 2);
	/* A sum that is final takes no more: the rest is not covered. */
	crypto_generichash_init(&a->sum, NULL, 0, ARCHIVE_SUM_LEN);
	r = archive_put_text(a, ARCHIVE_SUM, text);
	if (r == 0)
		r = put(a, zeros, sizeof(zeros));
	return r < 0 ? r : flush(a);
}
