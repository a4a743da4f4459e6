/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stage - copies of what may land, on the project's file system, where only we write.
 *
 * The gate judges these copies and the landing renames them: a sandbox that goes on
 * writing, or somebody who swaps a symlink, changes nothing of what was judged.
 */
#include "work/apply_impl.h"

#include "base/io.h"
#include "base/util.h"
#include "os/copytree.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/xattr.h>

#define TRIES 20

/* One stage a sandbox and project: the record's own directory tells them apart. */
void stage_dir_name(int record, char out[32])
{
	struct stat st = {0};

	if (fstat(record, &st) < 0)
		st.st_ino = 0;
	snprintf(out, 32, ".cove-stage-%llx",
		 (unsigned long long)(st.st_ino ^ st.st_dev << 40));
}

int stage_make(struct landing *l, size_t layer, struct cove_error *err)
{
	struct land_site *s = &l->sites[layer];

	if (s->stage >= 0)
		return 0;
	if (mkdirat(s->lower, l->j->stage, 0700) < 0 && errno != EEXIST)
		return fail(err,
			    errno == EACCES || errno == EROFS ? COVE_EDENIED : COVE_EIO,
			    errno, "%s/%s", l->j->layers[layer].source, l->j->stage);
	s->stage = openat(s->lower, l->j->stage,
			  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return s->stage < 0 ? fail(err, COVE_EIO, errno, "stage") : 0;
}

int stage_remove(const struct journal *j, struct cove_error *err)
{
	for (size_t i = 0; i < j->n_layers; i++) {
		cleanup_fd int lower =
			open(j->layers[i].source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		int r = lower < 0 ? -errno : remove_tree_at(lower, j->stage);

		if (r < 0 && r != -ENOENT)
			return fail(err, COVE_EIO, -r, "%s/%s", j->layers[i].source,
				    j->stage);
	}
	return 0;
}

/* ---- copying -------------------------------------------------------------------- */

/* Extended attributes of the user's own kind; never the overlay's, never capabilities. */
static int keep_xattrs(int from, int to)
{
	char names[4096], value[65536];
	ssize_t n = flistxattr(from, names, sizeof(names));

	for (char *p = names; n > 0 && p < names + n; p += strlen(p) + 1) {
		ssize_t len;

		if ((strncmp(p, "user.", 5) != 0 ||
		     strncmp(p, "user.overlay.", 13) == 0) &&
		    strcmp(p, "system.posix_acl_access") != 0)
			continue;
		len = fgetxattr(from, p, value, sizeof(value));
		if (len >= 0 && fsetxattr(to, p, value, (size_t)len, 0) < 0)
			return -errno;
	}
	return n < 0 && errno != EOPNOTSUPP ? -errno : 0;
}

/* Owner and mode, where they are not right already. Owner first: a change of it clears
 * bits of the mode. An edited file keeps its owner on the host; only root may give files
 * away. */
static int set_attrs(int fd, const struct change *c, struct stat *st)
{
	const struct ident *like =
		c->old.mode && !S_ISDIR(c->old.mode) && !(c->what & COVE_WHAT_OWNER)
			? &c->old
			: &c->new;
	mode_t mode = c->new.mode & 01777; /* set-user-id is never staged */
	bool again = false;

	if (fstat(fd, st) < 0)
		return -errno;
	if (geteuid() == 0 && (st->st_uid != like->uid || st->st_gid != like->gid)) {
		if (fchown(fd, like->uid, like->gid) < 0)
			return -errno;
		again = true;
	} else if (c->old.mode && st->st_gid != like->gid) {
		if (fchown(fd, (uid_t)-1, like->gid) < 0 && errno != EPERM)
			return -errno;
		again = true;
	}
	if (again || (st->st_mode & 07777) != mode) {
		if (fchmod(fd, mode) < 0)
			return -errno;
		again = true;
	}
	return again && fstat(fd, st) < 0 ? -errno : 0;
}

/* 1: it changed while it was copied. */
static int copy_once(struct apply *a, const char *name, int from, const struct change *c,
		     struct ident *ret)
{
	int stage = a->landing.sites[c->layer].stage, r;
	struct stat st;

	/* Its mode does not matter here: nobody else can enter the stage. */
	cleanup_fd int to =
		openat(stage, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		       c->new.mode & 0777);
	if (to < 0 || fstat(from, &st) < 0)
		return -errno;
	r = copy_content(from, to, &st, &a->no_reflink);
	if (r == 0)
		r = keep_xattrs(from, to);
	if (r == 0)
		r = set_attrs(to, c, &st);
	if (r < 0)
		return r;
	ident_from(ret, &st);
	if (fstat(from, &st) < 0)
		return -errno;
	return ret->size != (uint64_t)st.st_size || ret->size != c->new.size ||
	       st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec != c->new.mtime_ns;
}

static int stage_file(struct apply *a, size_t i, const char *name, struct cove_error *err)
{
	struct change *c = &a->changes.v[i];
	const struct layer *l = &a->w->layers->v[c->layer];
	int r = -ESTALE;

	for (int k = 0; k < TRIES && (r == -ESTALE || r == 1); k++) {
		cleanup_fd int from = -1;

		if (k > 0) { /* it was written to: take what it is now */
			unlinkat(a->landing.sites[c->layer].stage, name, 0);
			int e = ident_at(l->upper, c->path, &c->new);

			if (e < 0 || !S_ISREG(c->new.mode))
				break;
			usleep(2000);
		}
		from = change_open_new(a->w->layers, c);
		r = from < 0 ? from : copy_once(a, name, from, c, &a->items[i].landed);
	}
	if (r == 0)
		return 0;
	if (r > 0 || r == -ESTALE) {
		fail(err, COVE_ESTATE, 0, "%s/%s keeps changing", l->source, c->path);
		return hint(err, "stop what writes to it, or name the paths to apply");
	}
	return fail(err, COVE_EIO, -r, "stage %s/%s", l->source, c->path);
}

static int stage_link(struct apply *a, size_t i, const char *name, struct cove_error *err)
{
	const struct change *c = &a->changes.v[i];
	int stage = a->landing.sites[c->layer].stage;

	if (!c->new_target || symlinkat(c->new_target, stage, name) < 0)
		return fail(err, COVE_EIO, errno, "stage %s", c->path);
	if (geteuid() == 0 &&
	    fchownat(stage, name, c->new.uid, c->new.gid, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(err, COVE_EIO, errno, "stage %s", c->path);
	return 0;
}

/* Only files and symlinks are copied; what else there is (a device ...) is for the gate
 * to refuse, by its mode. */
int stage_change(struct apply *a, size_t i, struct cove_error *err)
{
	struct change *c = &a->changes.v[i];
	struct item *it = &a->items[i];
	char name[16];
	int r;

	it->landed = c->new;
	if (c->what & COVE_WHAT_UNREADABLE ||
	    !(S_ISREG(c->new.mode) || S_ISLNK(c->new.mode)))
		return 0;
	if (S_ISREG(c->new.mode) && c->new.size > a->max_file)
		return 0;
	stage_name(name, (uint32_t)i);
	r = stage_make(&a->landing, c->layer, err);
	if (r == 0)
		r = S_ISREG(c->new.mode) ? stage_file(a, i, name, err)
					 : stage_link(a, i, name, err);
	if (r < 0)
		return r;
	it->staged = true;
	if (S_ISREG(c->new.mode))
		return 0;
	r = ident_at(a->landing.sites[c->layer].stage, name, &it->landed);
	return r < 0 ? fail(err, COVE_EIO, -r, "stage %s", c->path) : 0;
}

int stage_content(struct apply *a, size_t i, const void *data, size_t n,
		  struct cove_error *err)
{
	const struct change *c = &a->changes.v[i];
	int stage = a->landing.sites[c->layer].stage, r;
	struct stat st;
	char name[16];

	stage_name(name, (uint32_t)i);
	/* A new file, not a rewrite: a shared (reflinked) or read-only one is no matter.
	 */
	unlinkat(stage, name, 0);
	cleanup_fd int fd = openat(
		stage, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : write_all(fd, data, n);
	if (r == 0)
		r = set_attrs(fd, c, &st);
	if (r == 0)
		ident_from(&a->items[i].landed, &st);
	return r < 0 ? fail(err, COVE_EIO, -r, "stage %s", c->path) : 0;
}

int stage_open_staged(const struct apply *a, size_t i)
{
	char name[16];
	int fd;

	stage_name(name, (uint32_t)i);
	fd = openat(a->landing.sites[a->changes.v[i].layer].stage, name,
		    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Staged data is on disk before anything is renamed. */
int stage_sync(struct apply *a, struct cove_error *err)
{
	for (size_t i = 0; i < a->changes.n && a->changes.n <= 64; i++) {
		if (!a->items[i].take || !a->items[i].staged ||
		    !S_ISREG(a->items[i].landed.mode))
			continue;
		cleanup_fd int fd = stage_open_staged(a, i);
		if (fd == -EACCES) /* its mode closes it even to us */
			continue;
		if (fd < 0 || fsync(fd) < 0)
			return fail(err, COVE_EIO, fd < 0 ? -fd : errno, "sync %s",
				    a->changes.v[i].path);
	}
	for (size_t k = 0; k < a->j.n_layers; k++) {
		int stage = a->landing.sites[k].stage;

		if (stage < 0)
			continue;
		/* what is in the stage, and the stage's own name in the project */
		if (a->changes.n > 64
			    ? syncfs(stage) < 0
			    : fsync(stage) < 0 || fsync(a->landing.sites[k].lower) < 0)
			return fail(err, COVE_EIO, errno, "sync the stage");
	}
	return 0;
}
