/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups, for real: as root every limit is set, read back and run into; as
 * another user the missing permission is reported, and a directory given to that user
 * works. Whatever is made is removed again.
 */
#include "os/cgroup.h"

#include "base/error.h"
#include "base/util.h"
#include "os/cgroup_impl.h"
#include "tap.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define MIB (1024ull * 1024)
/* A user id of this run's own: two runs of this test must not meet in one directory. */
static uid_t somebody;

static const uint32_t ALL = CG_MEMORY | CG_SWAP | CG_CPU | CG_PIDS;
static char id_text[CGROUP_ID_MAX];

static const char *test_id(const char *suffix)
{
	snprintf(id_text, sizeof(id_text), "test.%d.%s", (int)getpid(), suffix);
	return id_text;
}

static int gone(const char *saved)
{
	char path[CGROUP_PATH_MAX];

	for (const char *p = saved; *p; p += strcspn(p, "\n") + 1) {
		snprintf(path, sizeof(path), "%.*s", (int)strcspn(p, "\n"), p);
		if (access(path, F_OK) == 0)
			return 0;
	}
	return 1;
}

/* Makes a group with these limits or reports why this host cannot: 1 if it did. */
static int have(struct cgroup *c, const char *suffix, const struct cgroup_limits *l)
{
	struct cove_error why = {0};
	uint32_t missing = 0;
	char text[900];

	if (cgroup_create(c, test_id(suffix), l, &missing, &why) == 0 && missing == 0)
		return 1;
	cgroup_remove(c);
	snprintf(text, sizeof(text), "%s: needs a control group: %s", suffix, why.msg);
	SKIP(text);
	return 0;
}

/* Runs fn in a child that has put itself into the group; the wait status. */
static int run_inside(struct cgroup *c, int (*fn)(void))
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		if (cgroup_attach(c, getpid()) < 0)
			_exit(99);
		_exit(fn());
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return status;
}

static void bad_ids_are_refused(void)
{
	static const char *const bad[] = {"",     ".",  "..",  "a/b",
					  "../x", "-a", "a b", "a\nb"};
	struct cgroup_limits l = {.pids = 10};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct cgroup c = {.n = 77};
		struct cove_error why = {0};
		uint32_t missing = 55;

		OK(cgroup_create(&c, bad[i], &l, &missing, &why) == COVE_EINVAL &&
			   c.n == 77 && missing == 55,
		   "bad id %zu: refused, outputs untouched", i);
	}
}

static void nothing_asked_makes_nothing(void)
{
	struct cgroup c;
	struct cgroup_limits l = {0};
	struct cove_error why = {0};
	uint32_t missing = 1;

	OK(cgroup_create(&c, test_id("none"), &l, &missing, &why) == 0 && missing == 0 &&
		   c.n == 0,
	   "no limits: no directories, nothing missing");
	OK(cgroup_attach(&c, getpid()) == 0 && cgroup_remove(&c) == 0, "and no effect");
}

