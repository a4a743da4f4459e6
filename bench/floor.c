/* SPDX-License-Identifier: Apache-2.0 */
/*
 * floor - the parent's side, see floor.h.
 *
 * usage: floor [-i INIT] STATE ETC PROGRAM [ARG...]
 *	STATE	an empty directory on disk, for the layers of the overlay
 *	ETC	a small directory that becomes /etc
 *	-i	PID 1 is INIT (as cove-guest is), which starts PROGRAM and waits for it
 */
#include "floor.h"

#include "bench.h"
#include "os/raw.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define TREE_CLONE 1u
#define ATTR_IDMAP 0x100000u

static struct floor f = {.init_fd = -1, .etc_fd = -1, .lower_fd = -1, .layer_fd = -1};
static char stack[64 * 1024] __attribute__((aligned(16)));

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		die(path);
	close(fd);
}

/* ---- cgroups
 * ---------------------------------------------------------------------------- */

struct control {
	const char *tree, *file, *value;
};
static const struct control v1[] = {
	{"memory", "memory.limit_in_bytes",       "2147483648"},
	{"memory", "memory.memsw.limit_in_bytes", "2147483648"},
	{"cpu",    "cpu.cfs_quota_us",            "200000"    },
	{"pids",   "pids.max",                    "512"       },
};
static const struct control v2[] = {
	{"", "memory.max",      "2147483648"   },
	{"", "memory.swap.max", "0"            },
	{"", "cpu.max",         "200000 100000"},
	{"", "pids.max",        "512"          },
};

static const struct control *controls(void)
{
	return access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0 ? v2 : v1;
}

static int is_first(const struct control *list, size_t i)
{
	return i == 0 || strcmp(list[i].tree, list[i - 1].tree) != 0;
}

/* One group in every hierarchy; a limit that this kernel lacks is left out. */
static void make_cgroups(void)
{
	const struct control *list = controls();
	char dir[256], path[512];

	for (size_t i = 0; i < 4; i++) {
		snprintf(dir, sizeof(dir), "/sys/fs/cgroup/%s/floor-%d", list[i].tree,
			 getpid());
		if (is_first(list, i)) {
			if (mkdir(dir, 0755) < 0)
				die(dir);
			/* A thread that moves itself (writes 0) by the v1 file `tasks`
			 * needs no global lock; cgroup.procs waits for an RCU grace
			 * period. */
			snprintf(path, sizeof(path), "%s/%s", dir,
				 list == v2 ? "cgroup.procs" : "tasks");
			f.cgroup[f.n_cgroups] = open(path, O_WRONLY | O_CLOEXEC);
			if (f.cgroup[f.n_cgroups++] < 0)
				die(path);
		}
		snprintf(path, sizeof(path), "%s/%s", dir, list[i].file);
		if (access(path, W_OK) == 0)
			put(path, list[i].value);
	}
}

static void remove_cgroups(void)
{
	const struct control *list = controls();
	char dir[256];

	for (size_t i = 0; i < 4; i++) {
		snprintf(dir, sizeof(dir), "/sys/fs/cgroup/%s/floor-%d", list[i].tree,
			 getpid());
		if (is_first(list, i) && rmdir(dir) < 0)
			die(dir);
	}
}

/* ---- layers
 * ------------------------------------------------------------------------------ */

static void make_layers(const char *state)
{
	char path[4200];

	snprintf(f.layer, sizeof(f.layer), "%s/%d", state, getpid());
	if (mkdir(f.layer, 0700) < 0)
		die(f.layer);
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", f.layer, i ? "work" : "upper");
		if (mkdir(path, 0755) < 0)
			die(path);
	}
}

static void remove_layers(void)
{
	/* the deepest first; a volatile overlay leaves the first three */
	static const char *const parts[] = {"/work/work/incompat/volatile/dirty",
					    "/work/work/incompat/volatile",
					    "/work/work/incompat",
					    "/work/work",
					    "/work",
					    "/upper",
					    ""};
	char path[4200];

	for (size_t i = 4; i-- > 1;) { /* the kernel makes these with no rights at all */
		snprintf(path, sizeof(path), "%s%s", f.layer, parts[i]);
		chmod(path, 0700);
	}
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", f.layer, parts[i]);
		if (unlinkat(AT_FDCWD, path, i ? AT_REMOVEDIR : 0) < 0)
			die(path);
	}
}

