/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy - files between host and sandbox.
 *
 * Out of the sandbox every name and type is the guest's word: names are single
 * components, opened below the destination's descriptor without following links, so
 * nothing can land outside it. Only files, directories and symlinks are made, never with
 * setuid or setgid.
 */
#include "api/handle.h"

#include "base/util.h"
#include "core/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define DEPTH_MAX 128

struct copy {
	struct session *s;
	uint32_t flags;
	void (*progress)(void *arg, const char *path, uint64_t bytes);
	void *arg;
	struct cove_error *err;
};

static void told(const struct copy *c, const char *path, uint64_t bytes)
{
	if (c->progress)
		c->progress(c->arg, path, bytes);
}

static int join(char *out, size_t size, const char *dir, const char *name,
		struct cove_error *err)
{
	const char *sep = dir[0] && dir[strlen(dir) - 1] == '/' ? "" : "/";

	if (snprintf(out, size, "%s%s%s", dir, sep, name) >= (int)size)
		return fail(err, COVE_EINVAL, ENAMETOOLONG, "%s/%s", dir, name);
	return 0;
}

/* ---- out of the sandbox --------------------------------------------------------- */

struct names {
	struct spec_strings list;
};

static int keep_name(void *arg, uint8_t type, const char *name)
{
	struct names *n = arg;
	char **more = realloc(n->list.v, (n->list.n + 1) * sizeof(char *));

	(void)type; /* asked again by STAT */
	if (!more)
		return COVE_ENOMEM;
	n->list.v = more;
	n->list.v[n->list.n] = strdup(name);
	return n->list.v[n->list.n] ? (n->list.n++, 0) : COVE_ENOMEM;
}

static void free_names(struct names *n)
{
	for (size_t i = 0; i < n->list.n; i++)
		free(n->list.v[i]);
	free(n->list.v);
}

static int out_any(const struct copy *c, const char *src, int dir, const char *name,
		   int depth);