static void limits_are_set_changed_and_read_back(void)
{
	struct cgroup_limits l = {.memory_bytes = 256 * MIB,
				  .swap_bytes = 16 * MIB,
				  .cpus_milli = 1500,
				  .pids = 77,
				  .account = 1};
	struct cgroup_limits r = {0};
	struct cgroup_stats s = {0};
	struct cove_error why = {0};
	struct cgroup c;
	uint32_t missing = 0;
	char saved[CGROUP_DIRS_MAX * CGROUP_PATH_MAX];

	if (!have(&c, "limits", &l))
		return;
	OK(cgroup_save(&c, saved, 3) == -ENOBUFS, "save refuses a short buffer");
	OK(cgroup_save(&c, saved, sizeof(saved)) == 0 && strstr(saved, "/cove-test."),
	   "saved: %.*s", (int)strcspn(saved, "\n"), saved);
	OK(cgroup_read_limits(&c, &r) == 0, "limits can be read");
	OK(r.memory_bytes == 256 * MIB, "memory is 256 MiB");
	OK(r.swap_bytes == 16 * MIB, "swap is 16 MiB (%llu)",
	   (unsigned long long)r.swap_bytes);
	OK(r.cpus_milli == 1500, "cpus are 1.5");
	OK(r.pids == 77, "pids are 77");
	l = (struct cgroup_limits){
		.memory_bytes = 512 * MIB, .cpus_milli = 250, .pids = 5};
	OK(cgroup_update(&c, &l, &missing, &why) == 0 && missing == 0, "update: %s",
	   why.msg);
	OK(cgroup_read_limits(&c, &r) == 0 && r.memory_bytes == 512 * MIB &&
		   r.swap_bytes == 0 && r.cpus_milli == 250 && r.pids == 5,
	   "memory went up, the others down, swap to none");
	l = (struct cgroup_limits){.memory_bytes = 64 * MIB};
	OK(cgroup_update(&c, &l, &missing, &why) == 0 && missing == 0 &&
		   cgroup_read_limits(&c, &r) == 0 && r.memory_bytes == 64 * MIB &&
		   r.cpus_milli == 0 && r.pids == 0,
	   "memory went down, the others are lifted");
	l = (struct cgroup_limits){0};
	OK(cgroup_update(&c, &l, &missing, &why) == 0 && missing == 0 &&
		   cgroup_read_limits(&c, &r) == 0 && r.memory_bytes == 0 &&
		   r.swap_bytes == UINT64_MAX,
	   "all lifted");
	OK(cgroup_stats(&c, &s) == 0 && s.known == (CG_MEMORY | CG_ACCOUNT | CG_PIDS) &&
		   s.pids == 0 && s.mem_limit == 0,
	   "stats of an empty group");
	OK(cgroup_remove(&c) == 0 && c.n == 0 && gone(saved), "removed without a trace");
}

/* ---- running into them
 * ---------------------------------------------------------------------- */

static int hog_memory(void)
{
	char *p = mmap(NULL, 128 * MIB, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return 98;
	for (size_t i = 0; i < 128 * MIB; i += 4096)
		p[i] = 1;
	return 0;
}

static int touch_little(void)
{
	char *p = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	if (p == MAP_FAILED)
		return 98;
	memset(p, 1, 4 * MIB);
	return 0;
}

static void memory_limit_kills_a_hog(void)
{
	struct cgroup_limits l = {.memory_bytes = 48 * MIB};
	struct cgroup_stats s = {0};
	struct cgroup c;
	int status;

	if (!have(&c, "memory", &l))
		return;
	status = run_inside(&c, touch_little);
	OK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "within the limit all is well");
	status = run_inside(&c, hog_memory);
	OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "beyond it: killed");
	OK(cgroup_stats(&c, &s) == 0 && s.oom_kills >= 1, "counted as %llu oom kill(s)",
	   (unsigned long long)s.oom_kills);
	OK(s.mem_limit == 48 * MIB && s.mem_peak_bytes <= 48 * MIB &&
		   (s.mem_peak_bytes >= 30 * MIB || s.mem_peak_bytes == 0),
	   "the peak was %llu", (unsigned long long)s.mem_peak_bytes);
	OK(cgroup_remove(&c) == 0, "removed");
}

/* Forks sleepers until it cannot; leaves them for cgroup_remove() to kill. */
static int fork_many(void)
{
	for (int i = 1; i < 50; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			sleep(60);
			_exit(0);
		}
		if (pid < 0)
			return errno == EAGAIN ? i : 90;
	}
	return 91;
}

static void process_limit_and_leftovers(void)
{
	struct cgroup_limits l = {.pids = 6};
	struct cgroup_stats s = {0};
	struct cgroup c;
	char saved[CGROUP_DIRS_MAX * CGROUP_PATH_MAX];
	int status;

	if (!have(&c, "pids", &l))
		return;
	status = run_inside(&c, fork_many);
	OK(WIFEXITED(status) && WEXITSTATUS(status) == 6, "the sixth fork is EAGAIN");
	OK(cgroup_stats(&c, &s) == 0 && s.pids == 5, "five processes are left inside");
	cgroup_save(&c, saved, sizeof(saved));
	OK(cgroup_remove(&c) == 0 && gone(saved), "remove kills them and leaves nothing");
}

