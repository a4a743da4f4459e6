/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proc_mount - carries out a mount plan in the child, by descriptors where it can.
 *
 * Runs between clone and exec, on shared memory: see proc_child.h.
 */
#include "backend/proc_child_impl.h"

#include <linux/mount.h>
#include <linux/openat2.h>

#define AT_RECURSIVE_ 0x8000
#define MNT_DETACH_ 2
#define CLOEXEC_MOUNT 1 /* FSOPEN_CLOEXEC, FSMOUNT_CLOEXEC */

/* "/proc/self/fd/N", plus "/NAME" if name is not NULL */
IN_CHILD static void fd_path(char out[64], long fd, const char *name)
{
	static const char prefix[] = "/proc/self/fd/";
	char digits[12];
	int n = 0, k = 0;

	for (; prefix[n]; n++)
		out[n] = prefix[n];
	do {
		digits[k++] = (char)('0' + fd % 10);
		fd /= 10;
	} while (fd);
	while (k)
		out[n++] = digits[--k];
	if (name) {
		out[n++] = '/';
		for (; *name && n < 63; name++)
			out[n++] = *name;
	}
	out[n] = '\0';
}

/* Attaches a mount below the root. Where the way there may hold symlinks made by somebody
 * else (a project, an image) none is followed. Descriptors stay open: the exec closes
 * them, which is cheaper than forty calls; only the unbounded spec mounts clean up after
 * themselves. */
IN_CHILD static long attach(long mount, int root, const char *target, bool hostile)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC,
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS};
	long at, r;

	if (!hostile && *target)
		return raw5(SYS_move_mount, mount, "", root, target,
			    MOVE_MOUNT_F_EMPTY_PATH);
	at = raw4(SYS_openat2, root, *target ? target : ".", &how, sizeof(how));
	TRY(at);
	r = raw5(SYS_move_mount, mount, "", at, "",
		 MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
	close_raw(at);
	return r;
}

IN_CHILD static long make_fs(const char *type, const char *const options[][2], size_t n,
			     uint64_t attr)
{
	long fs = raw2(SYS_fsopen, type, CLOEXEC_MOUNT), m;

	TRY(fs);
	for (size_t i = 0; i < n; i++) {
		const char *value = options[i][1];
		int cmd = value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;
		long r = raw5(SYS_fsconfig, fs, cmd, options[i][0], value, 0);

		if (r < 0) {
			close_raw(fs);
			return r;
		}
	}
	m = raw5(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, 0, 0, 0);
	if (m >= 0)
		m = raw3(SYS_fsmount, fs, CLOEXEC_MOUNT, attr);
	close_raw(fs);
	return m;
}

IN_CHILD static long make_tmpfs(const char *size, uint64_t attr)
{
	const char *const options[][2] = {
		{"mode", "0755"},
                {"size", size  }
        };

	return make_fs("tmpfs", options, size ? 2 : 1, attr);
}

IN_CHILD static long set_attr(long mount, uint64_t set)
{
	struct mount_attr a = {.attr_set = set};

	return raw5(SYS_mount_setattr, mount, "", AT_EMPTY_PATH | AT_RECURSIVE_, &a,
		    sizeof(a));
}

IN_CHILD static uint64_t bind_attr(const struct op *o)
{
	return MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
	       (o->flags & OPF_RDONLY ? MOUNT_ATTR_RDONLY : 0);
}

/* O_EXCL: what is there already need not be writable to be mounted on. */
IN_CHILD static long make_last(int root, const char *path, bool file)
{
	long r;

	if (!file)
		return raw3(SYS_mkdirat, root, path, 0755);
	r = raw4(SYS_openat, root, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (r >= 0)
		close_raw(r);
	return r;
}

/* Creates path as a directory or, with file, as a file; its parents too, if they are
 * missing. EROFS is no failure: attach() will tell whether it is there. */
IN_CHILD static long make_target(int root, const char *path, bool file)
{
	char part[4096];
	long n = len_of(path), r = make_last(root, path, file);

	if (n >= (long)sizeof(part))
		return -ENAMETOOLONG;
	for (long i = 0; r == -ENOENT && i < n; i++) {
		part[i] = path[i];
		if (path[i] != '/' || i == 0)
			continue;
		part[i] = '\0';
		r = raw3(SYS_mkdirat, root, part, 0755);
		if (r < 0 && r != -EEXIST && r != -EROFS)
			return r;
		part[i] = '/';
		r = -ENOENT;
	}
	if (r == -ENOENT)
		r = make_last(root, path, file);
	return r < 0 && r != -EEXIST && r != -EROFS ? r : 0;
}

/* path, whose last name begins at `last`, with symlinks resolved inside the new root. */
IN_CHILD static long make_in_root(int root, char *path, long last, bool file)
{
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
			       .resolve = RESOLVE_IN_ROOT};
	long at, r;

	if (last)
		path[last - 1] = '\0';
	at = raw4(SYS_openat2, root, last ? path : ".", &how, sizeof(how));
	if (last)
		path[last - 1] = '/';
	TRY(at);
	r = make_last((int)at, path + last, file);
	close_raw(at);
	return r;
}

