/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_prepare - the part of a plan that needs a privileged caller.
 *
 * When cove runs as root, the sandbox's user is an unprivileged id outside, which owns
 * nothing and cannot even walk to the project. So the parent opens what the spec names as
 * detached mounts, each id-mapped: the owner of the directory on disk appears as the
 * sandbox's user, and what that user creates belongs to the owner on disk.
 */
#include "backend/plan.h"

#include "base/util.h"
#include "os/userns.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* An overlay covers its layers, but they stay in the namespace: nothing runs set-user-id
 * from them, and what lies below is read-only in itself. */
#define PLAIN (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

/* The last namespace made: mounts of one owner, the usual case, share it. */
struct idmap {
	int fd;
	struct userns_holder *holder; /* kept in the plan, reaped with it */
	uid_t uid;
	gid_t gid;
};

static int idmap_for(struct idmap *m, const struct stat *st, uint32_t host_uid)
{
	if (m->fd >= 0 && m->uid == st->st_uid && m->gid == st->st_gid)
		return 0;
	close_fd(&m->fd);
	userns_reap(m->holder);
	m->fd = userns_open(st->st_uid, host_uid, st->st_gid, host_uid, m->holder);
	m->uid = st->st_uid;
	m->gid = st->st_gid;
	return m->fd < 0 ? m->fd : 0;
}

static int prepare(const char *path, bool map, bool recursive, uint64_t attr,
		   struct idmap *m, uint32_t host_uid, int *ret, struct cove_error *err)
{
	struct mount_attr a = {.attr_set = MOUNT_ATTR_IDMAP | attr};
	struct stat st;
	int r;

	cleanup_fd int fd = (int)syscall(SYS_open_tree, AT_FDCWD, path,
					 OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC |
						 (recursive ? AT_RECURSIVE : 0));
	if (fd < 0 || fstat(fd, &st) < 0)
		return fail(err, COVE_EIO, errno, "open %s", path);
	if (map) {
		r = idmap_for(m, &st, host_uid);
		if (r < 0)
			return fail(err, COVE_EIO, -r, "user namespace for %s", path);
		a.userns_fd = (uint64_t)m->fd;
		if (syscall(SYS_mount_setattr, fd, "",
			    AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0), &a,
			    sizeof(a)) < 0) {
			fail(err, COVE_EUNSUPPORTED, errno, "map the owner of %s", path);
			return hint(err,
				    "this file system has no id-mapped mounts; run cove "
				    "as the ordinary user who owns %s",
				    path);
		}
	}
	*ret = take_fd(&fd);
	return 0;
}

int plan_prepare(struct plan *p, uint32_t host_uid, struct cove_error *err)
{
	struct idmap m = {.fd = -1, .holder = &p->holder};
	int r = 0;

	for (size_t i = 0; i < p->n_ops && r == 0; i++) {
		struct op *o = &p->ops[i];
		bool map = o->flags & OPF_IDMAP;

		if (!(o->flags & OPF_HIDDEN))
			continue;
		r = prepare(o->source, map, o->kind == OP_BIND,
			    PLAIN | (o->layer ? MOUNT_ATTR_RDONLY : 0), &m, host_uid,
			    &o->fd, err);
		if (r == 0 && o->layer)
			r = prepare(o->layer, true, false, PLAIN, &m, host_uid,
				    &o->layer_fd, err);
	}
	close_fd(&m.fd);
	return r;
}
