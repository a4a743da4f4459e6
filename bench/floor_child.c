/* SPDX-License-Identifier: Apache-2.0 */
/* floor_child - from the clone to the exec, see floor.h. */
#include "floor.h"

#include "bench.h"
#include "os/raw.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#if __has_include("seccomp_guest.h")
#include "seccomp_guest.h"
#endif

#ifndef SYS_open_tree
#define SYS_open_tree 428
#define SYS_move_mount 429
#define SYS_fsopen 430
#define SYS_fsconfig 431
#define SYS_fsmount 432
#define SYS_close_range 436
#define SYS_openat2 437
#define SYS_mount_setattr 442
#endif
enum { RDONLY = 1, NOSUID = 2, NODEV = 4, NOEXEC = 8 }; /* MOUNT_ATTR_* */
#define TREE_CLONE 1u
#define RECURSIVE 0x8000
#define BOTH_EMPTY 0x44 /* move_mount: from and to are descriptors */

static void must(long r, const char *what)
{
	if (r >= 0)
		return;
	errno = (int)-r;
	die(what);
}

/* ---- mounts ---------------------------------------------------------------------------
 */

static int root; /* the new root */

static void make_dir(const char *path)
{
	raw3(SYS_mkdirat, root, path, 0755);
}

static void make_path(const char *path)
{
	char part[4096];

	for (size_t i = 0; path[i] && i < sizeof(part) - 1; i++) {
		part[i] = path[i];
		part[i + 1] = 0;
		if (path[i + 1] == '/' || !path[i + 1])
			make_dir(part);
	}
}

static void attach(long mount, const char *to)
{
	struct {
		uint64_t flags, mode, resolve;
	} how = {O_PATH | O_CLOEXEC, 0, 0x14 /* in root, no symlinks */};
	long at = raw4(SYS_openat2, root, to, &how, sizeof(how));

	must(at, to);
	must(raw5(SYS_move_mount, mount, "", at, "", BOTH_EMPTY), to);
	raw1(SYS_close, at);
}

static long fs(const char *type, const char *const (*options)[2], size_t n, long attr)
{
	long ctx = raw2(SYS_fsopen, type, 1), m;

	must(ctx, type);
	for (size_t i = 0; i < n; i++)
		must(raw5(SYS_fsconfig, ctx, options[i][1] ? 1 : 0, options[i][0],
			  options[i][1], 0),
		     options[i][0]);
	must(raw5(SYS_fsconfig, ctx, 6, 0, 0, 0), type);
	m = raw3(SYS_fsmount, ctx, 1, attr);
	must(m, type);
	raw1(SYS_close, ctx);
	return m;
}

static void bind_mount(long prepared, int at, const char *from, const char *to,
		       uint64_t attr, int flags)
{
	struct {
		uint64_t set, clear, propagation, userns;
	} a = {.set = attr};
	long m = prepared;

	if (m < 0)
		m = raw3(SYS_open_tree, at, from, TREE_CLONE | O_CLOEXEC | flags);
	must(m, from);
	if (attr)
		must(raw5(SYS_mount_setattr, m, "", AT_EMPTY_PATH | RECURSIVE, &a,
			  sizeof(a)),
		     from);
	attach(m, to);
	if (prepared < 0)
		raw1(SYS_close, m);
}

/* "/proc/self/fd/N/NAME" */
static void fd_path(char *out, int fd, const char *name)
{
	static const char prefix[] = "/proc/self/fd/";
	size_t n = sizeof(prefix) - 1;

	memcpy(out, prefix, n);
	if (fd >= 10)
		out[n++] = (char)('0' + fd / 10);
	out[n++] = (char)('0' + fd % 10);
	memcpy(out + n, name, strlen(name) + 1);
}

static long layer(int prepared, const char *path, const char *target)
{
	if (prepared < 0)
		return raw4(SYS_openat, AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC,
			    0);
	attach(prepared, target); /* overlayfs refuses a detached mount */
	return prepared;
}

static void overlay(const struct floor *f)
{
	char lower[64], upper[64], work[64];
	const char *const options[][2] = {
		{"lowerdir",  lower},
                {"upperdir",  upper},
                {"workdir",   work },
		{"userxattr", NULL },
                {"volatile",  NULL },
	};
	const char *target = f->cwd + 1;
	long up, low;

	make_path(target);
	up = layer(f->layer_fd, f->layer, target);
	low = layer(f->lower_fd, f->cwd, target);
	must(up, "layer");
	must(low, "lower");
	fd_path(lower, (int)low, "");
	fd_path(upper, (int)up, "/upper");
	fd_path(work, (int)up, "/work");
	attach(fs("overlay", options, 5, NOSUID | NODEV), target);
}

