/* SPDX-License-Identifier: Apache-2.0 */
#include "os/copytree.h"

#include "base/util.h"
#include "os/reach.h"
#include "os/treewalk.h"
#include "os/twins.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/sysmacros.h>

#define MODE_BITS 01777
#define TICK_EVERY 64
#define READ_FILE (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

struct copy {
	struct copytree *c;
	int root; /* of the copy */
	struct dirstack to;
	int parent; /* where the copy is made ... */
	const char *name;
	struct twins twins;
	uid_t uid;
	gid_t gid;
	bool chown;
};

/* ---- files with several names --------------------------------------------------- */

/* 1: linked to its first name; 0: this is the first. A path that is too long for one
 * call, that leads through a directory closed to us, or a full link count makes a copy of
 * its own: the same content, one link less. */
static int link_twin(struct copy *k, const struct tree_entry *e)
{
	int r;
	const char *first = twins_find(&k->twins, e->st, e->path, &r);

	if (!first)
		return r;
	if (linkat(k->root, first, dirstack_top(&k->to), e->name, 0) == 0)
		return 1;
	return errno == ENAMETOOLONG || errno == EMLINK || errno == EACCES ? 0 : -errno;
}

/* 1: linked to the copy that an earlier tree has of it. */
static int link_known(struct copy *k, const struct tree_entry *e)
{
	const char *path = k->c->known ? manifest_find(k->c->known, e->st) : NULL;
	int to = dirstack_top(&k->to);
	struct stat st;

	if (!path || linkat(k->c->known_dir, path, to, e->name, 0) < 0)
		return 0;
	/* Never trusted blindly: it must be what it would have become. */
	if (fstatat(to, e->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	    st.st_size == e->st->st_size &&
	    st.st_mode == (S_IFREG | (e->st->st_mode & MODE_BITS)) &&
	    st.st_mtim.tv_sec == e->st->st_mtim.tv_sec &&
	    st.st_mtim.tv_nsec == e->st->st_mtim.tv_nsec)
		return 1;
	return unlinkat(to, e->name, 0) < 0 ? -errno : 0;
}

/* ---- attributes ----------------------------------------------------------------- */

static int give_owner(const struct copy *k, int fd, const struct stat *st)
{
	if (!k->chown || (st->st_uid == k->uid && st->st_gid == k->gid))
		return 0;
	return fchown(fd, st->st_uid, st->st_gid) < 0 ? -errno : 0;
}

/* Modes come last but one: a file without write permission takes no attributes. */
static int give_attributes(const struct copy *k, int from, int to, const struct stat *st)
{
	struct timespec times[2] = {st->st_atim, st->st_mtim};
	int r = from >= 0 ? copy_xattrs(from, to) : 0;

	if (r == 0)
		r = give_owner(k, to, st);
	if (r < 0)
		return r;
	if (fchmod(to, st->st_mode & MODE_BITS) < 0 || futimens(to, times) < 0)
		return -errno;
	return 0;
}

/* Of what cannot be opened: symlinks, whiteouts, fifos, sockets. */
static int give_node_attributes(const struct copy *k, const struct tree_entry *e)
{
	struct timespec times[2] = {e->st->st_atim, e->st->st_mtim};
	int to = dirstack_top(&k->to);

	if (k->chown && (e->st->st_uid != k->uid || e->st->st_gid != k->gid) &&
	    fchownat(to, e->name, e->st->st_uid, e->st->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (utimensat(to, e->name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

/* ---- the kinds ------------------------------------------------------------------ */

static int copy_regular(struct copy *k, const struct tree_entry *e)
{
	struct stat now;
	int r;

	cleanup_fd int from = reach_openat(e->dir, e->name, READ_FILE);
	if (from < 0)
		return from;
	if (fstat(from, &now) < 0)
		return -errno;
	if (!S_ISREG(now.st_mode) || now.st_ino != e->st->st_ino)
		return -ESTALE;
	cleanup_fd int to =
		openat(dirstack_top(&k->to), e->name,
		       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return -errno;
	r = copy_content(from, to, &now, &k->c->no_reflink);
	return r < 0 ? r : give_attributes(k, from, to, &now);
}

static int copy_symlink(struct copy *k, const struct tree_entry *e)
{
	char target[4097];
	ssize_t n = reach_readlink(e->dir, e->name, target, sizeof(target) - 1);

	if (n < 0)
		return (int)n;
	target[n] = '\0';
	if (symlinkat(target, dirstack_top(&k->to), e->name) < 0)
		return -errno;
	return give_node_attributes(k, e);
}

/* A whiteout is the device 0:0; no other device can come from a sandbox. */
static int copy_node(struct copy *k, const struct tree_entry *e)
{
	mode_t mode = e->st->st_mode;
	int to = dirstack_top(&k->to);

	if (S_ISBLK(mode) || (S_ISCHR(mode) && e->st->st_rdev != makedev(0, 0)))
		return -EPERM;
	if (mknodat(to, e->name, (mode & S_IFMT) | (mode & 0777), makedev(0, 0)) < 0)
		return -errno;
	if (!S_ISCHR(mode) && fchmodat(to, e->name, mode & 0777, 0) < 0)
		return -errno;
	return give_node_attributes(k, e);
}

/* ---- the walk ------------------------------------------------------------------- */

static int tick(struct copy *k)
{
	struct copytree *c = k->c;

	if (!c->tick || ++c->since_tick < TICK_EVERY)
		return 0;
	c->since_tick = 0;
	return c->tick(c->arg) == 0 ? 0 : -ECANCELED;
}

static int64_t ctime_ns(const struct stat *st)
{
	return (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec;
}

static int on_regular(struct copy *k, const struct tree_entry *e)
{
	struct copytree *c = k->c;
	int shared = link_known(k, e), r = shared;

	c->linked += shared == 1;
	if (r == 0)
		r = link_twin(k, e);
	if (r == 0)
		r = copy_regular(k, e);
	if (r < 0)
		return r;
	if (r == 0 || shared)
		c->bytes += (uint64_t)e->st->st_size;
	if (c->note && ctime_ns(e->st) < c->note_before_ns)
		return manifest_add(c->note, e->st, c->label, e->path);
	return 0;
}

static int on_file(void *arg, const struct tree_entry *e)
{
	struct copy *k = arg;
	int r = tick(k);

	k->c->files++;
	if (r < 0)
		return r;
	if (S_ISREG(e->st->st_mode))
		return on_regular(k, e);
	r = link_twin(k, e); /* overlayfs uses one whiteout for many paths */
	if (r != 0)
		return r < 0 ? r : 0;
	switch (e->st->st_mode & S_IFMT) {
	case S_IFLNK:
		return copy_symlink(k, e);
	default:
		return copy_node(k, e);
	}
}

static int on_enter(void *arg, const struct tree_entry *e)
{
	struct copy *k = arg;
	bool start = e->path_len == 0;
	int in = start ? k->parent : dirstack_top(&k->to);
	const char *name = start ? k->name : e->name;
	int r = tick(k), fd;

	if (r < 0)
		return r;
	if (mkdirat(in, name, 0700) < 0)
		return -errno;
	fd = openat(in, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	k->c->files += !start;
	if (start)
		k->root = fd;
	r = copy_xattrs(e->fd, fd); /* now: its mode may forbid it later */
	if (r < 0) {
		close(fd);
		return r;
	}
	r = dirstack_push(&k->to, fd);
	if (r == 0 && k->c->hollow && strcmp(e->path, k->c->hollow) == 0)
		r = TREE_HOLLOW;
	return r;
}

static int on_leave(void *arg, const struct tree_entry *e)
{
	struct copy *k = arg;
	cleanup_fd int fd = fcntl(dirstack_top(&k->to), F_DUPFD_CLOEXEC, 3);
	int r;

	if (fd < 0)
		return -errno;
	/* The way up first: with its own mode it may not let us through. */
	r = k->to.n > 1 ? dirstack_pop(&k->to) : 0;
	return r < 0 ? r : give_attributes(k, -1, fd, e->st);
}

int copytree(struct copytree *c, int src, int dst, const char *name,
	     struct cove_error *err)
{
	static const struct tree_ops ops = {on_enter, on_leave, on_file};
	struct copy k = {.c = c,
			 .root = -1,
			 .parent = dst,
			 .name = name,
			 .uid = geteuid(),
			 .gid = getegid()};
	cleanup_buf struct buf where = BUF_INIT(TREE_PATH_MAX);
	int r;

	k.chown = k.uid == 0;
	r = tree_walk(src, &ops, &k, &where);
	dirstack_clear(&k.to);
	twins_clear(&k.twins);
	if (r == 0)
		return 0;
	return fail(err, r == -ENOMEM ? COVE_ENOMEM : COVE_EIO, -r, "copy %s/%.300s",
		    c->label ? c->label : name, where.data ? where.data : "");
}
