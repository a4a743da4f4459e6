/* SPDX-License-Identifier: Apache-2.0 */
#include "work/layer.h"

#include "base/util.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

#define NS_PER_S 1000000000

static void layer_clear(struct layer *l)
{
	free(l->source);
	free(l->target);
	for (size_t i = 0; i < l->n_skip; i++)
		free(l->skip[i]);
	free(l->skip);
	close_fd(&l->lower);
	close_fd(&l->dir);
	close_fd(&l->upper);
}

void layers_clear(struct layers *l)
{
	for (size_t i = 0; i < l->n; i++)
		layer_clear(&l->v[i]);
	free(l->v);
	if (l->v || l->record > 0) /* a zeroed one holds no descriptor */
		close_fd(&l->record);
	*l = (struct layers){.record = -1};
}

static int64_t ns_of(struct timespec t)
{
	return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

int64_t layer_since(const struct layer *l)
{
	struct stat st;

	if (l->dir < 0 || fstatat(l->dir, "work", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return ns_of(st.st_mtim);
}

/* ---- opening -------------------------------------------------------------------- */

static int open_one(int dir, const char *path, int flags)
{
	struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC | O_NOFOLLOW),
			       .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
					  RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS};
	int fd, tries = 8;

	/* EAGAIN: something was renamed meanwhile and the kernel could not be sure; or
	 * the sandbox holds a lease, which it may do for longer than we want to wait. */
	do
		fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
	while (fd < 0 && (errno == EINTR || (errno == EAGAIN && --tries)));
	return fd < 0 ? -errno : fd;
}

/* A sandbox can make paths that are longer than one call takes: those go by pieces. */
int open_beneath(int dir, const char *path, int flags)
{
	cleanup_fd int at = -1;

	while (strlen(path) >= PATH_MAX) {
		char piece[PATH_MAX];
		size_t n = PATH_MAX - 1;
		int next;

		while (n && path[n] != '/')
			n--;
		if (n == 0)
			return -ENAMETOOLONG;
		memcpy(piece, path, n);
		piece[n] = '\0';
		next = open_one(at < 0 ? dir : at, piece, O_PATH | O_DIRECTORY);
		if (next < 0)
			return next;
		close_fd(&at);
		at = next;
		path += n + 1;
	}
	return open_one(at < 0 ? dir : at, *path ? path : ".", flags);
}

int open_parent(int dir, const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	cleanup_free char *parent = NULL;
	int fd;

	if (!slash) {
		fd = open_beneath(dir, ".", O_PATH | O_DIRECTORY);
	} else {
		parent = strndup(path, (size_t)(slash - path));
		if (!parent)
			return -ENOMEM;
		fd = open_beneath(dir, parent, O_PATH | O_DIRECTORY);
	}
	if (fd >= 0)
		*ret_name = slash ? slash + 1 : path;
	return fd;
}

/* ---- identity ------------------------------------------------------------------- */

void ident_from(struct ident *id, const struct stat *st)
{
	*id = (struct ident){
		.mode = st->st_mode,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.dev = st->st_dev,
		.ino = st->st_ino,
		.size = (uint64_t)st->st_size,
		.mtime_ns = ns_of(st->st_mtim),
		.ctime_ns = ns_of(st->st_ctim),
	};
}

int ident_at(int dir, const char *path, struct ident *ret)
{
	const char *name = path;
	struct stat st;
	cleanup_fd int opened = strchr(path, '/') ? open_parent(dir, path, &name) : -1;
	int parent = strchr(path, '/') ? opened : dir;

	if (parent == -ENOENT || parent == -ENOTDIR || parent == -ELOOP) {
		*ret = (struct ident){0}; /* a file or a symlink is in the way */
		return 0;
	}
	if (parent < 0)
		return parent;
	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno != ENOENT)
			return -errno;
		*ret = (struct ident){0};
		return 0;
	}
	ident_from(ret, &st);
	return 0;
}

bool ident_same_file(const struct ident *a, const struct ident *b)
{
	return a->mode == b->mode && a->uid == b->uid && a->gid == b->gid &&
	       a->ino == b->ino && a->size == b->size && a->mtime_ns == b->mtime_ns;
}

bool ident_same(const struct ident *a, const struct ident *b)
{
	return ident_same_file(a, b) && a->dev == b->dev && a->ctime_ns == b->ctime_ns;
}

bool ident_alike(const struct ident *a, const struct ident *b)
{
	if (!a->mode || !b->mode)
		return a->mode == b->mode;
	return a->mode == b->mode && a->uid == b->uid && a->gid == b->gid &&
	       (S_ISDIR(a->mode) || (a->size == b->size && a->mtime_ns == b->mtime_ns));
}
