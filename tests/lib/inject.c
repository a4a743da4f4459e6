/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject - runs a command and stops or fails it at one of its system calls.
 *
 *	inject -c [OPTIONS] CMD...	counts the calls; prints how many
 *	inject -l [OPTIONS] CMD...	lists them: number, name, result, arguments
 *	inject -n N [OPTIONS] CMD...	acts at call N (1 is the first after exec)
 *
 *	-m MODE	kill (default): SIGKILL before the call is made
 *		enospc, eio: the call is not made and fails
 *	-w SET	which calls count: all, effects (those that something outside of the
 *		process can notice: before each of the others, things are as before the
 *next of these), files (those that change files). Default: effects for kill, files for
 *errors -s NAME	only this call counts
 *	-p	every call from N on fails, not one (a full disk stays full)
 *	-f	children too; kill ends all of them, as a power cut does
 *	-o FILE	where count, list and the call that was hit are written; default:
 *descriptor 3 if it is open, else standard error
 *
 * The call that was hit is written as `hit N NAME`; a run that ended before call N as
 * `end COUNT`. The exit status is the command's (128 + signal if one killed it), 125 if
 * inject itself failed.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <elf.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <linux/ptrace.h>

#include "inject_calls.def"

#define TASKS_MAX 64
#define FAILED 125

enum mode { MODE_KILL, MODE_ERROR };
enum set { SET_DEFAULT, SET_ALL, SET_EFFECTS, SET_FILES };

struct task {
	pid_t pid;
	bool fail;      /* the call that is under way was replaced: give it the error */
	bool listed;    /* its line waits for the result */
	char text[700]; /* of that line */
	unsigned long number;
};

static struct {
	enum mode mode;
	int error;
	enum set set;
	const char *only;
	bool persistent, follow, count, list;
	unsigned long at;
	FILE *out;
} opt = {.set = SET_DEFAULT};

static struct task tasks[TASKS_MAX];
static unsigned long seen; /* calls that counted so far */
static bool begun;         /* the command itself was executed */
static bool hit;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "inject: %s: %s\n", what, strerror(errno));
	exit(FAILED);
}

static struct task *task_of(pid_t pid)
{
	struct task *empty = NULL;

	for (size_t i = 0; i < TASKS_MAX; i++) {
		if (tasks[i].pid == pid)
			return &tasks[i];
		if (!empty && tasks[i].pid == 0)
			empty = &tasks[i];
	}
	if (!empty) {
		errno = EAGAIN;
		die("too many processes");
	}
	*empty = (struct task){.pid = pid};
	return empty;
}

/* ---- what a call is about -------------------------------------------------------- */

static bool peek(pid_t pid, uint64_t from, void *to, size_t n)
{
	struct iovec local = {to, n};
	struct iovec remote = {(void *)(uintptr_t)from,
			       n}; // NOLINT: an address of theirs

	return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)n;
}

/* A string of theirs; read in steps that stay within a page. */
static void peek_text(pid_t pid, uint64_t from, char *to, size_t size)
{
	size_t n = 0;

	to[0] = '\0';
	while (from && n + 1 < size) {
		size_t step = 256 - (from + n) % 256;

		if (step > size - 1 - n)
			step = size - 1 - n;
		if (!peek(pid, from + n, to + n, step))
			break;
		n += step;
		to[n] = '\0';
		if (memchr(to + n - step, '\0', step))
			return;
	}
}

static void fd_path(pid_t pid, int64_t fd, char *to, size_t size)
{
	char link[64];
	ssize_t n;

	if ((int)fd == AT_FDCWD)
		snprintf(link, sizeof(link), "/proc/%d/cwd", pid);
	else
		snprintf(link, sizeof(link), "/proc/%d/fd/%d", pid, (int)fd);
	n = readlink(link, to, size - 1);
	to[n > 0 ? n : 0] = '\0';
}

/* Appends one argument to the line of a call, as its table says. */
static void show_arg(pid_t pid, char kind, const uint64_t *arg, char *line, size_t size)
{
	char dir[256] = "", path[256] = "";
	size_t n = strlen(line);

	if (kind == 'd' || kind == 'f')
		fd_path(pid, (int64_t)arg[0], dir, sizeof(dir));
	if (kind == 'd')
		peek_text(pid, arg[1], path, sizeof(path));
	else if (kind == 'p')
		peek_text(pid, arg[0], path, sizeof(path));
	if (kind == 'd' && path[0] == '/')
		dir[0] = '\0';
	if (kind == 'x')
		snprintf(line + n, size - n, "\t%#llx", (unsigned long long)arg[0]);
	else
		snprintf(line + n, size - n, "\t%s%s%s", dir, *dir && *path ? "/" : "",
			 path);
}

