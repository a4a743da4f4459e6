/* SPDX-License-Identifier: Apache-2.0 */
/* Freezing a family of processes by signals, and letting it go on. */
#include "os/freeze.h"
#include "base/util.h"
#include "os/proctree.h"
#include "tap.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

enum { FORKER, THREADS, SLEEPER, VFORKER, KINDS };

struct shared {
	atomic_uint beats[KINDS];
	atomic_int pid[KINDS], stopped_pid;
};
static struct shared *shared;

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

static void test_round(pid_t first, int round)
{
	struct cove_error err = {0};
	struct freeze f;
	unsigned a[KINDS], b[KINDS];
	int r = freeze_start(&f, first, NULL, &err);

	OK(r == 0 && f.how == FREEZE_SIGNAL, "round %d: frozen: %s", round, err.msg);
	read_beats(a);
	nap(60);
	read_beats(b);
	OK(memcmp(a, b, sizeof(a)) == 0, "round %d: nothing moves", round);
	freeze_end(&f);
	OK(all_moved(b), "round %d: everything moves again", round);
	OK(proctree_state(atomic_load(&shared->stopped_pid)) == PROC_STOPPED,
	   "round %d: what was stopped stays so", round);
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
		test_round(first, i);
	test_guardian(first);
	kill(-first, SIGKILL); /* no namespace takes the rest of them with it here */
	return tap_done();
}