static int burn(void)
{
	while (clock() < CLOCKS_PER_SEC / 20) {
	}
	return 0;
}

static void cpu_time_is_limited_and_counted(void)
{
	struct cgroup_limits l = {.cpus_milli = 200, .account = 1};
	struct cgroup_stats s = {0};
	struct timespec a, b;
	struct cgroup c;
	long ms;

	if (!have(&c, "cpu", &l))
		return;
	clock_gettime(CLOCK_MONOTONIC, &a);
	run_inside(&c, burn); /* 50 ms of cpu at 20 ms in each 100 ms */
	clock_gettime(CLOCK_MONOTONIC, &b);
	ms = (b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000;
	OK(ms >= 100, "50 ms of cpu time took %ld ms", ms);
	OK(cgroup_stats(&c, &s) == 0 && (s.known & CG_ACCOUNT) && s.cpu_ns > 40000000ull,
	   "%llu ns counted", (unsigned long long)s.cpu_ns);
	OK(cgroup_remove(&c) == 0, "removed");
}

static void update_can_add_a_controller(void)
{
	struct cgroup_limits l = {.pids = 20};
	struct cgroup_stats s = {0};
	struct cove_error why = {0};
	struct cgroup c;
	uint32_t missing = 0;
	pid_t pid;

	if (!have(&c, "add", &l))
		return;
	pid = fork();
	if (pid == 0) {
		sleep(60);
		_exit(0);
	}
	OK(pid > 0 && cgroup_attach(&c, pid) == 0, "a process is attached from outside");
	l.memory_bytes = 100 * MIB;
	OK(cgroup_update(&c, &l, &missing, &why) == 0 && missing == 0,
	   "a memory limit comes later: %s", why.msg);
	OK(cgroup_stats(&c, &s) == 0 && s.mem_limit == 100 * MIB, "it is in force");
	for (uint32_t i = 0; i < c.n; i++) {
		uint64_t in = 0;

		cg_read_u64(c.dir[i].path, "cgroup.procs", &in);
		OK(in == (uint64_t)pid, "the process is in %s", c.dir[i].path);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	OK(cgroup_remove(&c) == 0, "removed");
}

/* Where there is a v2 directory a child can be born in it. */
static void a_child_can_start_inside(void)
{
	struct cgroup_limits l = {.memory_bytes = 64 * MIB, .pids = 20, .account = 1};
	struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD};
	struct cgroup_stats s = {0};
	struct cgroup c;
	pid_t pid;
	int fd;

	if (!have(&c, "clone", &l))
		return;
	fd = cgroup_clone_fd(&c);
	if (fd < 0) {
		OK(fd == -ENOENT && c.cloned == 0,
		   "no v2 directory, no descriptor for it");
		cgroup_remove(&c);
		return;
	}
	args.cgroup = (uint64_t)fd;
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0) {
		sleep(60);
		_exit(0);
	}
	close(fd);
	OK(pid > 0 && cgroup_attach(&c, pid) == 0, "a child starts inside");
	OK(cgroup_stats(&c, &s) == 0 && s.pids == 1, "and is counted");
	OK(cgroup_remove(&c) == 0, "removed, with the child");
	waitpid(pid, NULL, 0);
}