/* The same as make_target() where the way there may hold symlinks of somebody else: seen
 * from here, an absolute one would lead to the host. */
IN_CHILD static long make_hostile_target(int root, const char *path, bool file)
{
	char part[4096];
	long n = 0, last = 0, r;

	for (; path[n]; n++) {
		if (n == (long)sizeof(part) - 1)
			return -ENAMETOOLONG;
		part[n] = path[n];
		last = path[n] == '/' ? n + 1 : last;
	}
	part[n] = '\0';
	r = make_in_root(root, part, last, file);
	for (long i = 0, from = 0; r == -ENOENT && i < last; i++) {
		long made;

		if (part[i] != '/')
			continue;
		part[i] = '\0';
		made = i > from ? make_in_root(root, part, from, false) : 0;
		part[i] = '/';
		from = i + 1;
		if (made < 0 && made != -EEXIST && made != -EROFS)
			return made;
	}
	if (r == -ENOENT)
		r = make_in_root(root, part, last, file);
	return r < 0 && r != -EEXIST && r != -EROFS ? r : 0;
}

IN_CHILD static long make_point(int root, const struct op *o, bool file)
{
	return o->flags & OPF_HOSTILE ? make_hostile_target(root, o->target, file)
				      : make_target(root, o->target, file);
}

IN_CHILD static long do_bind(int root, const struct op *o)
{
	long m = o->fd, r;

	if (m < 0)
		m = raw3(SYS_open_tree, AT_FDCWD, o->source,
			 OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC |
				 (o->flags & OPF_FILE ? 0 : AT_RECURSIVE_));
	if (m == -ENOENT && (o->flags & OPF_OPTIONAL))
		return 0;
	TRY(m);
	TRY(make_point(root, o, o->flags & OPF_FILE));
	r = o->flags & OPF_DEV
		    ? 0
		    : set_attr(m, bind_attr(o)); /* a node has no flags to set */
	if (r >= 0)
		r = attach(m, root, o->target, o->flags & OPF_HOSTILE);
	if (o->fd < 0 && (o->flags & OPF_HOSTILE))
		close_raw(m);
	return r;
}

/* An attached descriptor of a layer: overlayfs refuses detached mounts. Prepared layers
 * are stacked where the overlay itself will cover them. */
IN_CHILD static long layer(int root, int prepared, const char *path, const char *target)
{
	if (prepared < 0)
		return raw4(SYS_openat, AT_FDCWD, path, O_PATH_ | O_DIRECTORY, 0);
	TRY(attach(prepared, root, target, true));
	return prepared;
}

/* volatile: otherwise every copy-up and the unmount itself sync the whole disk below.
 * What the layer holds is made durable when the sandbox ends (core/box.c). */
