/* SPDX-License-Identifier: Apache-2.0 */
#include "os/freeze.h"

#include "base/util.h"
#include "os/cgroup_impl.h"
#include "os/freeze_impl.h"
#include "os/proctree.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>

#define V1_MOUNT "/sys/fs/cgroup/freezer"

int64_t freeze_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void freeze_nap(unsigned us)
{
	struct timespec t = {.tv_nsec = (long)us * 1000};

	nanosleep(&t, NULL);
}

/* ---- the guardian --------------------------------------------------------------- */

static void thaw_group(const struct freeze *f)
{
	if (f->how == FREEZE_V2)
		cg_write(f->group, "cgroup.freeze", "0");
	else if (f->how == FREEZE_V1)
		cg_write(f->group, "freezer.state", "THAWED");
}

/* Without its keeper a sandbox ends; a frozen one has to be told. */
static void guard(const struct freeze *f, int pipe_end, int victim)
{
	sigset_t all;
	char c;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	if (dup2(pipe_end, 0) < 0 || dup2(victim, 1) < 0 ||
	    syscall(SYS_close_range, 2u, ~0u, 0) < 0)
		_exit(1);
	while (read(0, &c, 1) < 0 && errno == EINTR)
		;
	thaw_group(f);
	syscall(SYS_pidfd_send_signal, 1, SIGKILL, NULL, 0);
	_exit(0);
}

static int start_guardian(struct freeze *f, pid_t first)
{
	int p[2];
	cleanup_fd int victim = (int)syscall(SYS_pidfd_open, first, 0);

	if (victim < 0 || pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	f->guardian = fork();
	if (f->guardian == 0) {
		/* Both must be out of the way of what they become. */
		int end = fcntl(p[0], F_DUPFD, 10), who = fcntl(victim, F_DUPFD, 10);

		close(p[1]);
		guard(f, end, who);
	}
	close(p[0]);
	f->guard = p[1];
	if (f->guardian < 0) {
		close_fd(&f->guard);
		f->guardian = 0;
		return -EAGAIN;
	}
	return 0;
}

static void end_guardian(struct freeze *f)
{
	if (f->guardian <= 0)
		return;
	kill(f->guardian, SIGKILL);
	while (waitpid(f->guardian, NULL, 0) < 0 && errno == EINTR)
		;
	f->guardian = 0;
	close_fd(&f->guard);
}

/* ---- groups --------------------------------------------------------------------- */

static int wait_for(const char *dir, const char *file, const char *word)
{
	int64_t until = freeze_now_ms() + FREEZE_GROUP_WAIT_MS;
	char text[256];

	for (unsigned us = 100;; us = us < 5000 ? us * 2 : us) {
		int r = cg_read(dir, file, text, sizeof(text));

		if (r < 0)
			return r;
		if (strstr(text, word))
			return 0;
		if (freeze_now_ms() > until)
			return -ETIMEDOUT;
		freeze_nap(us);
	}
}

static int v2_group(struct freeze *f, const struct cgroup *group)
{
	for (uint32_t i = 0; i < group->n; i++) {
		if (!group->dir[i].v2)
			continue;
		memcpy(f->group, group->dir[i].path, sizeof(f->group));
		return 0;
	}
	return -ENOENT;
}

/* The group made at an earlier time, or a new one in a hierarchy of root's. */
static int v1_group(struct freeze *f, struct cgroup *group)
{
	struct statfs fs;
	char path[CGROUP_PATH_MAX];
	int r;

	if (geteuid() != 0 || statfs(V1_MOUNT, &fs) < 0 ||
	    (unsigned long)fs.f_type != CGROUP_SUPER_MAGIC)
		return -ENOENT;
	r = cg_path(path, sizeof(path), "%s/cove/cove-%s", V1_MOUNT, group->id);
	if (r < 0)
		return r;
	memcpy(f->group, path, sizeof(path));
	for (uint32_t i = 0; i < group->n; i++)
		if (strcmp(group->dir[i].path, path) == 0)
			return 0;
	if (group->n == CGROUP_DIRS_MAX || !group->id[0])
		return -ENOBUFS;
	if (mkdir(V1_MOUNT "/cove", 0755) < 0 && errno != EEXIST)
		return -errno;
	r = cg_mkdir(path);
	if (r == 0) {
		struct cgroup_dir *d = &group->dir[group->n++];

		*d = (struct cgroup_dir){0};
		memcpy(d->path, path, sizeof(path));
	}
	return r;
}

/* Whoever enters a frozen group freezes there; a pass that moves nobody twice in a row
 * has found everybody. */
static int move_all(const struct freeze *f, pid_t first)
{
	struct proctree t = {0};
	cleanup_free pid_t *moved = NULL;
	size_t n = 0, cap = 0;
	int r = 0;

	for (int quiet = 0; r == 0 && quiet < 2;) {
		bool found = false;

		r = proctree_list(&t, first);
		for (size_t i = 0; r == 0 && i < t.n; i++)
			r = freeze_move(f, &t.v[i], &moved, &n, &cap, &found);
		quiet = found ? 0 : quiet + 1;
	}
	proctree_clear(&t);
	return r;
}

/* ---- all of it ------------------------------------------------------------------ */

/* Before the guardian is there, who has to know it. */
static enum freeze_how choose(struct freeze *f, struct cgroup *group)
{
	if (!group || !group->n)
		return FREEZE_SIGNAL;
	if (v2_group(f, group) == 0)
		return FREEZE_V2;
	return v1_group(f, group) == 0 ? FREEZE_V1 : FREEZE_SIGNAL;
}

static int freeze_group(struct freeze *f, pid_t first)
{
	int r;

	if (f->how == FREEZE_V2) {
		r = cg_write(f->group, "cgroup.freeze", "1");
		return r < 0 ? r : wait_for(f->group, "cgroup.events", "frozen 1");
	}
	r = cg_write(f->group, "freezer.state", "FROZEN");
	if (r == 0)
		r = move_all(f, first);
	return r < 0 ? r : wait_for(f->group, "freezer.state", "FROZEN");
}

int freeze_start(struct freeze *f, pid_t first, struct cgroup *group,
		 struct cove_error *err)
{
	int r;

	*f = (struct freeze)FREEZE_INIT;
	f->how = choose(f, group);
	r = start_guardian(f, first);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "freeze");
	if (f->how != FREEZE_SIGNAL && freeze_group(f, first) == 0)
		return 0;
	thaw_group(f);
	r = freeze_stop_all(f, first);
	if (r == 0)
		return 0;
	freeze_end(f);
	fail(err, r == -ETIMEDOUT ? COVE_ETIMEDOUT : COVE_EIO, -r, "freeze");
	return r == -ETIMEDOUT
		       ? hint(err, "a process inside waits for a device; try again")
		       : err->code;
}

void freeze_end(struct freeze *f)
{
	thaw_group(f);
	freeze_continue(f);
	end_guardian(f);
	*f = (struct freeze)FREEZE_INIT;
}
