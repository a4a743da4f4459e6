/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proc_probe - can this host run the process backend? Found out by trying each part in a
 * short-lived child, not by reading version numbers.
 */
#include "backend/proc_child_impl.h"
#include "backend/proc_internal.h"

#include "base/io.h"
#include "base/util.h"
#include "os/landlock.h"
#include "os/raw.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { STACK = 32768 };

struct trial {
	int flags;                            /* namespaces to enter */
	long (*inside)(const struct trial *); /* what to try there */
	const struct netcapture *capture;
	volatile long result; /* 0 or -errno */
};

/* Shares our memory, so only raw system calls. */
static int trial_child(void *arg)
{
	struct trial *t = arg;

	t->result = t->inside ? t->inside(t) : 0;
	raw1(SYS_exit_group, 0);
	return 0;
}

static long run_trial(struct trial *t)
{
	char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	pid_t pid;
	long r;

	if (stack == MAP_FAILED)
		return -ENOMEM;
	t->result = -EIO;
	pid = clone(trial_child, stack + STACK, CLONE_VM | CLONE_VFORK | t->flags, t);
	r = pid < 0 ? -errno : 0;
	if (pid > 0) {
		while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
			;
		r = t->result;
	}
	munmap(stack, STACK);
	return r;
}

static long try_mount_api(const struct trial *t)
{
	long fs, r;

	(void)t;
	r = raw5(SYS_mount, 0, "/", 0, 0x44000, 0);
	if (r < 0)
		return r;
	fs = raw2(SYS_fsopen, "tmpfs", 1);
	if (fs < 0)
		return fs;
	r = raw5(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, 0, 0, 0);
	return r < 0 ? r : raw3(SYS_fsmount, fs, 1, 0);
}

static long try_overlay(const struct trial *t)
{
	long fs = raw2(SYS_fsopen, "overlay", 1);

	(void)t;
	return fs < 0 ? fs : 0;
}

static long try_proc(const struct trial *t)
{
	long fs = raw2(SYS_fsopen, "proc", 1), r;

	(void)t;
	if (fs < 0)
		return fs;
	r = raw5(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, 0, 0, 0);
	return r < 0 ? r : raw3(SYS_fsmount, fs, 1, 0);
}

static long try_capture(const struct trial *t)
{
	int fds[CAPTURE_COUNT];
	long r = child_loopback_up();

	return r < 0 ? r : capture_open(t->capture, fds);
}

static long probe_namespaces(void)
{
	struct trial t = {.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID |
				   CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
				   CLONE_NEWCGROUP};

	return run_trial(&t);
}

static long probe_mounts(void)
{
	struct trial t = {.flags = CLONE_NEWUSER | CLONE_NEWNS, .inside = try_mount_api};

	return run_trial(&t);
}

static long probe_overlay(void)
{
	struct trial t = {.flags = CLONE_NEWUSER | CLONE_NEWNS, .inside = try_overlay};

	return run_trial(&t);
}

static long probe_proc(void)
{
	struct trial t = {.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID,
			  .inside = try_proc};

	return run_trial(&t);
}

static long probe_capture(void)
{
	struct netcapture n;
	struct trial t = {.flags = CLONE_NEWUSER | CLONE_NEWNET,
			  .inside = try_capture,
			  .capture = &n};

	netcapture_build(&n, netcapture_has_ipv6());
	return run_trial(&t);
}

static long probe_landlock(void)
{
	return landlock_abi() > 0 ? 0 : -ENOSYS;
}

static long probe_seccomp(void)
{
	uint32_t action = 0x7fff0000u; /* SECCOMP_RET_ALLOW */

	return syscall(SYS_seccomp, 2 /* GET_ACTION_AVAIL */, 0, &action) < 0 ? -errno
									      : 0;
}

static const struct {
	const char *name, *needs, *fix;
	long (*probe)(void);
} checks[] = {
	{"namespaces", "user, mount, pid, net, ipc, uts and cgroup namespaces",
	 "sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000 "
	 "kernel.apparmor_restrict_unprivileged_userns=0",									       probe_namespaces},
	{"mounts",     "the mount API by descriptor (Linux 5.12)",              "use a newer kernel",
	 probe_mounts																    },
	{"proc",       "a /proc of its own",
	 "outside of a container, or one run with "
	 "--security-opt systempaths=unconfined",											probe_proc      },
	{"overlayfs",  "overlay mounts in a user namespace (Linux 5.11)",
	 "modprobe overlay",													     probe_overlay   },
	{"landlock",   "Landlock",					      "boot with lsm=landlock,... on the kernel command line",
	 probe_landlock																  },
	{"seccomp",    "seccomp filters",				       "use a kernel with CONFIG_SECCOMP_FILTER",
	 probe_seccomp																   },
};

static int report(json_t *out, const char *name, bool ok, const char *detail,
		  const char *fix)
{
	json_t *o = json_pack("{s:s, s:s, s:b, s:s}", "name", name, "backend", "process",
			      "ok", ok, "detail", detail);

	if (!o)
		return -1;
	if (!ok)
		json_object_set_new(o, "fix", json_string(fix));
	return json_array_append_new(out, o);
}

/* Matters of degree: their lack does not make the backend useless. */
static int report_extras(json_t *out)
{
	char text[600] = "", detail[200];
	uint32_t usable = 0;
	long r = probe_capture();
	char *fix;

	snprintf(detail, sizeof(detail), "connections redirected to a policy%s%s",
		 r < 0 ? ": " : "", r < 0 ? strerror((int)-r) : "");
	if (report(out, "network", r >= 0, detail, PROC_NO_CAPTURE_FIX) < 0)
		return -1;
	if (cgroup_probe(text, sizeof(text), &usable) < 0)
		usable = 0;
	fix = strchr(text, '\n'); /* the second line, if something is missing */
	if (fix)
		*fix++ = '\0';
	return report(out, "cgroup", !fix, text, fix ? fix : "");
}

int proc_probe(const struct place_config *c, json_t *out, struct cove_error *err)
{
	(void)c;
	int bad = 0;

	for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
		long r = checks[i].probe();
		char detail[300];

		if (r < 0 && !bad++) {
			fail(err, COVE_EUNSUPPORTED, (int)-r, "backend process: %s",
			     checks[i].needs);
			hint(err, "%s", checks[i].fix);
		}
		snprintf(detail, sizeof(detail), "%s%s%s", checks[i].needs,
			 r < 0 ? ": " : "", r < 0 ? strerror((int)-r) : "");
		if (checks[i].probe == probe_landlock && r == 0)
			snprintf(detail, sizeof(detail), "Landlock ABI %d",
				 landlock_abi());
		if (out && report(out, checks[i].name, r >= 0, detail, checks[i].fix) < 0)
			return fail_nomem(err);
	}
	if (out && report_extras(out) < 0)
		return fail_nomem(err);
	return bad ? err->code : 0;
}
