/* SPDX-License-Identifier: Apache-2.0 */
/*
 * discard - drops changes for good, by taking them out of the upper layer of a stopped
 * sandbox.
 *
 * A path below a directory that is hidden as a whole (deleted, or made anew) has no entry
 * of its own in the upper layer. To bring back one of several, the hiding is written out
 * first: the directory becomes an ordinary one with a whiteout for each path it hid.
 */
#include "work/apply_impl.h"

#include "base/io.h"
#include "base/util.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

static int open_dir(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* ---- writing the hiding out ----------------------------------------------------- */

/* A whiteout for each name of the host's directory that the upper one does not have. */
static int write_out(int up, int low, int depth)
{
	int fd = depth < CHANGE_DEPTH_MAX ? open_dir(low, ".") : -ELOOP, r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return fd < 0 ? fd : -ENOMEM;
	}
	while (r == 0 && (e = readdir(d))) {
		struct stat st;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (mknodat(up, e->d_name, S_IFCHR, makedev(0, 0)) == 0)
			continue;
		if (errno != EEXIST)
			r = -errno;
		else if (fstatat(up, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			 S_ISDIR(st.st_mode)) {
			cleanup_fd int u = open_dir(up, e->d_name);
			cleanup_fd int l = open_dir(low, e->d_name);

			if (u >= 0 && l >= 0 && !upper_is_opaque(u))
				r = write_out(u, l, depth + 1);
		}
	}
	closedir(d);
	return r;
}

/* The whiteout of a directory becomes that directory, empty. */
static int whiteout_to_dir(int up, int low, const char *name)
{
	char tmp[] = ".cove-discard";
	struct stat st;
	int r;

	if (fstatat(low, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	remove_tree_at(up, tmp);
	if (mkdirat(up, tmp, 0700) < 0)
		return -errno;
	cleanup_fd int u = open_dir(up, tmp);
	cleanup_fd int l = open_dir(low, name);
	r = u < 0 ? u : l < 0 ? l : write_out(u, l, 0);
	if (r == 0 && geteuid() == 0 && fchown(u, st.st_uid, st.st_gid) < 0)
		r = -errno;
	if (r == 0 && fchmod(u, st.st_mode & 0777) < 0)
		r = -errno;
	if (r == 0)
		r = rename_at(up, tmp, up, name, RENAME_EXCHANGE);
	remove_tree_at(up, tmp);
	return r;
}

/* On the way to path nothing hides any more. */
static int open_way(const struct layer *l, const char *path, struct cove_error *err)
{
	cleanup_free char *way = strdup(path);
	int r = way ? 0 : -ENOMEM;

	for (char *slash = way ? strchr(way, '/') : NULL; r == 0 && slash;
	     slash = strchr(slash + 1, '/')) {
		const char *name, *below;
		struct stat st;

		*slash = '\0';
		cleanup_fd int up = open_parent(l->upper, way, &name);
		cleanup_fd int low = open_parent(l->lower, way, &below);
		if (up < 0 || fstatat(up, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return 0; /* nothing of it in the upper layer */
		if (S_ISCHR(st.st_mode) && low >= 0)
			r = whiteout_to_dir(up, low, name);
		else if (S_ISDIR(st.st_mode)) {
			cleanup_fd int u = open_dir(up, name);
			cleanup_fd int d = low < 0 ? low : open_dir(low, name);

			if (u >= 0 && d >= 0 && upper_is_opaque(u)) {
				r = write_out(u, d, 0);
				if (r == 0 && fremovexattr(u, "user.overlay.opaque") < 0)
					r = -errno;
			}
		}
		*slash = '/';
	}
	return r < 0 ? fail(err, COVE_EIO, -r, "discard %s", path) : 0;
}

/* ---- dropping ------------------------------------------------------------------- */

/* A directory's own attributes, like the host's again. */
static int reset_dir(const struct layer *l, const char *path, int parent,
		     const char *name)
{
	struct ident host;
	int r = ident_at(l->lower, path, &host);

	if (r < 0 || !S_ISDIR(host.mode))
		return r;
	cleanup_fd int fd = open_dir(parent, name);
	if (fd < 0)
		return fd;
	if (geteuid() == 0 && fchown(fd, host.uid, host.gid) < 0)
		return -errno;
	return fchmod(fd, host.mode & 07777) < 0 ? -errno : 0;
}

static int drop_one(const struct layer *l, const struct change *c)
{
	const char *name;
	struct stat st;

	cleanup_fd int parent = open_parent(l->upper, c->path, &name);
	if (parent < 0)
		return parent == -ENOENT || parent == -ENOTDIR ? 0 : parent;
	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISDIR(st.st_mode))
		return unlinkat(parent, name, 0) < 0 ? -errno : 0;
	if (c->kind == COVE_ATTRS)
		return reset_dir(l, c->path, parent, name);
	return unlinkat(parent, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

/* Directories in the upper layer that hold nothing any more. */
static void prune(const struct layer *l, const char *path)
{
	cleanup_free char *way = strdup(path);

	for (char *slash = way ? strrchr(way, '/') : NULL; slash;
	     slash = strrchr(way, '/')) {
		const char *name;
		struct ident up, low;

		*slash = '\0';
		cleanup_fd int parent = open_parent(l->upper, way, &name);
		if (parent < 0 || ident_at(parent, name, &up) < 0 ||
		    ident_at(l->lower, way, &low) < 0 || up.mode != low.mode ||
		    unlinkat(parent, name, AT_REMOVEDIR) < 0)
			return;
	}
}

struct teller {
	void (*fn)(void *arg, const struct cove_change *c);
	void *arg;
};

static void tell(const struct work *w, const struct change *c, const struct teller *t)
{
	struct cove_change pub;

	change_export(w->layers, c, &pub);
	t->fn(t->arg, &pub);
}

static int discard_some(const struct work *w, const struct changes *v,
			const struct teller *t, struct cove_error *err)
{
	for (size_t i = 0; i < v->n; i++)
		if (open_way(&w->layers->v[v->v[i].layer], v->v[i].path, err) < 0)
			return err->code;
	for (size_t i = v->n;
	     i-- > 0;) { /* what is in a directory before the directory */
		const struct change *c = &v->v[i];
		const struct layer *l = &w->layers->v[c->layer];
		int r = drop_one(l, c);

		if (r == -ENOTEMPTY || r == -EEXIST) {
			fail(err, COVE_ESTATE, 0, "discard %s: other changes are in it",
			     c->path);
			return hint(err, "discard the directory as a whole");
		}
		if (r < 0)
			return fail(err, COVE_EIO, -r, "discard %s", c->path);
		ledger_forget(w->ledgers[c->layer], c->path);
		prune(l, c->path);
		tell(w, c, t);
	}
	return 0;
}

/* Everything: by one rename out of the way, then byte by byte. */
static int discard_layer(const struct layer *l, struct cove_error *err)
{
	static const char *const what[] = {"ledger", "blobs", ".dropped"};
	struct stat st;
	int r = 0;

	if (l->upper < 0)
		return 0;
	if (fstat(l->upper, &st) < 0)
		return fail(err, COVE_EIO, errno, "%s", l->name);
	remove_tree_at(l->dir, ".dropped");
	if (renameat(l->dir, "upper", l->dir, ".dropped") < 0)
		return fail(err, COVE_EIO, errno, "discard %s", l->source);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(what); i++)
		r = remove_tree_at(l->dir, what[i]);
	return r < 0 ? fail(err, COVE_EIO, -r, "discard %s", l->source) : 0;
}

static int discard_all(const struct work *w, const struct changes *v,
		       const struct teller *t, struct cove_error *err)
{
	for (size_t i = 0; i < w->layers->n; i++) {
		if (discard_layer(&w->layers->v[i], err) < 0)
			return err->code;
		for (size_t k = 0; k < v->n; k++)
			if (v->v[k].layer == i)
				tell(w, &v->v[k], t);
	}
	return 0;
}

int64_t work_discard(const struct work *w, const char *const *paths,
		     void (*fn)(void *arg, const struct cove_change *c), void *arg,
		     struct cove_error *err)
{
	const struct teller t = {fn, arg};
	struct changes v = {0};
	int64_t n;
	int r = changes_list(&v, w->layers, w->ledgers, paths, CHANGES_NO_RENAMES, err);

	if (r < 0)
		return r;
	n = (int64_t)v.n;
	if (paths) {
		r = discard_some(w, &v, &t, err);
		for (size_t i = 0; r == 0 && i < w->layers->n; i++)
			r = ledger_save(w->ledgers[i], err);
	} else {
		r = discard_all(w, &v, &t, err);
	}
	changes_clear(&v);
	return r < 0 ? r : n;
}