static const struct call *call_of(uint64_t nr)
{
	for (const struct call *c = calls; c->name; c++)
		if (c->nr == (long)nr)
			return c;
	return NULL;
}

/* May this call make or change a file? `open` only if it says so. */
static bool opens_for_change(pid_t pid, const struct call *c, const uint64_t *args)
{
	struct open_how how = {0};
	uint64_t flags = args[c->flags_arg];

	if (c->kind == CALL_OPEN_HOW)
		flags = peek(pid, args[2], &how, sizeof(how.flags)) ? how.flags : O_CREAT;
	return flags & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR);
}

static bool counts(pid_t pid, const struct call *c, const uint64_t *args)
{
	if (opt.only)
		return c && strcmp(c->name, opt.only) == 0;
	if (opt.set == SET_ALL)
		return true;
	if (!c)
		return opt.set == SET_EFFECTS;
	switch (c->kind) {
	case CALL_PURE:
		return false;
	case CALL_OPEN:
	case CALL_OPEN_HOW:
		return opens_for_change(pid, c, args);
	case CALL_IOCTL:
		return args[1] == FICLONE || args[1] == FICLONERANGE;
	case CALL_FILE:
		return true;
	default:
		return opt.set == SET_EFFECTS;
	}
}

/* ---- registers ------------------------------------------------------------------- */

#if defined(__x86_64__)
static void change_call(pid_t pid, bool result, int64_t value)
{
	struct user_regs_struct regs;
	struct iovec io = {&regs, sizeof(regs)};

	if (ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &io) < 0)
		return; /* it was killed meanwhile */
	if (result)
		regs.rax = (uint64_t)value;
	else
		regs.orig_rax = (uint64_t)value;
	ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &io);
}
#elif defined(__aarch64__)
static void change_call(pid_t pid, bool result, int64_t value)
{
	struct user_regs_struct regs;
	int nr = (int)value;
	struct iovec io = {&regs, sizeof(regs)}, call = {&nr, sizeof(nr)};

	if (!result) {
		ptrace(PTRACE_SETREGSET, pid, NT_ARM_SYSTEM_CALL, &call);
		return;
	}
	if (ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &io) < 0)
		return;
	regs.regs[0] = (uint64_t)value;
	ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &io);
}
#else
#error "inject: how are system calls changed on this machine?"
#endif

/* ---- the run --------------------------------------------------------------------- */

static void end_all(void)
{
	for (size_t i = 0; i < TASKS_MAX; i++)
		if (tasks[i].pid)
			kill(tasks[i].pid, SIGKILL);
}

static void act(struct task *t, const struct call *c)
{
	if (!hit) {
		fprintf(opt.out, "hit %lu %s\n", seen, c ? c->name : "?");
		fflush(opt.out);
	}
	hit = true;
	if (opt.mode == MODE_KILL) {
		end_all();
		return;
	}
	change_call(t->pid, false, -1);
	t->fail = true;
}

static void enter(struct task *t, const struct ptrace_syscall_info *info)
{
	const struct call *c = call_of(info->entry.nr);
	const uint64_t *args = (const uint64_t *)info->entry.args;

	if (!begun || !counts(t->pid, c, args))
		return;
	seen++;
	if (opt.list) {
		snprintf(t->text, sizeof(t->text), "%s", c ? c->name : "?");
		t->number = seen;
		t->listed = true;
		for (const struct call_arg *a = c ? c->args : NULL; a && a->kind; a++)
			show_arg(t->pid, a->kind, args + a->index, t->text,
				 sizeof(t->text));
	}
	if (opt.at && (seen == opt.at || (opt.persistent && seen > opt.at)))
		act(t, c);
}

static void leave(struct task *t, const struct ptrace_syscall_info *info)
{
	const char *rest = strchr(t->text, '\t');

	if (t->fail)
		change_call(t->pid, true, -opt.error);
	t->fail = false;
	if (t->listed)
		fprintf(opt.out, "%lu\t%.*s\t%lld%s\n", t->number,
			(int)(rest ? rest - t->text : (int)strlen(t->text)), t->text,
			(long long)info->exit.rval, rest ? rest : "");
	t->listed = false;
}

static void at_syscall(struct task *t)
{
	struct ptrace_syscall_info info = {0};

	if (ptrace(PTRACE_GET_SYSCALL_INFO, t->pid, sizeof(info), &info) < 0)
		return;
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
		enter(t, &info);
	else if (info.op == PTRACE_SYSCALL_INFO_EXIT)
		leave(t, &info);
}

