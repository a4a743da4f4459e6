/* SPDX-License-Identifier: Apache-2.0 */
#include "base/io.h"

#include "base/buf.h"
#include "base/util.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

int write_all(int fd, const void *data, size_t n)
{
	const char *p = data;

	while (n) {
		ssize_t w = write(fd, p, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return -errno;
		p += w;
		n -= (size_t)w;
	}
	return 0;
}

int read_fd(int fd, struct buf *b)
{
	struct stat st;
	/* A file says how large it is; anything else is read in moderate pieces. */
	size_t piece = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
				       st.st_size < 65536
			       ? (size_t)st.st_size + 1
			       : 8192;

	for (;;) {
		ssize_t n;
		int r = buf_reserve(b, min_size(piece, b->max - b->len));

		if (r < 0)
			return r;
		if (b->len == b->max) { /* full: is there more? */
			char c;

			n = read(fd, &c, 1);
			return n < 0 ? -errno : n ? -ENOBUFS : 0;
		}
		n = read(fd, b->data + b->len,
			 min_size(b->cap - b->len - 1, b->max - b->len));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		b->len += (size_t)n;
		b->data[b->len] = '\0';
		if (n == 0)
			return 0;
	}
}

int read_file_at(int dirfd, const char *name, struct buf *b)
{
	cleanup_fd int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return read_fd(fd, b);
}

static int write_synced(int fd, const void *data, size_t n, mode_t mode, int sync)
{
	int r = write_all(fd, data, n);

	if (r < 0)
		return r;
	if (fchmod(fd, mode) < 0 || (sync && fsync(fd) < 0))
		return -errno;
	return 0;
}

int write_file_atomic(int dirfd, const char *name, const void *data, size_t n,
		      mode_t mode, int sync)
{
	char tmp[300];
	int r;

	if (snprintf(tmp, sizeof(tmp), ".%s.%d.tmp", name, (int)getpid()) >=
	    (int)sizeof(tmp))
		return -ENAMETOOLONG;
	cleanup_fd int fd =
		openat(dirfd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = write_synced(fd, data, n, mode, sync);
	if (r == 0 && renameat(dirfd, tmp, dirfd, name) < 0)
		r = -errno;
	if (r < 0) {
		unlinkat(dirfd, tmp, 0);
		return r;
	}
	if (sync) {
		cleanup_fd int dir =
			openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (dir < 0 || fsync(dir) < 0)
			return -errno;
	}
	return 0;
}

int write_knob_at(int dirfd, const char *name, const char *text)
{
	cleanup_fd int fd = openat(dirfd, name, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

int mkdir_p(const char *path, mode_t mode)
{
	char part[4096];
	size_t n = strlen(path);

	if (n == 0 || n >= sizeof(part))
		return -ENAMETOOLONG;
	memcpy(part, path, n + 1);
	for (size_t i = 1; i <= n; i++) {
		if (part[i] != '/' && part[i] != '\0')
			continue;
		part[i] = '\0';
		if (mkdir(part, mode) < 0 && errno != EEXIST)
			return -errno;
		part[i] = i < n ? '/' : '\0';
	}
	return 0;
}

/* ---- removing trees that an agent may have made as nasty as it could ------------ */

#define REMOVE_DEPTH \
	32 /* deeper directories are moved up first: no recursion without end */

struct removal {
	int top; /* the directory that is being removed */
	dev_t dev;
	unsigned moved;
};

static int remove_content(struct removal *r, int fd, int depth);

/* The agent may have left directories that even their owner cannot enter. */
static int open_dir_at(int dirfd, const char *name, const struct stat *st)
{
	int fd;

	if ((st->st_mode & 0700) != 0700 && fchmodat(dirfd, name, 0700, 0) < 0)
		return -errno;
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int remove_subdir(struct removal *r, int dir, const char *name, int depth)
{
	struct stat st;
	char moved[32];
	int fd;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (st.st_dev != r->dev)
		return -EXDEV;
	if (depth >= REMOVE_DEPTH) {
		snprintf(moved, sizeof(moved), ".deep-%u", r->moved++);
		return renameat(dir, name, r->top, moved) < 0 ? -errno : 0;
	}
	fd = open_dir_at(dir, name, &st);
	if (fd >= 0)
		fd = remove_content(r, fd, depth + 1);
	if (fd < 0)
		return fd;
	return unlinkat(dir, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

/* Owns fd. */
static int remove_content(struct removal *r, int fd, int depth)
{
	DIR *d = fdopendir(fd);
	struct dirent *e;
	int ret = 0;

	if (!d) {
		ret = -errno;
		close(fd);
		return ret;
	}
	while (ret == 0 && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (unlinkat(dirfd(d), e->d_name, 0) == 0)
			continue;
		ret = errno == EISDIR || errno == EPERM
			      ? remove_subdir(r, dirfd(d), e->d_name, depth)
			      : -errno;
	}
	closedir(d);
	return ret;
}

int remove_tree_at(int dirfd, const char *name)
{
	struct stat st;
	struct removal r;
	unsigned before;
	int ret = 0;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISDIR(st.st_mode))
		return unlinkat(dirfd, name, 0) < 0 ? -errno : 0;
	r = (struct removal){.top = open_dir_at(dirfd, name, &st), .dev = st.st_dev};
	if (r.top < 0)
		return r.top;
	do { /* again while deep directories were moved to the top */
		int fd = fcntl(r.top, F_DUPFD_CLOEXEC, 3);

		before = r.moved;
		if (fd < 0)
			ret = -errno;
		else if (lseek(fd, 0, SEEK_SET) < 0)
			ret = -errno, close(fd);
		else
			ret = remove_content(&r, fd, 0);
	} while (ret == 0 && r.moved != before);
	close(r.top);
	if (ret < 0)
		return ret;
	return unlinkat(dirfd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int rename_at(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
	return syscall(SYS_renameat2, from_dir, from, to_dir, to, flags) < 0 ? -errno : 0;
}

int write_file_in(const char *dir, const char *name, const void *data, size_t n,
		  mode_t mode, int sync)
{
	cleanup_fd int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : write_file_atomic(fd, name, data, n, mode, sync);
}

bool path_stays_below(const char *path)
{
	for (;;) {
		size_t n = strcspn(path, "/");

		if (n == 0 || n > 255 || (n == 1 && path[0] == '.') ||
		    (n == 2 && path[0] == '.' && path[1] == '.'))
			return false;
		if (!path[n])
			return true;
		path += n + 1;
	}
}