static void make_dev(void)
{
	static const char *const nodes[] = {"/dev/null",   "/dev/zero",    "/dev/full",
					    "/dev/random", "/dev/urandom", "/dev/tty"};
	static const char *const links[][2] = {
		{"/proc/self/fd",   "dev/fd"    },
                {"/proc/self/fd/0", "dev/stdin" },
		{"/proc/self/fd/1", "dev/stdout"},
                {"/proc/self/fd/2", "dev/stderr"},
		{"pts/ptmx",        "dev/ptmx"  },
	};
	static const char *const pts[][2] = {
		{"newinstance", NULL  },
		{"ptmxmode",    "0666"},
		{"mode",        "0620"},
	};

	make_dir("dev");
	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		long fd = raw4(SYS_openat, root, nodes[i] + 1, O_CREAT | O_CLOEXEC, 0644);

		must(fd, nodes[i]);
		raw1(SYS_close, fd);
		bind_mount(-1, AT_FDCWD, nodes[i], nodes[i] + 1, NOSUID, 0);
	}
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
		must(raw3(SYS_symlinkat, links[i][0], root, links[i][1]), links[i][1]);
	make_dir("dev/pts");
	attach(fs("devpts", pts, 3, NOSUID | NOEXEC), "dev/pts");
}

static void make_root(const struct floor *f)
{
	static const char *const mode[][2] = {
		{"mode", "0755"      },
                {"size", "2147483648"}
        };
	static const char *const links[][2] = {
		{"usr/bin",   "bin"  },
		{"usr/sbin",  "sbin" },
		{"usr/lib",   "lib"  },
		{"usr/lib64", "lib64"}
        };
	static const char *const writable[] = {"tmp", "run", "var/tmp", "dev/shm",
					       "home/agent"};
	struct {
		uint64_t set, clear, propagation, userns;
	} seal = {.set = RDONLY};
	long old = raw4(SYS_openat, AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);

	root = (int)fs("tmpfs", mode, 2, NOSUID | NODEV);
	must(raw5(SYS_move_mount, root, "", old, "", BOTH_EMPTY), "root");
	raw1(SYS_close, old);
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
		must(raw3(SYS_symlinkat, links[i][0], root, links[i][1]), links[i][1]);
	make_dir("usr");
	bind_mount(-1, AT_FDCWD, "/usr", "usr", RDONLY | NOSUID | NODEV, RECURSIVE);
	make_dir("etc");
	bind_mount(f->etc_fd, AT_FDCWD, f->etc, "etc", RDONLY | NOSUID | NODEV,
		   RECURSIVE);
	make_dir("proc");
	attach(fs("proc", NULL, 0, NOSUID | NODEV | NOEXEC), "proc");
	make_dev();
	for (size_t i = 0; i < sizeof(writable) / sizeof(writable[0]); i++) {
		make_path(writable[i]);
		bind_mount(-1, root, writable[i], writable[i], 0, 0);
	}
	overlay(f);
	must(raw5(SYS_mount_setattr, root, "", AT_EMPTY_PATH, &seal, sizeof(seal)),
	     "seal");
	must(raw1(SYS_fchdir, root), "fchdir");
	must(raw2(SYS_pivot_root, ".", "."), "pivot_root");
	must(raw2(SYS_umount2, ".", 2 /* detach */), "umount");
}

/* ---- identity and confinement
 * ------------------------------------------------------------ */

static void knob(const char *path, const char *text)
{
	long fd = raw4(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);

	must(fd, path);
	must(raw3(SYS_write, fd, text, strlen(text)), path);
	raw1(SYS_close, fd);
}

static void identity(const struct floor *f)
{
	char byte;

	for (size_t i = 0; i < f->n_cgroups; i++)
		must(raw3(SYS_write, f->cgroup[i], "0", 1), "cgroup");
	if (f->root) {
		must(raw3(SYS_read, f->go[0], &byte, 1), "go");
		must(raw2(SYS_setgroups, 0, 0), "setgroups");
	} else {
		knob("/proc/self/setgroups", "deny");
		knob("/proc/self/uid_map", f->uid_map);
		knob("/proc/self/gid_map", f->gid_map);
	}
	must(raw3(SYS_setresgid, INSIDE_ID, INSIDE_ID, INSIDE_ID), "setresgid");
	must(raw3(SYS_setresuid, INSIDE_ID, INSIDE_ID, INSIDE_ID), "setresuid");
}

