/* SPDX-License-Identifier: Apache-2.0 */
/* attack_proc - other processes: seeing, signalling, tracing, entering them; gaining
 * rights. */
#include "attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t to_pid(const char *s)
{
	return (pid_t)strtol(s, NULL, 10);
}

/* kill PID: by every system call that can carry a signal. */
static int kill_pid(char **arg)
{
	pid_t pid = to_pid(arg[0]);
	siginfo_t info = {.si_code = SI_QUEUE};
	int pidfd;

	if (kill(pid, SIGKILL) == 0)
		return worked("kill %d", pid);
	if (syscall(SYS_tgkill, pid, pid, SIGKILL) == 0)
		return worked("tgkill %d", pid);
	if (syscall(SYS_tkill, pid, SIGKILL) == 0)
		return worked("tkill %d", pid);
	if (syscall(SYS_rt_sigqueueinfo, pid, SIGKILL, &info) == 0)
		return worked("sigqueue %d", pid);
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd >= 0 && syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) == 0)
		return worked("pidfd_send_signal %d", pid);
	return refused("kill %d", pid);
}

/* kill-all: everything there is. Success says nothing; the test looks at the host. */
static int kill_all(char **arg)
{
	(void)arg;
	signal(SIGTERM, SIG_IGN);
	kill(-1, SIGTERM);
	for (pid_t pid = 2; pid < 70000; pid++)
		if (pid != getpid() && pid != getppid())
			kill(pid, SIGKILL);
	errno = ESRCH;
	return refused("kill everything");
}

/* see TEXT: a process whose command line or environment holds it. */
static int see(char **arg)
{
	static const char *const files[] = {"cmdline", "environ"};
	DIR *d = opendir("/proc");
	struct dirent *e;
	char path[300], text[8192];

	while (d && (e = readdir(d))) {
		if (e->d_name[0] < '1' || e->d_name[0] > '9' ||
		    to_pid(e->d_name) == getpid() || to_pid(e->d_name) == getppid())
			continue;
		for (int i = 0; i < 2; i++) {
			snprintf(path, sizeof(path), "/proc/%s/%s", e->d_name, files[i]);
			int n = read_some(path, text, sizeof(text));
			if (n > 0 && memmem(text, (size_t)n, arg[0], strlen(arg[0])))
				return worked("%s", path);
		}
	}
	errno = ENOENT;
	return refused("a process with that text");
}

/* trace PID: attach, seize, and read its memory by two other ways. */
static int trace(char **arg)
{
	pid_t pid = to_pid(arg[0]);
	char path[64], byte, maps[128];
	struct iovec local = {.iov_base = &byte, .iov_len = 1}, remote = {.iov_len = 1};
	int fd;

	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0)
		return worked("ptrace seize %d", pid);
	if (ptrace(PTRACE_ATTACH, pid, NULL, NULL) == 0)
		return worked("ptrace attach %d", pid);
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	if (read_some(path, maps, sizeof(maps)) > 0) {
		remote.iov_base = (void *)(uintptr_t)strtoul(maps, NULL, 16);
		if (process_vm_readv(pid, &local, 1, &remote, 1, 0) == 1)
			return worked("process_vm_readv %d", pid);
	}
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		return worked("%s opened for writing", path);
	return refused("trace %d", pid);
}

/* trace-child: the control of the above: one's own child can be traced. */
static int trace_child(char **arg)
{
	char text[16], *args[] = {text};
	pid_t pid = fork();
	int rc;

	(void)arg;
	if (pid == 0) {
		pause();
		_exit(0);
	}
	snprintf(text, sizeof(text), "%d", pid);
	rc = trace(args);
	kill(pid, SIGKILL);
	return rc;
}

static int pidfd_steal(char **arg)
{
	int pidfd = (int)syscall(SYS_pidfd_open, to_pid(arg[0]), 0);

	if (pidfd < 0)
		return refused("pidfd_open");
	for (int fd = 0; fd < 16; fd++)
		if (syscall(SYS_pidfd_getfd, pidfd, fd, 0) >= 0)
			return worked("pidfd_getfd took descriptor %d", fd);
	return refused("pidfd_getfd");
}

/* enter PID: any of its namespaces that is not our own already. */
static int enter(char **arg)
{
	static const char *const kinds[] = {"user", "mnt", "pid",   "net",
					    "ipc",  "uts", "cgroup"};
	char path[64];
	int done = 0, fd;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		snprintf(path, sizeof(path), "/proc/%s/ns/%s", arg[0], kinds[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && setns(fd, 0) == 0)
			done++;
	}
	return judge(done ? 0 : -1, "setns");
}

static int has_caps(char **arg)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2];

	(void)arg;
	if (syscall(SYS_capget, &head, caps) < 0)
		return refused("capget");
	errno = EPERM;
	return judge(caps[0].effective | caps[0].permitted | caps[0].inheritable |
				     caps[1].effective | caps[1].permitted
			     ? 0
			     : -1,
		     "capabilities are held");
}

/* The bounding set decides what a program with file capabilities could get. */
static int has_bounding(char **arg)
{
	(void)arg;
	for (int cap = 0; cap < 64; cap++)
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1 &&
		    prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
			return worked("capability %d could be gained", cap);
	errno = EPERM;
	return refused("gain a capability by exec");
}

static int become_root(char **arg)
{
	(void)arg;
	if (getuid() ==
	    0) /* inside: only the number; what it may do is tried elsewhere */
		return judge(setresuid(1, 1, 1), "setresuid to another id");
	return judge(setresuid(0, 0, 0), "setresuid 0");
}

static int real_time(char **arg)
{
	struct sched_param p = {.sched_priority = 1};

	(void)arg;
	if (sched_setscheduler(0, SCHED_FIFO, &p) < 0)
		return refused("SCHED_FIFO");
	p.sched_priority = 0;
	sched_setscheduler(0, SCHED_OTHER, &p);
	return worked("SCHED_FIFO");
}

static int count_pids(char **arg)
{
	int limit = (int)strtol(arg[0], NULL, 10), n = 0;
	DIR *d = opendir("/proc");
	struct dirent *e;

	while (d && (e = readdir(d)))
		n += e->d_name[0] >= '1' && e->d_name[0] <= '9';
	errno = ENOENT;
	return n > limit ? worked("%d processes are seen", n)
			 : refused("more than %d", limit);
}

const struct attack proc_attacks[] = {
	{"kill",         1, kill_pid    },
	{"kill-all",     0, kill_all    },
	{"see",          1, see         },
	{"count-pids",   1, count_pids  },
	{"trace",        1, trace       },
	{"trace-child",  0, trace_child },
	{"pidfd-steal",  1, pidfd_steal },
	{"enter",        1, enter       },
	{"has-caps",     0, has_caps    },
	{"has-bounding", 0, has_bounding},
	{"become-root",  0, become_root },
	{"real-time",    0, real_time   },
	{NULL,           0, NULL        },
};
