/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freeze_each - freezing process by process: into a frozen group, or by a signal.
 *
 * Parents are stopped before their children, and go on after them: a shell never finds a
 * child that has stopped, and takes it for a job.
 */
#include "os/freeze_impl.h"

#include "base/util.h"
#include "os/cgroup_impl.h"

#include <signal.h>
#include <stdio.h>

static bool listed(const pid_t *v, size_t n, pid_t pid)
{
	for (size_t i = 0; i < n; i++)
		if (v[i] == pid)
			return true;
	return false;
}

static int note(pid_t **v, size_t *n, size_t *cap, pid_t pid)
{
	if (*n == *cap) {
		size_t more = *cap ? *cap * 2 : 64;
		pid_t *p = realloc(*v, more * sizeof(*p));

		if (!p)
			return -ENOMEM;
		*v = p;
		*cap = more;
	}
	(*v)[(*n)++] = pid;
	return 0;
}

int freeze_move(const struct freeze *f, const struct proctree_item *p, pid_t **moved,
		size_t *n, size_t *cap, bool *found)
{
	char text[24];
	int r;

	if (listed(*moved, *n, p->pid) || proctree_state(p->pid) == PROC_GONE)
		return 0;
	*found = true;
	snprintf(text, sizeof(text), "%d", (int)p->pid);
	r = cg_write(f->group, "cgroup.procs", text);
	if (r < 0 && r != -ESRCH)
		return r;
	return note(moved, n, cap, p->pid);
}

/* Stops one and waits a moment for it, so that its children come after it. */
static int stop_one(struct freeze *f, const struct proctree_item *p, size_t *cap)
{
	int r = note(&f->pids, &f->n_pids, cap, p->pid);

	if (r == 0)
		r = proctree_signal(p, SIGSTOP);
	for (int i = 0; r == 0 && i < 20 && proctree_state(p->pid) == PROC_RUNS; i++)
		freeze_nap(50);
	if (r == -ESRCH) /* gone, or somebody else's child now: the next pass sees it */
		f->n_pids--;
	return r == -ESRCH ? 0 : r;
}

/* One pass; *ret_running: how many were not at rest. */
static int pass(struct freeze *f, const struct proctree *t, size_t *cap,
		size_t *ret_running)
{
	int r = 0;

	*ret_running = 0;
	for (size_t i = 0; r == 0 && i < t->n; i++) {
		enum proctree_state s = proctree_state(t->v[i].pid);
		bool ours = listed(f->pids, f->n_pids, t->v[i].pid);

		if (s == PROC_GONE || s == PROC_STOPPED || (s == PROC_BLOCKED && ours))
			continue;
		(*ret_running)++;
		if (!ours)
			r = stop_one(f, &t->v[i], cap);
	}
	return r;
}

int freeze_stop_all(struct freeze *f, pid_t first)
{
	int64_t until = freeze_now_ms() + FREEZE_WAIT_MS;
	struct proctree t = {0};
	size_t running = 0, cap = 0;
	int r = 0;

	f->how = FREEZE_SIGNAL;
	for (int quiet = 0; r == 0 && quiet < 2;) {
		r = proctree_list(&t, first);
		if (r == 0)
			r = pass(f, &t, &cap, &running);
		quiet = running ? 0 : quiet + 1;
		if (r == 0 && running && freeze_now_ms() > until)
			r = -ETIMEDOUT;
		if (running)
			freeze_nap(200);
	}
	proctree_clear(&t);
	return r;
}

void freeze_continue(struct freeze *f)
{
	while (f->n_pids)
		kill(f->pids[--f->n_pids], SIGCONT);
	free(f->pids);
	f->pids = NULL;
}