/* ---- id maps
 * ------------------------------------------------------------------------------- */

static void write_maps(pid_t pid, unsigned inside, unsigned outside)
{
	char path[64], text[64];

	snprintf(text, sizeof(text), "%u %u 1", inside, outside);
	snprintf(path, sizeof(path), "/proc/%d/gid_map", pid);
	put(path, text);
	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	put(path, text);
}

static int hold(void *arg)
{
	(void)arg;
	for (;;)
		raw4(SYS_ppoll, 0, 0, 0, 0);
	return 0;
}

/* A user namespace that shows root's files as the sandbox user's. */
static int idmap_fd(void)
{
	pid_t pid = clone(hold, stack + sizeof(stack), CLONE_VM | CLONE_NEWUSER, NULL);
	char path[64];
	int fd;

	if (pid < 0)
		die("clone");
	write_maps(pid, 0, OUTSIDE_ID);
	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, __WALL);
	return fd;
}

static int prepare(const char *path, int userns)
{
	struct {
		uint64_t set, clear, propagation, userns;
	} a = {.set = ATTR_IDMAP, .userns = (uint64_t)userns};
	int fd = (int)syscall(SYS_open_tree, AT_FDCWD, path, TREE_CLONE | O_CLOEXEC);

	if (fd < 0 || (userns >= 0 && syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH,
					      &a, sizeof(a)) < 0))
		die(path);
	return fd;
}

static void prepare_mounts(void)
{
	int userns = idmap_fd();

	f.etc_fd = prepare(f.etc, -1);
	f.lower_fd = prepare(f.cwd, userns);
	f.layer_fd = prepare(f.layer, userns);
	close(userns);
}

/* ---- the sequence
 * -------------------------------------------------------------------------- */

static int run(void)
{
	int flags = CLONE_VM | CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
		    CLONE_NEWIPC | CLONE_NEWUTS | SIGCHLD;
	int abi = landlock_abi(), status;
	pid_t pid;

	landlock_handled(abi, true, &f.handled);
	f.ruleset = landlock_create(abi, &f.handled);
	if (f.ruleset < 0)
		die("Landlock");
	if (f.root) {
		prepare_mounts();
		make_cgroups();
	}
	pid = clone(floor_child, stack + sizeof(stack), flags, &f);
	if (pid < 0)
		die("clone");
	if (f.root) {
		write_maps(pid, INSIDE_ID, OUTSIDE_ID);
		if (write(f.go[1], "x", 1) != 1)
			die("go");
	}
	if (waitpid(pid, &status, 0) < 0)
		die("wait");
	if (f.root)
		remove_cgroups();
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

int main(int argc, char **argv)
{
	char cwd[4096];
	int r;

	if (argc > 2 && strcmp(argv[1], "-i") == 0) {
		int fd = open(argv[2], O_PATH | O_CLOEXEC);

		f.init_fd = fcntl(fd, F_DUPFD_CLOEXEC, 10); /* 0 to 3 are given away */
		if (f.init_fd < 0)
			die(argv[2]);
		argv += 2;
		argc -= 2;
	}
	if (argc < 4 || !getcwd(cwd, sizeof(cwd)) || pipe2(f.go, O_CLOEXEC) < 0)
		die("usage: floor [-i INIT] STATE ETC PROGRAM [ARG...]");
	f.etc = argv[2];
	f.argv = argv + 3;
	f.cwd = cwd;
	f.root = getuid() == 0;
	snprintf(f.uid_map, sizeof(f.uid_map), "%d %u 1", INSIDE_ID, getuid());
	snprintf(f.gid_map, sizeof(f.gid_map), "%d %u 1", INSIDE_ID, getgid());
	make_layers(argv[1]);
	r = run();
	remove_layers();
	return r;
}