static void loopback(void)
{
	struct ifreq r = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	long fd = raw3(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	must(fd, "socket");
	must(raw3(SYS_ioctl, fd, SIOCSIFFLAGS, &r), "lo");
	raw1(SYS_close, fd);
}

static void rlimits(void)
{
	static const struct {
		int what;
		uint64_t value;
	} list[] = {
		{RLIMIT_CORE,     0       },
                {RLIMIT_NOFILE,   4096    },
		{RLIMIT_RTPRIO,   0       },
                {RLIMIT_MSGQUEUE, 819200  },
		{RLIMIT_NPROC,    512     },
                {RLIMIT_FSIZE,    1L << 34},
	};

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		uint64_t r[2];

		raw4(SYS_prlimit64, 0, list[i].what, NULL, r);
		r[0] = list[i].value < r[1] ? list[i].value : r[1];
		must(raw4(SYS_prlimit64, 0, list[i].what, r, NULL), "rlimit");
	}
}

static void drop_caps(void)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct none[2] = {{0}};

	for (long c = 0; c < 64; c++)
		if (raw5(SYS_prctl, PR_CAPBSET_DROP, c, 0, 0, 0) < 0)
			break;
	must(raw5(SYS_prctl, PR_SET_SECUREBITS, 0xef, 0, 0, 0), "securebits");
	must(raw5(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0),
	     "ambient");
	must(raw2(SYS_capset, &h, none), "capset");
	must(raw5(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
}

static void rule(const struct floor *f, int fd, const char *what, uint64_t rights,
		 int is_dir)
{
	struct landlock_path_rule r = {landlock_mask(&f->handled, rights, is_dir), fd};

	must(raw4(SYS_landlock_add_rule, f->ruleset, 1, &r, 0), what);
}

static void confine(const struct floor *f)
{
	const struct {
		const char *path;
		uint64_t rights;
	} grants[] = {
		{"/",           LL_READ_DIR					 },
		{"/usr",        LL_READ_EXEC					},
		{"/etc",        LL_READ					     },
		{"/proc",       LL_READ | LL_WRITE_FILE | LL_TRUNCATE               },
		{"/dev",        LL_READ | LL_WRITE_FILE | LL_TRUNCATE | LL_IOCTL_DEV},
		{"/dev/shm",    LL_FULL					     },
		{"/tmp",        LL_FULL					     },
		{"/run",        LL_FULL					     },
		{"/var/tmp",    LL_FULL					     },
		{"/home/agent", LL_FULL					     },
		{f->cwd,        LL_FULL					     },
	};

	for (size_t i = 0; i < sizeof(grants) / sizeof(grants[0]); i++) {
		long fd = raw4(SYS_openat, AT_FDCWD, grants[i].path,
			       O_PATH | O_CLOEXEC | O_NOFOLLOW, 0);

		must(fd, grants[i].path);
		rule(f, (int)fd, grants[i].path, grants[i].rights, 1);
		raw1(SYS_close, fd);
	}
	if (f->init_fd >= 0)
		rule(f, f->init_fd, "init", LL_EXECUTE | LL_READ_FILE, 0);
	must(raw2(SYS_landlock_restrict_self, f->ruleset, 0), "Landlock");
}

static void filter(void)
{
#ifdef SECCOMP_GUEST_LEN
	struct sock_fprog p = {.len = SECCOMP_GUEST_LEN,
			       .filter = (struct sock_filter *)(uintptr_t)seccomp_guest};
#else
	struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog p = {.len = 1, .filter = &all};
#endif
	must(raw3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p), "seccomp");
}

static void descriptors(void)
{
	long null = raw4(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0);

	must(null, "/dev/null");
	for (int fd = 0; fd < 4; fd++)
		must(raw3(SYS_dup3, null, fd, 0), "dup3");
	raw3(SYS_close_range, 4, ~0u, 4 /* close on exec */);
}

int floor_child(void *arg)
{
	static char path[] = "PATH=/usr/bin:/bin", *env[] = {path, NULL};
	const struct floor *f = arg;

	identity(f);
	must(raw1(SYS_unshare, CLONE_NEWCGROUP), "cgroup namespace");
	must(raw5(SYS_mount, 0, "/", 0, 0x44000 /* private, recursive */, 0), "private");
	make_root(f);
	knob("/proc/sys/user/max_user_namespaces", "0");
	knob("/proc/sys/user/max_inotify_instances", "64");
	loopback();
	must(raw2(SYS_sethostname, "floor", 5), "hostname");
	must(raw1(SYS_unshare, 0x80 /* CLONE_NEWTIME */), "time namespace");
	rlimits();
	drop_caps();
	confine(f);
	filter();
	raw1(SYS_chdir, f->cwd);
	descriptors();
	if (f->init_fd >= 0)
		must(raw5(SYS_execveat, f->init_fd, "", f->argv, env, AT_EMPTY_PATH),
		     "init");
	must(raw3(SYS_execve, f->argv[0], f->argv, env), f->argv[0]);
	return 1;
}
