/* SPDX-License-Identifier: Apache-2.0 */
/* unpack_file - makes what an entry of the archive says, below one directory. */
#include "roles/unpack.h"

#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <time.h>

#define NS 1000000000
#define DIRS_MAX (1u << 30)
#define STEP 4000 /* bytes of a path that one call can take */
#define MAP_TEXT_MAX (4u << 20)

struct made_dir { /* followed by the path with its NUL */
	int64_t mtime_ns;
	uint32_t mode, path_len;
};

int output_init(struct output *o, int root)
{
	*o = (struct output){.root = root, .parent = -1};
	buf_init(&o->parent_path, TAR_PATH_MAX);
	buf_init(&o->dirs, DIRS_MAX);
	return 0;
}

/* ---- directories ---------------------------------------------------------------- */

/* A part of the way, no longer than one call can take; it ends before a slash. */
static size_t step_of(const char *path, size_t n)
{
	if (n <= STEP)
		return n;
	for (n = STEP; n && path[n] != '/'; n--)
		;
	return n;
}

/* Never through a symlink: those are of the archive too. */
static int open_step(int at, const char *path, size_t n, int flags)
{
	struct open_how how = {.flags = (uint64_t)flags | O_DIRECTORY | O_CLOEXEC,
			       .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
	char part[STEP + 1];
	int fd;

	memcpy(part, path, n);
	part[n] = '\0';
	fd = (int)syscall(SYS_openat2, at, part, &how, sizeof(how));
	return fd < 0 ? -errno : fd;
}

static int open_way(int root, const char *path, size_t n, int flags)
{
	cleanup_fd int at = open_step(root, ".", 1, n ? O_PATH : flags);

	while (at >= 0 && n) {
		size_t len = step_of(path, n);
		int fd = len ? open_step(at, path, len, len == n ? flags : O_PATH)
			     : -ENAMETOOLONG;

		close_fd(&at);
		if (fd < 0)
			return fd;
		at = fd;
		n -= len < n ? len + 1 : len; /* and the slash */
		path += len + 1;
	}
	return at < 0 ? at : take_fd(&at);
}

static const char *last_name(const struct tar_entry *e, size_t *ret_parent_len)
{
	const char *slash = strrchr(e->path.data, '/');

	*ret_parent_len = slash ? (size_t)(slash - e->path.data) : 0;
	return slash ? slash + 1 : e->path.data;
}

static int enter(struct output *o, const char *path, size_t n)
{
	int fd;

	if (o->parent >= 0 && o->parent_path.len == n &&
	    (n == 0 || memcmp(o->parent_path.data, path, n) == 0))
		return o->parent;
	fd = open_way(o->root, path, n, O_PATH);
	if (fd < 0)
		return fd;
	close_fd(&o->parent);
	o->parent = fd;
	o->parent_path.len = 0;
	return buf_append(&o->parent_path, path, n) < 0 ? -ENOMEM : fd;
}

static int give_xattrs(int fd, const struct tar_entry *e)
{
	const char *name;
	const void *value;
	size_t pos = 0, n;

	while (tar_next_xattr(e, &pos, &name, &value, &n))
		if (fsetxattr(fd, name, value, n, XATTR_CREATE) < 0)
			return -errno;
	return 0;
}

static void times_of(int64_t ns, struct timespec out[2])
{
	for (int i = 0; i < 2; i++)
		out[i] = (struct timespec){ns / NS, ns % NS};
}

/* Open to us until everything is in it. */
static int make_dir(struct output *o, int parent, const char *name,
		    const struct tar_entry *e)
{
	struct made_dir d = {e->mtime_ns, e->mode & 01777, (uint32_t)e->path.len};
	int r;

	if (mkdirat(parent, name, 0700) < 0)
		return -errno;
	r = buf_append(&o->dirs, &d, sizeof(d));
	if (r == 0)
		r = buf_append(&o->dirs, e->path.data, e->path.len + 1);
	/* for the way back, from the last to the first */
	if (r == 0)
		r = buf_append(&o->dirs, &d.path_len, sizeof(d.path_len));
	if (r < 0 || !e->xattrs.len)
		return r;
	cleanup_fd int fd =
		openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : give_xattrs(fd, e);
}

int output_finish(struct output *o)
{
	size_t at = o->dirs.len;

	while (at) {
		struct timespec times[2];
		struct made_dir d;
		uint32_t n;

		memcpy(&n, o->dirs.data + at - sizeof(n), sizeof(n));
		at -= sizeof(n) + n + 1 + sizeof(d);
		memcpy(&d, o->dirs.data + at, sizeof(d));
		cleanup_fd int fd =
			open_way(o->root, o->dirs.data + at + sizeof(d), n, O_RDONLY);
		if (fd < 0)
			return fd;
		times_of(d.mtime_ns, times);
		if (fchmod(fd, d.mode) < 0 || futimens(fd, times) < 0)
			return -errno;
	}
	return 0;
}

/* ---- files ---------------------------------------------------------------------- */

static int copy_data(struct input *in, int fd, uint64_t at, uint64_t n)
{
	while (n) {
		const void *data;
		int64_t got = input_some(in, n, &data);

		if (got < 0)
			return (int)got;
		for (int64_t done = 0; done < got;) {
			ssize_t w = pwrite(fd, (const char *)data + done,
					   (size_t)(got - done), (off_t)at + done);

			if (w < 0 && errno != EINTR)
				return -errno;
			done += w > 0 ? w : 0;
		}
		at += (uint64_t)got;
		n -= (uint64_t)got;
	}
	return 0;
}

/* Numbers of a map, block by block, until `want` are there. */
static int read_numbers(struct input *in, struct buf *text, size_t *pos, uint64_t *v,
			size_t want)
{
	for (size_t i = 0; i < want;) {
		char block[TAR_BLOCK];
		int r = tar_parse_number(text->data + *pos, text->len - *pos, &v[i]);

		if (r < 0)
			return r;
		if (r > 0) {
			*pos += (size_t)r;
			i++;
			continue;
		}
		r = input_read(in, block, sizeof(block));
		if (r == 0)
			r = buf_append(text, block, sizeof(block));
		if (r < 0)
			return r == -ENOBUFS ? -EBADMSG : r;
	}
	return 0;
}

static int copy_sparse(struct input *in, int fd, const struct tar_entry *e)
{
	cleanup_buf struct buf text = BUF_INIT(MAP_TEXT_MAX);
	cleanup_free struct tar_piece *v = NULL;
	uint64_t count = 0;
	size_t pos = 0;
	int r = buf_puts(&text, "");

	if (r == 0)
		r = read_numbers(in, &text, &pos, &count, 1);
	if (r < 0 || count > TAR_MAP_MAX)
		return r < 0 ? r : -EBADMSG;
	v = calloc((size_t)count + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	for (uint64_t i = 0; r == 0 && i < count; i++) {
		uint64_t pair[2];

		r = read_numbers(in, &text, &pos, pair, 2);
		v[i] = (struct tar_piece){pair[0], pair[1]};
	}
	if (r < 0)
		return r;
	if (text.len > e->size ||
	    !tar_map_ok(v, (size_t)count, e->real_size, e->size - text.len))
		return -EBADMSG;
	for (uint64_t i = 0; r == 0 && i < count; i++)
		r = copy_data(in, fd, v[i].at, v[i].len);
	if (r == 0 && ftruncate(fd, (off_t)e->real_size) < 0)
		r = -errno;
	return r;
}

static int make_file(struct input *in, int parent, const char *name,
		     const struct tar_entry *e)
{
	struct timespec times[2];
	int r;

	cleanup_fd int fd = openat(
		parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = e->sparse ? copy_sparse(in, fd, e) : copy_data(in, fd, 0, e->size);
	if (r == 0)
		r = give_xattrs(fd, e);
	if (r < 0)
		return r;
	times_of(e->mtime_ns, times);
	if (fchmod(fd, e->mode & 01777) < 0 || futimens(fd, times) < 0)
		return -errno;
	return input_skip_padding(in, e->size);
}

/* ---- links and nodes ------------------------------------------------------------ */

/* Only within one tree, and never from the sandbox's own files to those of a snapshot:
 * what changes in one must not change in the other. */
static bool same_tree(const char *a, const char *b)
{
	size_t n = strcspn(a, "/");

	return n == strcspn(b, "/") && memcmp(a, b, n) == 0;
}

static int make_link(struct output *o, int parent, const char *name,
		     const struct tar_entry *e)
{
	const char *slash = strrchr(e->link.data, '/');
	size_t n = slash ? (size_t)(slash - e->link.data) : 0;
	struct stat st;

	if (!slash || !same_tree(e->path.data, e->link.data))
		return -EBADMSG;
	cleanup_fd int dir = open_way(o->root, e->link.data, n, O_PATH);
	if (dir < 0)
		return dir;
	if (fstatat(dir, slash + 1, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EBADMSG;
	return linkat(dir, slash + 1, parent, name, 0) < 0 ? -errno : 0;
}

static int make_node(int parent, const char *name, const struct tar_entry *e)
{
	struct timespec times[2];
	mode_t kind = e->type == TAR_FIFO ? S_IFIFO : S_IFCHR;
	int r = e->type == TAR_SYMLINK
			? symlinkat(e->link.data, parent, name)
			: mknodat(parent, name, kind | (e->mode & 0777), makedev(0, 0));

	if (r < 0)
		return -errno;
	times_of(e->mtime_ns, times);
	return utimensat(parent, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

int output_make(struct output *o, struct input *in, const struct tar_entry *e)
{
	size_t n;
	const char *name = last_name(e, &n);
	int parent = enter(o, e->path.data, n);

	if (parent < 0)
		return parent;
	switch (e->type) {
	case TAR_DIR:
		return make_dir(o, parent, name, e);
	case TAR_FILE:
		return make_file(in, parent, name, e);
	case TAR_LINK:
		return make_link(o, parent, name, e);
	default:
		return make_node(parent, name, e);
	}
}
