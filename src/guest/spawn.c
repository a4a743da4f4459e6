/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The child shares our memory until it has executed or ended (vfork), so that a start
 * costs the same however large we are, and a failure is told by writing it down. Hence
 * the rules for child(): system calls only, no allocation, no stdio, nothing that takes a
 * lock, and it never returns. SIGCHLD and its like are blocked until the last moment.
 */
#include "guest/spawn.h"

#include "base/util.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

struct shared {
	struct spawn *s;
	const char *path;          /* directories to search */
	char file[SPAWN_PATH_MAX]; /* scratch for one candidate */
	volatile int sys;
	volatile enum spawn_stage stage;
};

static const char *search_path(char **envp)
{
	for (; *envp; envp++)
		if (strncmp(*envp, "PATH=", 5) == 0)
			return *envp + 5;
	return DEFAULT_PATH;
}

/* "dir/name" in sh->file; an empty directory means the current one. */
static bool candidate(struct shared *sh, const char *dir, size_t n, const char *name)
{
	size_t len = strlen(name);

	if (n + 1 + len + 1 > sizeof(sh->file))
		return false;
	memcpy(sh->file, dir, n);
	if (n)
		sh->file[n++] = '/';
	memcpy(sh->file + n, name, len + 1);
	return true;
}

/* Tries as execvp() does, without its fallback to a shell. Returns the errno. */
static int execute(struct shared *sh)
{
	const char *name = sh->s->argv[0], *dir = sh->path;
	int seen = ENOENT;

	if (strchr(name, '/') || !*name) {
		execve(name, sh->s->argv, sh->s->envp);
		return errno;
	}
	for (;;) {
		const char *end = strchrnul(dir, ':');

		if (candidate(sh, dir, (size_t)(end - dir), name)) {
			execve(sh->file, sh->s->argv, sh->s->envp);
			if (errno == EACCES)
				seen = EACCES;
			else if (errno != ENOENT && errno != ENOTDIR)
				return errno;
		}
		if (!*end)
			return seen;
		dir = end + 1;
	}
}

static int become(const struct spawn *s)
{
	if (s->gid && (syscall(SYS_setgroups, 0, NULL) < 0 ||
		       syscall(SYS_setresgid, *s->gid, *s->gid, *s->gid) < 0))
		return -1;
	if (s->uid && syscall(SYS_setresuid, *s->uid, *s->uid, *s->uid) < 0)
		return -1;
	return 0;
}

static int attach(const struct spawn *s)
{
	if (setsid() < 0)
		return -1;
	if (s->tty && ioctl(s->fd[1], TIOCSCTTY, 0) < 0)
		return -1;
	for (int i = 2; i >= 0;
	     i--) /* downwards: fd[1] and fd[2] may be our own 0 or 1 */
		if (s->fd[i] != i && dup2(s->fd[i], i) < 0)
			return -1;
	return s->die_with_us ? prctl(PR_SET_PDEATHSIG, SIGKILL) : 0;
}

static void fail_at(struct shared *sh, enum spawn_stage stage, int sys)
{
	sh->stage = stage;
	sh->sys = sys;
	_exit(127);
}

__attribute__((noreturn, noinline)) static void child(struct shared *sh)
{
	struct spawn *s = sh->s;
	static const unsigned long none;   /* the kernel's empty sigset */
	static const unsigned long dfl[4]; /* the kernel's struct sigaction: SIG_DFL */

	if (attach(s) < 0)
		fail_at(sh, SPAWN_SETUP, errno);
	if (become(s) < 0)
		fail_at(sh, SPAWN_USER, errno);
	if (s->cwd && chdir(s->cwd) < 0)
		fail_at(sh, SPAWN_CWD, errno);
	/* Only SIGPIPE is ignored in us; handlers go away by themselves. Raw calls: the
	 * library's may keep records, in memory that is not ours alone. */
	syscall(SYS_rt_sigaction, SIGPIPE, dfl, NULL, sizeof(none));
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none));
	fail_at(sh, SPAWN_EXEC, execute(sh));
	__builtin_unreachable();
}

pid_t spawn(struct spawn *s)
{
	struct shared sh = {.s = s, .path = search_path(s->envp)};
	pid_t pid;

	pid = vfork();
	if (pid == 0)
		child(&sh);
	if (pid < 0) {
		s->stage = SPAWN_FORK;
		return -errno;
	}
	if (!sh.sys)
		return pid;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	s->stage = sh.stage;
	return -sh.sys;
}
