/* SPDX-License-Identifier: Apache-2.0 */
/* Freezing a family of processes by signals, and letting it go on. */
#include "os/freeze.h"
#include "base/util.h"
#include "os/proctree.h"
#include "tap.h"

#include <linux/magic.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>

enum { FORKER, THREADS, SLEEPER, VFORKER, KINDS };

struct shared {
	atomic_uint beats[KINDS];
	atomic_int pid[KINDS], stopped_pid;
};
static struct shared *shared;
static char v1_path[CGROUP_PATH_MAX], v2_path[CGROUP_PATH_MAX];

static void nap(int ms)
{
	struct timespec t = {.tv_nsec = ms * 1000000L};

	nanosleep(&t, NULL);
}

/* Makes and reaps children without end: the hardest to catch. */
static void forker(void)
{
	for (;;) {
		pid_t pid = fork();

		if (pid == 0) {
			if (fork() == 0) {
				nap(1); /* an orphan by now */
				atomic_fetch_add(&shared->beats[FORKER], 1);
			}
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
}

static void *spin(void *arg)
{
	(void)arg;
	for (;;) {
		atomic_fetch_add(&shared->beats[THREADS], 1);
		sched_yield();
	}
	return NULL;
}

static void threads(void)
{
	pthread_t t;

	pthread_create(&t, NULL, spin, NULL);
	pthread_create(&t, NULL, spin, NULL);
	pthread_exit(NULL); /* the first thread is gone, the others run */
}

static void sleeper(void)
{
	for (;;) {
		nap(1);
		atomic_fetch_add(&shared->beats[SLEEPER], 1);
	}
}

static void vforker(void)
{
	for (;;) {
		pid_t pid = vfork();

		if (pid == 0) {
			nap(2);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
		atomic_fetch_add(&shared->beats[VFORKER], 1);
	}
}

static void family(void)
{
	static void (*const kinds[KINDS])(void) = {forker, threads, sleeper, vforker};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	setpgid(0, 0);
	for (int i = 0; i < KINDS; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			kinds[i]();
		}
		atomic_store(&shared->pid[i], pid);
	}
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		raise(SIGSTOP);
		_exit(0);
	}
	atomic_store(&shared->stopped_pid, pid);
	for (;;) /* reaps the orphans */
		if (waitpid(-1, NULL, 0) < 0)
			nap(1);
}

static void read_beats(unsigned out[KINDS])
{
	for (int i = 0; i < KINDS; i++)
		out[i] = atomic_load(&shared->beats[i]);
}

static bool all_moved(const unsigned a[KINDS])
{
	for (int tries = 0; tries < 200; tries++) {
		unsigned b[KINDS];
		int moved = 0;

		read_beats(b);
		for (int i = 0; i < KINDS; i++)
			moved += b[i] != a[i];
		if (moved == KINDS)
			return true;
		nap(10);
	}
	return false;
}

static void test_round(pid_t first, int round, struct cgroup *group, enum freeze_how how)
{
	struct cove_error err = {0};
	struct freeze f;
	unsigned a[KINDS], b[KINDS];
	int r = freeze_start(&f, first, group, &err);

	/* the family has a process without its first thread: see FREEZE_GROUP_WAIT_MS */
	OK(r == 0 && (f.how == how || (how == FREEZE_V1 && f.how == FREEZE_SIGNAL)),
	   "round %d: frozen: %s", round, err.msg);
	read_beats(a);
	nap(60);
	read_beats(b);
	OK(memcmp(a, b, sizeof(a)) == 0, "round %d: nothing moves", round);
	freeze_end(&f);
	OK(all_moved(b), "round %d: everything moves again", round);
	OK(proctree_state(atomic_load(&shared->stopped_pid)) == PROC_STOPPED,
	   "round %d: what was stopped stays so", round);
}

static bool is_mount(const char *path, unsigned long magic)
{
	struct statfs fs;

	return geteuid() == 0 && statfs(path, &fs) == 0 &&
	       (unsigned long)fs.f_type == magic;
}

/* A sandbox that has a v1 group gets one more of the freezer. */
static void test_v1(pid_t first)
{
	struct cgroup g = {.n = 1};

	if (!is_mount("/sys/fs/cgroup/freezer", CGROUP_SUPER_MAGIC)) {
		SKIP("no freezer of cgroup v1, or not root");
		return;
	}
	snprintf(g.id, sizeof(g.id), "test.%d", (int)getpid());
	test_round(first, 101, &g, FREEZE_V1);
	OK(g.n == 2 && strstr(g.dir[1].path, "freezer"), "the group is noted");
	test_round(first, 102, &g, FREEZE_V1);
	OK(g.n == 2, "and used again");
	/* it is removed when everybody is gone, see main() */
	snprintf(v1_path, sizeof(v1_path), "%s", g.dir[1].path);
}

static void enter_v2(const char *dir, pid_t first)
{
	struct proctree t = {0};
	char path[CGROUP_PATH_MAX + 32];

	snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	for (int i = 0; i < 20 && proctree_list(&t, first) == 0; i++)
		for (size_t k = 0; k < t.n; k++) {
			FILE *f = fopen(path, "w");

			if (f)
				fprintf(f, "%d", (int)t.v[k].pid);
			if (f)
				fclose(f);
		}
	proctree_clear(&t);
}

static void test_v2(pid_t first)
{
	bool pure = is_mount("/sys/fs/cgroup", CGROUP2_SUPER_MAGIC);
	struct cgroup g = {.n = 1};

	if (!pure && !is_mount("/sys/fs/cgroup/unified", CGROUP2_SUPER_MAGIC)) {
		SKIP("no cgroup v2, or not root");
		return;
	}
	snprintf(v2_path, sizeof(v2_path), "/sys/fs/cgroup%s/cove-test.%d",
		 pure ? "" : "/unified", (int)getpid());
	if (mkdir(v2_path, 0755) < 0) {
		v2_path[0] = '\0';
		SKIP("no group can be made");
		return;
	}
	g.dir[0].v2 = 1;
	memcpy(g.dir[0].path, v2_path, sizeof(v2_path));
	enter_v2(v2_path, first);
	test_round(first, 201, &g, FREEZE_V2);
	test_round(first, 202, &g, FREEZE_V2);
}

/* Empty only when the last process is gone for good. */
static void remove_group(const char *path)
{
	for (int i = 0; *path && rmdir(path) < 0 && errno == EBUSY && i < 100; i++)
		nap(10);
}

static void test_guardian(pid_t first)
{
	int status;
	pid_t keeper = fork();

	if (keeper == 0) {
		struct cove_error err = {0};
		struct freeze f;

		freeze_start(&f, first, NULL, &err);
		_exit(0); /* without letting go */
	}
	waitpid(keeper, &status, 0);
	OK(waitpid(first, &status, 0) == first && WIFSIGNALED(status),
	   "whoever freezes and dies takes the family with him");
}

int main(void)
{
	unsigned none[KINDS] = {0};
	pid_t first;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	first = fork();
	if (first == 0)
		family();
	OK(all_moved(none), "a family of processes runs");
	for (int i = 1; i <= 5; i++)
		test_round(first, i, NULL, FREEZE_SIGNAL);
	test_v1(first);
	test_v2(first);
	test_guardian(first);
	kill(-first, SIGKILL); /* no namespace takes the rest of them with it here */
	remove_group(v1_path);
	remove_group(v2_path);
	return tap_done();
}