IN_CHILD static long make_overlay(int root, const struct op *o)
{
	char lower[64], upper[64], work[64];
	const char *const options[][2] = {
		{"lowerdir",  lower},
		{"upperdir",  upper},
		{"workdir",   work },
		{"userxattr", NULL },
		{"volatile",  NULL }
        };
	/* upper and work are two directories of one parent: one layer mount holds both */
	long up = layer(root, o->layer_fd, o->layer, o->target);
	long low;

	TRY(up);
	low = layer(root, o->fd, o->source, o->target);
	TRY(low);
	fd_path(lower, low, NULL);
	fd_path(upper, up, "upper");
	fd_path(work, up, "work");
	return make_fs("overlay", options, 5, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

IN_CHILD static long do_overlay(int root, const struct op *o)
{
	long m = make_overlay(root, o);

	TRY(m);
	return attach(m, root, o->target, o->flags & OPF_HOSTILE);
}

IN_CHILD static long do_proc(int root, const struct op *o)
{
	long m = make_fs("proc", NULL, 0,
			 MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);

	TRY(m);
	return attach(m, root, o->target, o->flags & OPF_HOSTILE);
}

IN_CHILD static long do_devpts(int root, const struct op *o)
{
	static const char *const options[][2] = {
		{"newinstance", NULL  },
                {"ptmxmode",    "0666"},
                {"mode",        "0620"}
        };
	long m = make_fs("devpts", options, 3, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);

	TRY(m);
	return attach(m, root, o->target, o->flags & OPF_HOSTILE);
}

IN_CHILD static long do_tmpfs(int root, const struct op *o)
{
	long m = make_tmpfs(o->arg, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);

	TRY(m);
	return attach(m, root, o->target, o->flags & OPF_HOSTILE);
}

/* What is there, mounted over itself: then it cannot be moved or removed, nor, read-only,
 * be written. It is taken from inside, so what was looked up is what is covered. */
IN_CHILD static long do_guard(int root, const struct op *o)
{
	struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS};
	long at = raw4(SYS_openat2, root, o->target, &how, sizeof(how)), m, r;

	TRY(at);
	m = raw3(SYS_open_tree, at, "",
		 OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE_);
	r = m < 0 ? m : set_attr(m, bind_attr(o));
	if (r >= 0)
		r = raw5(SYS_move_mount, m, "", at, "",
			 MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
	if (m >= 0)
		close_raw(m);
	close_raw(at);
	return r;
}

IN_CHILD static long do_op(int root, const struct op *o)
{
	switch (o->kind) {
	case OP_DIR:
		return make_point(root, o, false);
	case OP_SYMLINK:
		return raw3(SYS_symlinkat, o->source, root, o->target);
	case OP_BIND:
		return do_bind(root, o);
	case OP_OVERLAY:
		return do_overlay(root, o);
	case OP_TMPFS:
		return do_tmpfs(root, o);
	case OP_PROC:
		return do_proc(root, o);
	case OP_DEVPTS:
		return do_devpts(root, o);
	case OP_GUARD:
		return do_guard(root, o);
	default:
		return -EINVAL;
	}
}

/* The root is stacked on the old "/": path look-ups of this process still start in the
 * old root below it, so host paths stay usable until the pivot. */
IN_CHILD static long make_root(const struct op *o)
{
	long old = raw4(SYS_openat, AT_FDCWD, "/", O_PATH_ | O_DIRECTORY, 0);
	long m;

	TRY(old);
	m = o->kind == OP_ROOT_TMPFS
		    ? make_tmpfs(o->arg, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
		    : make_overlay((int)old, o);
	if (m >= 0) {
		long r = raw5(SYS_move_mount, m, "", old, "",
			      MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);

		m = r < 0 ? r : m;
	}
	close_raw(old);
	return m;
}

IN_CHILD long child_mount(struct child_job *j, int *ret_root)
{
	const struct plan *p = j->plan;
	long root;

	j->detail = 0;
	root = make_root(&p->ops[0]);
	TRY(root);
	for (size_t i = 1; i < p->n_ops; i++) {
		long r;

		j->detail = (int)i;
		r = do_op((int)root, &p->ops[i]);
		if (r == -EEXIST && p->ops[i].kind == OP_SYMLINK)
			continue; /* an image that has it already */
		if (r < 0 && (p->ops[i].flags & OPF_SOFT))
			continue;
		TRY(r);
	}
	*ret_root = (int)root;
	return 0;
}

/* After the pivot the old root lies on top of the new one, and what make_root() stacked
 * on the old root lies on top of that: all of it must go, and not one more, which would
 * be our own. */
IN_CHILD long child_pivot(const struct child_job *j, int root)
{
	const struct op *o = &j->plan->ops[0];
	int stacked = 1 + (o->fd >= 0) + (o->layer_fd >= 0);

	TRY(raw1(SYS_fchdir, root));
	TRY(raw2(SYS_pivot_root, ".", "."));
	while (stacked--)
		TRY(raw2(SYS_umount2, ".", MNT_DETACH_));
	return raw1(SYS_chdir, "/");
}
