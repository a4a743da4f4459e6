/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/proc_child.h"

#include "os/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* The sanitizers' own tables must not be touched from a stack they do not know. */
#if defined(__SANITIZE_ADDRESS__)
#define IN_CHILD __attribute__((no_sanitize("address", "undefined")))
#else
#define IN_CHILD
#endif

#define AT_RECURSIVE_ 0x8000
#define MNT_DETACH_ 2
#define MS_PRIVATE_REC 0x44000 /* MS_REC | MS_PRIVATE */
#define CLOEXEC_MOUNT 1        /* FSOPEN_CLOEXEC, FSMOUNT_CLOEXEC */
#define O_PATH_ (O_PATH | O_CLOEXEC)

#define TRY(expr) \
	do { \
		long try_ = (expr); \
		if (try_ < 0) \
			return try_; \
	} while (0)

static const char *const stage_texts[] = {
#define X(id, text) text,
	CHILD_STAGES(X)
#undef X
};

const char *child_stage_text(enum child_stage s)
{
	return stage_texts[s];
}

/* ---- small helpers -------------------------------------------------------------- */

IN_CHILD static long len_of(const char *s)
{
	long n = 0;

	while (s[n]) {
		n++;
		__asm__ volatile(""); /* or the compiler makes a call to strlen() of it */
	}
	return n;
}

IN_CHILD static void close_raw(long fd)
{
	raw1(SYS_close, fd);
}