static int out_file(const struct copy *c, const char *src, int dir, const char *name,
		    const struct file_info *info)
{
	char tmp[300];
	int r;

	/* A new file beside it, renamed when whole: a cut-off copy leaves the old one. */
	snprintf(tmp, sizeof(tmp), ".cove-%d-%.200s", (int)getpid(), name);
	cleanup_fd int fd = openat(
		dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail(c->err, COVE_EIO, errno, "%s", name);
	r = file_get(c->s, src, fd, c->err);
	if (r == 0 &&
	    (fchmod(fd, info->mode & 0777) < 0 || renameat(dir, tmp, dir, name) < 0))
		r = fail(c->err, COVE_EIO, errno, "%s", name);
	if (r < 0)
		unlinkat(dir, tmp, 0);
	else
		told(c, src, info->size);
	return r;
}

static int out_dir(const struct copy *c, const char *src, int dir, const char *name,
		   const struct file_info *info, int depth)
{
	struct names n = {0};
	char path[8192];
	int r;

	if (!(c->flags & COVE_COPY_RECURSIVE)) {
		fail(c->err, COVE_EINVAL, EISDIR, "%s", src);
		return hint(c->err, "-r copies directories");
	}
	if (depth > DEPTH_MAX)
		return fail(c->err, COVE_EINVAL, ELOOP, "%s", src);
	if (mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
		return fail(c->err, COVE_EIO, errno, "%s", name);
	cleanup_fd int sub =
		openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (sub < 0)
		return fail(c->err, COVE_EIO, errno, "%s", name);
	r = file_list(c->s, src, keep_name, &n, c->err);
	for (size_t i = 0; r == 0 && i < n.list.n; i++) {
		r = join(path, sizeof(path), src, n.list.v[i], c->err);
		if (r == 0)
			r = out_any(c, path, sub, n.list.v[i], depth + 1);
	}
	free_names(&n);
	if (r == 0 && fchmod(sub, (info->mode & 0777) | 0700) < 0)
		r = fail(c->err, COVE_EIO, errno, "%s", name);
	return r;
}

static int out_any(const struct copy *c, const char *src, int dir, const char *name,
		   int depth)
{
	struct file_info info;

	if (file_stat(c->s, src, &info, c->err) < 0)
		return c->err->code;
	if (S_ISREG(info.mode))
		return out_file(c, src, dir, name, &info);
	if (S_ISDIR(info.mode))
		return out_dir(c, src, dir, name, &info, depth);
	if (S_ISLNK(info.mode)) {
		unlinkat(dir, name, 0);
		return symlinkat(info.target, dir, name) < 0
			       ? fail(c->err, COVE_EIO, errno, "%s", name)
			       : 0;
	}
	return fail(c->err, COVE_EDENIED, 0, "%s is not a file, directory or symlink",
		    src);
}

static const char *last_part(const char *path, char *out, size_t size)
{
	size_t n = strlen(path), start;

	while (n > 1 && path[n - 1] == '/')
		n--;
	start = n;
	while (start > 0 && path[start - 1] != '/')
		start--;
	snprintf(out, size, "%.*s", (int)(n - start), path + start);
	return out;
}

/* Like cp: into dst if that is a directory, else as dst. */
static int copy_out(const struct copy *c, const char *src, const char *dst)
{
	char name[256], parent[4096];
	struct stat st;

	if (stat(dst, &st) == 0 && S_ISDIR(st.st_mode)) {
		snprintf(parent, sizeof(parent), "%s", dst);
		last_part(src, name, sizeof(name));
	} else {
		size_t n;

		last_part(dst, name, sizeof(name));
		n = strlen(dst);
		while (n > 0 && dst[n - 1] == '/')
			n--;
		n -= min_size(n, strlen(name));
		snprintf(parent, sizeof(parent), "%.*s", (int)n, dst);
		if (!parent[0])
			snprintf(parent, sizeof(parent), ".");
	}
	if (!name[0] || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return fail(c->err, COVE_EINVAL, 0, "%s: name a file", dst);
	cleanup_fd int dir = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return fail(c->err, COVE_EIO, errno, "%s", parent);
	return out_any(c, src, dir, name, 0);
}

/* ---- into the sandbox ----------------------------------------------------------- */

static int in_any(const struct copy *c, int dir, const char *name, const char *dst,
		  int depth);

static int in_dir(const struct copy *c, int fd, const char *dst, mode_t mode, int depth)
{
	DIR *d;
	struct dirent *e;
	char path[8192];
	int r = 0;

	if (!(c->flags & COVE_COPY_RECURSIVE)) {
		close(fd);
		fail(c->err, COVE_EINVAL, EISDIR, "%s", dst);
		return hint(c->err, "-r copies directories");
	}
	d = fdopendir(fd);
	if (!d) {
		close(fd);
		return fail(c->err, COVE_EIO, errno, "%s", dst);
	}
	if (depth > DEPTH_MAX)
		r = fail(c->err, COVE_EINVAL, ELOOP, "%s", dst);
	else
		r = file_mkdir(c->s, dst, (mode & 0777) | 0700, c->err);
	while (r == 0 && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		r = join(path, sizeof(path), dst, e->d_name, c->err);
		if (r == 0)
			r = in_any(c, dirfd(d), e->d_name, path, depth + 1);
	}
	closedir(d);
	return r;
}

static int in_link(const struct copy *c, int dir, const char *name, const char *dst)
{
	char target[4096];
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

	if (n < 0)
		return fail(c->err, COVE_EIO, errno, "%s", name);
	target[n] = '\0';
	return file_symlink(c->s, dst, target, c->err);
}

static int in_any(const struct copy *c, int dir, const char *name, const char *dst,
		  int depth)
{
	struct stat st;
	int r;

	if (fstatat(dir, name, &st, depth ? AT_SYMLINK_NOFOLLOW : 0) < 0)
		return fail(c->err, COVE_EIO, errno, "%s", name);
	if (S_ISLNK(st.st_mode))
		return in_link(c, dir, name, dst);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return fail(c->err, COVE_EDENIED, 0,
			    "%s is not a file, directory or symlink", name);
	int fd = openat(dir, name,
			O_RDONLY | O_NONBLOCK | O_CLOEXEC | (depth ? O_NOFOLLOW : 0));
	if (fd < 0)
		return fail(c->err, COVE_EIO, errno, "%s", name);
	if (S_ISDIR(st.st_mode))
		return in_dir(c, fd, dst, st.st_mode, depth); /* closes it */
	r = file_put(c->s, dst, st.st_mode & 0777, fd, c->err);
	close(fd);
	if (r == 0)
		told(c, dst, (uint64_t)st.st_size);
	return r;
}

static int copy_in(const struct copy *c, const char *src, const char *dst)
{
	char path[8192], name[256];
	struct cove_error ignored = {0};
	struct file_info info;
	size_t n = strlen(dst);

	if (dst[0] != '/')
		return fail(c->err, COVE_EINVAL, 0,
			    "%s: the path inside must be absolute", dst);
	snprintf(path, sizeof(path), "%s", dst);
	if ((n > 0 && dst[n - 1] == '/') ||
	    (file_stat(c->s, dst, &info, &ignored) == 0 && S_ISDIR(info.mode)))
		if (join(path, sizeof(path), dst, last_part(src, name, sizeof(name)),
			 c->err) < 0)
			return c->err->code;
	return in_any(c, AT_FDCWD, src, path, 0);
}

int cove_copy(struct cove *s, const char *src, const char *dst, uint32_t flags,
	      void (*progress)(void *arg, const char *path, uint64_t bytes), void *arg,
	      struct cove_error *err)
{
	struct copy c = {
		.flags = flags, .progress = progress, .arg = arg, .err = ERR(err)};

	if (flags & ~(uint32_t)(COVE_COPY_IN | COVE_COPY_RECURSIVE))
		return fail(c.err, COVE_EINVAL, 0, "copy: unknown flag");
	if (!s->session)
		return fail(c.err, COVE_EGONE, 0, "the sandbox has ended");
	c.s = s->session;
	return flags & COVE_COPY_IN ? copy_in(&c, src, dst) : copy_out(&c, src, dst);
}