/* One stop of a traced process; lets it go on. */
static void at_stop(pid_t pid, int status)
{
	int sig = WSTOPSIG(status), event = status >> 16;
	struct task *t = task_of(pid);
	long go = PTRACE_SYSCALL;

	if (hit && opt.mode == MODE_KILL) { /* one that was born meanwhile */
		kill(pid, SIGKILL);
		return;
	}
	if (sig == (SIGTRAP | 0x80)) {
		at_syscall(t);
		sig = 0;
	} else if (event == PTRACE_EVENT_STOP && (sig == SIGSTOP || sig == SIGTSTP ||
						  sig == SIGTTIN || sig == SIGTTOU)) {
		ptrace(PTRACE_LISTEN, pid, 0, 0);
		return;
	} else if (event) {
		begun = begun || event == PTRACE_EVENT_EXEC;
		sig = 0;
	}
	/* What was asked for has happened: the rest runs at full speed. */
	if (hit && opt.mode == MODE_ERROR && !opt.persistent && !t->fail)
		go = PTRACE_CONT;
	ptrace(go, pid, 0, sig);
}

static int watch(pid_t child)
{
	int status, result = FAILED << 8;
	pid_t pid;

	while ((pid = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR) {
		if (pid < 0)
			continue;
		if (WIFSTOPPED(status)) {
			at_stop(pid, status);
			continue;
		}
		if (pid == child)
			result = status;
		task_of(pid)->pid = 0;
	}
	return result;
}

static pid_t start(char **argv)
{
	long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC;
	int gate[2];
	char byte;
	pid_t pid;

	if (pipe2(gate, O_CLOEXEC) < 0 || (pid = fork()) < 0)
		die("fork");
	if (pid == 0) {
		close(gate[1]);
		if (read(gate[0], &byte, 1) != 1)
			_exit(FAILED);
		execvp(argv[0], argv);
		fprintf(stderr, "inject: %s: %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	if (opt.follow)
		options |= PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE;
	if (ptrace(PTRACE_SEIZE, pid, 0, options) < 0 ||
	    ptrace(PTRACE_INTERRUPT, pid, 0, 0) < 0)
		die("ptrace");
	task_of(pid);
	if (write(gate[1], "g", 1) != 1)
		die("write");
	close(gate[0]);
	close(gate[1]);
	return pid;
}

static void options_of(int argc, char **argv)
{
	static const char *const sets[] = {"", "all", "effects", "files"};
	const char *file = NULL;
	int c;

	while ((c = getopt(argc, argv, "+cln:m:w:s:pfo:")) != -1) {
		opt.count = opt.count || c == 'c';
		opt.list = opt.list || c == 'l';
		opt.persistent = opt.persistent || c == 'p';
		opt.follow = opt.follow || c == 'f';
		if (c == 'n')
			opt.at = strtoul(optarg, NULL, 10);
		if (c == 's')
			opt.only = optarg;
		if (c == 'o')
			file = optarg;
		if (c == 'm' && strcmp(optarg, "kill") != 0) {
			opt.mode = MODE_ERROR;
			opt.error = strcmp(optarg, "eio") == 0 ? EIO : ENOSPC;
		}
		for (int i = SET_ALL; c == 'w' && i <= SET_FILES; i++)
			if (strcmp(optarg, sets[i]) == 0)
				opt.set = (enum set)i;
		if (c == '?')
			exit(FAILED);
	}
	if (opt.set == SET_DEFAULT)
		opt.set = opt.mode == MODE_KILL ? SET_EFFECTS : SET_FILES;
	if (file)
		opt.out = fopen(file, "we");
	else if (fcntl(3, F_GETFD) >= 0 && fcntl(3, F_SETFD, FD_CLOEXEC) == 0)
		opt.out = fdopen(3, "w");
	else
		opt.out = stderr;
	if (!opt.out)
		die(file ? file : "output");
}

int main(int argc, char **argv)
{
	int status;

	options_of(argc, argv);
	if (optind >= argc || (!opt.count && !opt.list && !opt.at)) {
		fprintf(stderr, "usage: inject -c|-l|-n N [-m kill|enospc|eio] [-pf] "
				"[-w all|effects|files] [-s NAME] [-o FILE] CMD...\n");
		return FAILED;
	}
	signal(SIGINT, SIG_IGN); /* the command's business */
	status = watch(start(argv + optind));
	if (opt.count)
		fprintf(opt.out, "%lu\n", seen);
	else if (!opt.list && !hit)
		fprintf(opt.out, "end %lu\n", seen);
	if (fflush(opt.out) != 0)
		die("output");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
