/* SPDX-License-Identifier: Apache-2.0 */
#include "os/proctree.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/util.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>

void proctree_clear(struct proctree *t)
{
	free(t->v);
	*t = (struct proctree){0};
}

static int add(struct proctree *t, pid_t pid, pid_t parent)
{
	if (t->n == t->cap) {
		size_t cap = t->cap ? t->cap * 2 : 64;
		struct proctree_item *v =
			t->n < PROCTREE_MAX ? realloc(t->v, cap * sizeof(*v)) : NULL;

		if (!v)
			return -ENOMEM;
		t->v = v;
		t->cap = cap;
	}
	t->v[t->n++] = (struct proctree_item){pid, parent};
	return 0;
}

/* The threads of a process, in a directory that is to be closed. */
static DIR *open_tasks(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	return opendir(path);
}

static const char *next_task(DIR *d)
{
	struct dirent *e;

	while ((e = readdir(d)))
		if (e->d_name[0] >= '0' && e->d_name[0] <= '9')
			return e->d_name;
	return NULL;
}

static int add_children(struct proctree *t, DIR *tasks, const char *task, pid_t parent)
{
	cleanup_buf struct buf b = BUF_INIT(16u << 20);
	char path[300], *p, *end;
	int r;

	snprintf(path, sizeof(path), "%s/children", task);
	r = read_file_at(dirfd(tasks), path, &b);
	if (r < 0) /* it has just ended, or the kernel cannot say */
		return r == -ESRCH || access("/proc/thread-self/children", R_OK) == 0 ? 0
										      : r;
	r = 0;
	for (p = b.data; r == 0 && p && *p; p = end) {
		long pid = strtol(p, &end, 10);

		if (end == p || pid <= 1)
			break;
		r = add(t, (pid_t)pid, parent);
		end += *end == ' ';
	}
	return r;
}

int proctree_list(struct proctree *t, pid_t first)
{
	int r;

	t->n = 0;
	r = add(t, first, 0);
	for (size_t i = 0; r == 0 && i < t->n; i++) {
		pid_t pid = t->v[i].pid;
		DIR *d = open_tasks(pid);
		const char *task;

		if (!d) {
			if (i == 0)
				return -ESRCH;
			continue;
		}
		while (r == 0 && (task = next_task(d)))
			r = add_children(t, d, task, pid);
		closedir(d);
	}
	return r;
}

/* The letter, and the parent's number; 0 if it is gone. */
static char read_stat(int dir, const char *path, pid_t *ret_parent)
{
	char text[1024], state, *p;
	int parent;
	cleanup_fd int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n <= 0)
		return 0;
	text[n] = '\0';
	p = strrchr(text, ')'); /* its name may hold anything before that */
	if (!p || sscanf(p + 1, " %c %d", &state, &parent) != 2)
		return 0;
	if (ret_parent)
		*ret_parent = parent;
	return state;
}

/* Is the thread inside vfork() or a clone() that waits in the same way? */
static bool in_vfork(int dir, const char *task)
{
	static const long calls[] = {
#ifdef SYS_vfork
		SYS_vfork,
#endif
		SYS_clone, SYS_clone3};
	char path[300], text[32] = "";
	ssize_t n;

	snprintf(path, sizeof(path), "%s/syscall", task);
	cleanup_fd int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	for (size_t i = 0; n > 0 && i < ARRAY_LEN(calls); i++)
		if (text[0] >= '0' && text[0] <= '9' &&
		    strtol(text, NULL, 10) == calls[i])
			return true;
	return false;
}

static enum proctree_state task_state(int dir, const char *task)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/stat", task);
	switch (read_stat(dir, path, NULL)) {
	case 'T':
	case 't':
		return PROC_STOPPED;
	case 0:
	case 'Z':
	case 'X':
	case 'x':
		return PROC_GONE;
	case 'D':
		return in_vfork(dir, task) ? PROC_BLOCKED : PROC_RUNS;
	default:
		return PROC_RUNS;
	}
}

/* Its first thread may have ended while others go on. */
enum proctree_state proctree_state(pid_t pid)
{
	enum proctree_state all = PROC_GONE;
	DIR *d = open_tasks(pid);
	const char *task;

	while (d && (task = next_task(d))) {
		enum proctree_state s = task_state(dirfd(d), task);

		if (s == PROC_RUNS) {
			all = PROC_RUNS;
			break;
		}
		if (s != PROC_GONE && all != PROC_BLOCKED)
			all = s;
	}
	if (d)
		closedir(d);
	return all;
}

int proctree_signal(const struct proctree_item *p, int signo)
{
	cleanup_fd int fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	char path[64];
	pid_t parent = 0;

	if (fd < 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)p->pid);
	if (!read_stat(AT_FDCWD, path, &parent) || (p->parent && parent != p->parent))
		return -ESRCH;
	return syscall(SYS_pidfd_send_signal, fd, signo, NULL, 0) < 0 ? -errno : 0;
}