static void a_busy_namesake_is_not_touched(void)
{
	struct cgroup_limits l = {.pids = 20};
	struct cove_error why = {0};
	struct cgroup c, other;
	uint32_t missing = 0;
	pid_t pid;

	if (!have(&c, "twice", &l))
		return;
	pid = fork();
	if (pid == 0) {
		sleep(60);
		_exit(0);
	}
	cgroup_attach(&c, pid);
	OK(cgroup_create(&other, test_id("twice"), &l, &missing, &why) == 0 &&
		   missing == CG_PIDS && other.n == 0,
	   "same id while in use: %s", why.msg);
	OK(kill(pid, 0) == 0 && waitpid(pid, NULL, WNOHANG) == 0,
	   "the first one lives on");
	OK(cgroup_remove(&c) == 0, "and is removed");
	waitpid(pid, NULL, 0);
	OK(cgroup_create(&c, test_id("twice"), &l, &missing, &why) == 0 && missing == 0 &&
		   cgroup_create(&other, test_id("twice"), &l, &missing, &why) == 0 &&
		   missing == 0,
	   "an empty one that a crash left is taken over");
	OK(cgroup_remove(&other) == 0 && cgroup_remove(&c) == 0, "removed");
}

/* ---- clean-up after a crash
 * ------------------------------------------------------------------ */

static void saved_text_removes_groups_and_nothing_else(void)
{
	struct cgroup_limits l = {.pids = 20};
	char dir[] = "/tmp/cove-unit-XXXXXX", text[4096], saved[2048];
	struct cgroup c;

	if (!mkdtemp(dir)) {
		SKIP("no temporary directory");
		return;
	}
	snprintf(text, sizeof(text),
		 "%s\n/sys/fs/cgroup\n/sys/fs/cgroup/pids\n/tmp/../%s\nrelative/cove-x\n"
		 "/\n\n/sys/fs/cgroup/pids/cove-%s/..\n/cove-a b\nx\n",
		 dir, dir + 1, "none");
	OK(cgroup_remove_saved(text) == 0 && access(dir, F_OK) == 0,
	   "foreign and forged paths are left alone");
	rmdir(dir);
	OK(cgroup_remove_saved("") == 0, "an empty text is fine");
	if (!have(&c, "saved", &l))
		return;
	cgroup_save(&c, saved, sizeof(saved));
	run_inside(&c, fork_many);
	snprintf(text, sizeof(text), "/no/such/cove-dir\n%s", saved);
	OK(cgroup_remove_saved(text) == 0 && gone(saved),
	   "a saved group goes, busy or not");
	OK(cgroup_remove_saved(text) == 0, "twice is fine");
}

/* ---- another user
 * ---------------------------------------------------------------------------- */

static int become_somebody(void)
{
	return setgroups(0, NULL) < 0 || setresgid(somebody, somebody, somebody) < 0 ||
	       setresuid(somebody, somebody, somebody) < 0;
}

static int user_is_refused(void)
{
	struct cgroup_limits l = {.memory_bytes = 64 * MIB, .cpus_milli = 500, .pids = 9};
	struct cove_error why = {0};
	struct cgroup c;
	uint32_t missing = 0;

	if (become_somebody() ||
	    cgroup_create(&c, test_id("user"), &l, &missing, &why) < 0)
		return 2;
	if (missing != ALL || c.n != 0 || why.code != COVE_EDENIED || !why.hint[0]) {
		fprintf(stderr, "# missing %x of %x: %s\n", missing, ALL, why.msg);
		cgroup_remove(&c);
		return 3;
	}
	return strstr(why.msg, "memory limit") ? 0 : 4;
}

static int user_has_a_directory(void)
{
	struct cgroup_limits l = {.memory_bytes = 64 * MIB, .cpus_milli = 500, .pids = 9},
			     r;
	struct cove_error why = {0};
	struct cgroup c;
	uint32_t missing = 0;

	if (become_somebody() ||
	    cgroup_create(&c, test_id("user"), &l, &missing, &why) < 0)
		return 2;
	if (missing || cgroup_read_limits(&c, &r) < 0 || r.memory_bytes != 64 * MIB ||
	    r.pids != 9 || r.cpus_milli != 500) {
		fprintf(stderr, "# missing %x: %s\n", missing, why.msg);
		cgroup_remove(&c);
		return 3;
	}
	if (WEXITSTATUS(run_inside(&c, fork_many)) != 9)
		return 4;
	return cgroup_remove(&c) == 0 ? 0 : 5;
}

static int run_child(int (*fn)(void))
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(fn());
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

