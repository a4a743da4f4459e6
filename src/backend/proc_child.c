/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/proc_child_impl.h"

#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define MS_PRIVATE_REC 0x44000 /* MS_REC | MS_PRIVATE */

static const char *const stage_texts[] = {
#define X(id, text) text,
	CHILD_STAGES(X)
#undef X
};

const char *child_stage_text(enum child_stage s)
{
	return stage_texts[s];
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

IN_CHILD long child_loopback_up(void)
{
	struct ifreq req = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	long s = raw3(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), r;

	TRY(s);
	r = raw3(SYS_ioctl, s, SIOCSIFFLAGS, &req);
	close_raw(s);
	return r;
}

IN_CHILD static long catch_connections(struct child_job *j)
{
	int fds[CAPTURE_COUNT];
	long r = capture_open(j->capture, fds);

	j->net_no_capture = r < 0;
	TRY(r);
	r = child_send_fds(j->capture_to, fds);
	for (int i = 0; i < CAPTURE_COUNT; i++)
		close_raw(fds[i]);
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
		r = child_loopback_up();
	if (r >= 0 && j->capture)
		r = catch_connections(j);
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

/* stdin, stdout and stderr are /dev/null, then come those of the job, and nothing else
 * survives the exec. */
IN_CHILD static long arrange_fds(struct child_job *j)
{
	long null = raw4(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0);

	TRY(null);
	for (int fd = 0; fd < 3; fd++)
		TRY(raw3(SYS_dup3, null, fd, 0));
	for (size_t i = 0; i < j->n_fds; i++)
		TRY(raw3(SYS_dup3, j->fds[i], 3 + (int)i, 0));
	return raw3(SYS_close_range, 3 + (unsigned)j->n_fds, ~0u, CLOSE_RANGE_CLOEXEC);
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
		return child_mount(j, root);
	case STAGE_PIVOT:
		return child_pivot(j, *root);
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
		return j->filter
			       ? raw3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, j->filter)
			       : 0;
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