IN_CHILD static long write_knob(const char *path, const char *text)
{
	long fd = raw4(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
	long r;

	TRY(fd);
	r = raw3(SYS_write, fd, text, len_of(text));
	close_raw(fd);
	return r;
}

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

/* ---- mounting ------------------------------------------------------------------- */

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
	TRY(make_target(root, o->target, o->flags & OPF_FILE));
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

IN_CHILD static long do_op(int root, const struct op *o)
{
	switch (o->kind) {
	case OP_DIR:
		return make_target(root, o->target, false);
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

IN_CHILD static long mount_all(struct child_job *j, int *ret_root)
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
		TRY(r);
	}
	*ret_root = (int)root;
	return 0;
}

/* After the pivot the old root lies on top of the new one, and what make_root() stacked
 * on the old root lies on top of that: all of it must go, and not one more, which would
 * be our own. */
IN_CHILD static long pivot(const struct child_job *j, int root)
{
	const struct op *o = &j->plan->ops[0];
	int stacked = 1 + (o->fd >= 0) + (o->layer_fd >= 0);

	TRY(raw1(SYS_fchdir, root));
	TRY(raw2(SYS_pivot_root, ".", "."));
	while (stacked--)
		TRY(raw2(SYS_umount2, ".", MNT_DETACH_));
	return raw1(SYS_chdir, "/");
}

/* ---- identity and confinement --------------------------------------------------- */

IN_CHILD static long wait_go(const struct child_job *j)
{
	char c;
	long n;

	close_raw(j->go_write); /* or its end would never be seen */
	n = raw3(SYS_read, j->go, &c, 1);
	return n == 1 ? 0 : n < 0 ? n : -EPIPE; /* the parent gave up */
}

IN_CHILD static long enter_cgroup(struct child_job *j)
{
	for (int i = 0; j->cgroup_tasks[i]; i++) {
		j->detail = i;
		TRY(write_knob(j->cgroup_tasks[i], "0"));
	}
	return 0;
}

IN_CHILD static long set_ids(const struct child_job *j)
{
	if (j->uid_map) {
		TRY(write_knob("/proc/self/setgroups", "deny"));
		TRY(write_knob("/proc/self/uid_map", j->uid_map));
		TRY(write_knob("/proc/self/gid_map", j->gid_map));
	}
	if (j->drop_groups)
		TRY(raw2(SYS_setgroups, 0, 0));
	/* Keeps the capabilities: the old id is not root in this namespace. */
	TRY(raw3(SYS_setresgid, j->gid, j->gid, j->gid));
	return raw3(SYS_setresuid, j->uid, j->uid, j->uid);
}

/* No further user namespace, whatever a later bug in the filter lets through, and a share
 * of the inotify instances that the user's own programs need too. */
IN_CHILD static long limit_namespaces(void)
{
	long r = write_knob("/proc/sys/user/max_user_namespaces", "0");

	if (r >= 0)
		r = write_knob("/proc/sys/user/max_inotify_instances", "64");
	return r == -ENOENT ? 0 : r; /* an image without /proc/sys has none to limit */
}

IN_CHILD static long loopback_up(void)
{
	struct ifreq req = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	long s = raw3(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), r;

	TRY(s);
	r = raw3(SYS_ioctl, s, SIOCSIFFLAGS, &req);
	close_raw(s);
	return r;
}

/* A network namespace takes the kernel longer than all others together, so a helper
 * process makes it while we mount; it shares our memory and descriptors and ends at once.
 */
IN_CHILD static int net_helper(void *arg)
{
	struct child_job *j = arg;
	long r = raw1(SYS_unshare, CLONE_NEWNET);

	if (r >= 0)
		r = loopback_up();
	if (r >= 0)
		r = raw4(SYS_openat, AT_FDCWD, "/proc/self/ns/net", O_RDONLY | O_CLOEXEC,
			 0);
	j->net_fd = (int)r;
	return 0;
}

IN_CHILD static long net_begin(struct child_job *j)
{
	long pid = raw_clone(CLONE_VM | CLONE_FILES, j->net_stack, net_helper, j);

	TRY(pid);
	j->net_pid = (int)pid;
	return 0;
}

IN_CHILD static long net_join(struct child_job *j)
{
	TRY(raw4(SYS_wait4, j->net_pid, 0, __WALL, 0));
	TRY(j->net_fd);
	return raw2(SYS_setns, j->net_fd, CLONE_NEWNET);
}

IN_CHILD static long set_rlimits(struct child_job *j)
{
	for (size_t i = 0; i < j->n_rlimits; i++) {
		const struct child_rlimit *l = &j->rlimits[i];
		struct rlimit64 v = {l->soft, l->hard};

		j->detail = (int)i;
		TRY(raw4(SYS_prlimit64, 0, l->resource, &v, 0));
	}
	return 0;
}

IN_CHILD static long drop_caps(void)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2] = {{0}};
	long r;

	for (int cap = 0; cap < 64; cap++) {
		r = raw5(SYS_prctl, PR_CAPBSET_DROP, cap, 0, 0, 0);
		if (r == -EINVAL)
			break; /* past the last one */
		TRY(r);
	}
	TRY(raw5(SYS_prctl, PR_SET_SECUREBITS,
		 SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
			 SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
			 SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED,
		 0, 0, 0));
	TRY(raw5(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0));
	TRY(raw2(SYS_capset, &h, d));
	return raw5(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

IN_CHILD static uint64_t mask_rights(const struct child_job *j, uint64_t rights,
				     bool is_dir)
{
	const uint64_t file_rights =
		LL_EXECUTE | LL_WRITE_FILE | LL_READ_FILE | LL_TRUNCATE | LL_IOCTL_DEV;

	return rights & j->handled.fs & (is_dir ? ~0ull : file_rights);
}

IN_CHILD static long add_rule(const struct child_job *j, int fd, uint64_t rights,
			      bool is_dir)
{
	struct landlock_path_rule rule = {mask_rights(j, rights, is_dir), fd};

	return raw4(SYS_landlock_add_rule, j->ruleset, 1, &rule, 0);
}

IN_CHILD static long grant_path(const struct child_job *j, const struct landlock_grant *g)
{
	long fd = raw4(SYS_openat, AT_FDCWD, g->path, O_PATH_ | O_NOFOLLOW, 0), r;

	if (fd == -ENOENT && g->optional)
		return 0;
	TRY(fd);
	r = add_rule(j, (int)fd, g->rights, true);
	if (r == -EINVAL) /* a file: only a file's rights fit */
		r = add_rule(j, (int)fd, g->rights, false);
	return r;
}

IN_CHILD static long apply_landlock(struct child_job *j)
{
	for (size_t i = 0; i < j->plan->n_grants; i++) {
		j->detail = (int)i;
		TRY(grant_path(j, &j->plan->grants[i]));
	}
	/* The guest's own file is nowhere in the new root: allow exactly it. */
	TRY(add_rule(j, j->guest, LL_EXECUTE | LL_READ_FILE, false));
	return raw2(SYS_landlock_restrict_self, j->ruleset, 0);
}

/* stdin, stdout and stderr are /dev/null, 3 is the link, nothing else survives the exec.
 */
IN_CHILD static long arrange_fds(struct child_job *j)
{
	long null = raw4(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0);

	TRY(null);
	for (int fd = 0; fd < 3; fd++)
		TRY(raw3(SYS_dup3, null, fd, 0));
	TRY(raw3(SYS_dup3, j->link, 3, 0));
	return raw3(SYS_close_range, 4, ~0u, CLOSE_RANGE_CLOEXEC);
}

/* ---- the sequence --------------------------------------------------------------- */

IN_CHILD static long step(struct child_job *j, int *root)
{
	switch ((enum child_stage)j->stage) {
	case STAGE_WAIT:
		return wait_go(j);
	case STAGE_CGROUP:
		return enter_cgroup(j);
	case STAGE_IDS:
		return set_ids(j);
	case STAGE_CGROUP_NS:
		return raw1(SYS_unshare, CLONE_NEWCGROUP);
	case STAGE_PRIVATE:
		return raw5(SYS_mount, 0, "/", 0, MS_PRIVATE_REC, 0);
	case STAGE_MOUNT:
		return mount_all(j, root);
	case STAGE_PIVOT:
		return pivot(j, *root);
	case STAGE_SYSCTL:
		return limit_namespaces();
	case STAGE_NET_BEGIN:
		return net_begin(j);
	case STAGE_NET:
		return net_join(j);
	case STAGE_HOSTNAME:
		return raw2(SYS_sethostname, j->hostname, len_of(j->hostname));
	case STAGE_TIME_NS:
		return j->time_ns ? raw1(SYS_unshare, CLONE_NEWTIME) : 0;
	case STAGE_RLIMIT:
		return set_rlimits(j);
	case STAGE_CAPS:
		return drop_caps();
	case STAGE_LANDLOCK:
		return apply_landlock(j);
	case STAGE_FDS:
		return arrange_fds(j);
	case STAGE_SECCOMP:
		return raw3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, j->filter);
	default:
		return raw5(SYS_execveat, j->guest, "", j->argv, j->envp, AT_EMPTY_PATH);
	}
}

IN_CHILD int proc_child(void *job)
{
	struct child_job *j = job;
	int root = -1;

	raw1(SYS_umask, 022);
	for (int s = STAGE_NET_BEGIN; s <= STAGE_EXEC; s++) {
		long r;

		j->stage = s;
		r = step(j, &root);
		if (r < 0) {
			j->error = (int)-r;
			break;
		}
	}
	raw1(SYS_exit_group, 1);
	return 0;
}