/* The directories that the hint tells root to make. Another run of this test may remove
 * the shared parent, which it finds empty, between our two steps: hence several tries. */
static int give_directory(const char *mount)
{
	char parent[CGROUP_PATH_MAX], path[CGROUP_PATH_MAX];

	snprintf(parent, sizeof(parent), "%s/cove", mount);
	snprintf(path, sizeof(path), "%s/cove/user-%u", mount, (unsigned)somebody);
	for (int i = 0; i < 10; i++) {
		if (mkdir(parent, 0755) < 0 && errno != EEXIST)
			printf("# %s: %s\n", parent, strerror(errno));
		if (chmod(parent, 0755) < 0) /* an older keeper's umask closed it */
			printf("# %s: %s\n", parent, strerror(errno));
		if ((mkdir(path, 0755) == 0 || errno == EEXIST) &&
		    chown(path, somebody, somebody) == 0)
			return 1;
		printf("# %s: %s\n", path, strerror(errno));
		usleep(20000);
	}
	return 0;
}

static int give_directories(void)
{
	int given = 1;

	for (int i = 0; i < CTL_CPUACCT; i++)
		given &= give_directory(cg_layout()->home[i].mount);
	return given;
}

static void take_directories(void)
{
	for (int i = 0; i < CTL_CPUACCT; i++) {
		char path[CGROUP_PATH_MAX];

		snprintf(path, sizeof(path), "%s/cove/user-%u",
			 cg_layout()->home[i].mount, (unsigned)somebody);
		rmdir(path);
	}
}

static void another_user(void)
{
	int r;

	if (geteuid() != 0) {
		SKIP("another user: needs root to become one");
		return;
	}
	r = run_child(user_is_refused);
	OK(r == 0, "a user gets all bits as missing, the reason and a hint (%d)", r);
	if (!cg_layout()->home[CTL_MEMORY].mount[0] || cg_layout()->home[CTL_MEMORY].v2 ||
	    cg_layout()->home[CTL_CPU].v2 || cg_layout()->home[CTL_PIDS].v2) {
		SKIP("a directory given to a user: needs v1 memory, cpu and pids");
		return;
	}
	if (!give_directories()) {
		SKIP("a directory given to a user: the kernel refuses to make it");
	} else {
		r = run_child(user_has_a_directory);
		OK(r == 0, "with directories of his own the user has all limits (%d)", r);
	}
	take_directories();
}

static void probe_agrees(void)
{
	struct cgroup_limits l = {.memory_bytes = 64 * MIB, .cpus_milli = 500, .pids = 9};
	struct cove_error why = {0};
	struct cgroup c;
	uint32_t missing = 0, usable = 0;
	char text[1200], shown[1200];

	OK(cgroup_create(&c, test_id("probe"), &l, &missing, &why) == 0,
	   "create never fails");
	cgroup_remove(&c);
	OK(cgroup_probe(text, sizeof(text), &usable) == 0 && usable == (ALL & ~missing),
	   "probe finds what create found");
	snprintf(shown, sizeof(shown), "%.*s", (int)strcspn(text, "\n"), text);
	OK((strchr(text, '\n') != NULL) == (missing != 0), "%s", shown);
}

int main(void)
{
	somebody = 200000 + (uid_t)getpid() % 100000;
	bad_ids_are_refused();
	nothing_asked_makes_nothing();
	limits_are_set_changed_and_read_back();
	memory_limit_kills_a_hog();
	process_limit_and_leftovers();
	cpu_time_is_limited_and_counted();
	update_can_add_a_controller();
	a_child_can_start_inside();
	a_busy_namesake_is_not_touched();
	saved_text_removes_groups_and_nothing_else();
	another_user();
	probe_agrees();
	for (int i = 0; i < CTL_N; i++) { /* the shared parent stays only if in use */
		char path[CGROUP_PATH_MAX];

		snprintf(path, sizeof(path), "%s/cove", cg_layout()->home[i].mount);
		rmdir(path);
	}
	return tap_done();
}
