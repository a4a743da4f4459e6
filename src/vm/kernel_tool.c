/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/kernel_tool.h"

#include "base/util.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define TICK_MS 100
#define TAIL_MAX 240 /* of what it said, in a message */
#define LINE_MAX_ 400

extern char **environ;

struct run {
	const struct tool *tool;
	pid_t pid;
	int ended;    /* pidfd */
	int out, err; /* pipes: what it prints, what it complains about */
	char line[LINE_MAX_ + 1], tail[TAIL_MAX + 1];
	size_t line_len, tail_len;
	bool overflow, cut;
};

/* ---- starting it --------------------------------------------------------------- */

static bool is_locale(const char *variable)
{
	return strncmp(variable, "LC_", 3) == 0 || strncmp(variable, "LANG", 4) == 0;
}

/* Borrows the strings. */
static char **c_locale_environment(void)
{
	static char c_locale[] = "LC_ALL=C";
	size_t n = 0, k = 0;
	char **v;

	while (environ && environ[n])
		n++;
	v = calloc(n + 2, sizeof(*v));
	for (size_t i = 0; v && i < n; i++)
		if (!is_locale(environ[i]))
			v[k++] = environ[i];
	if (v)
		v[k] = c_locale;
	return v;
}

/* fds: what becomes 0, 1 and 2; all of them are above these. */
static int spawn(struct run *r, const int fds[3])
{
	cleanup_free char **environment = c_locale_environment();
	const struct tool *t = r->tool;
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t at;
	sigset_t none, all;
	char **argv;
	int e;

	if (!environment)
		return ENOMEM;
	memcpy(&argv, &t->argv, sizeof(argv)); /* it is only read */
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&fa);
	for (int i = 0; i < 3; i++)
		posix_spawn_file_actions_adddup2(&fa, fds[i], i);
	if (t->dir)
		posix_spawn_file_actions_addchdir_np(&fa, t->dir);
	posix_spawnattr_init(&at);
	posix_spawnattr_setsigmask(&at, &none);
	posix_spawnattr_setsigdefault(&at, &all);
	posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	e = posix_spawnp(&r->pid, argv[0], &fa, &at, argv, environment);
	posix_spawn_file_actions_destroy(&fa);
	posix_spawnattr_destroy(&at);
	return e;
}

/* A descriptor of our own above the standard ones, which a host may have closed: of fd,
 * or of /dev/null (-1). */
static int above_stdio(int fd)
{
	cleanup_fd int null = fd < 0 ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;

	return fcntl(fd < 0 ? null : fd, F_DUPFD_CLOEXEC, 3);
}

/* Its reading end, and the other one above the standard descriptors. */
static int make_pipe(int *ret_read, int *ret_write)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	*ret_read = ends[0];
	*ret_write = above_stdio(ends[1]);
	close(ends[1]);
	return *ret_write;
}

static int open_stdio(struct run *r, int fds[3])
{
	const struct tool *t = r->tool;

	fds[0] = above_stdio(t->in);
	if (t->text || t->line)
		make_pipe(&r->out, &fds[1]);
	else
		fds[1] = above_stdio(t->out);
	make_pipe(&r->err, &fds[2]);
	return fds[0] < 0 || fds[1] < 0 || fds[2] < 0 ? -errno : 0;
}

static int start(struct run *r, struct cove_error *err)
{
	const char *name = r->tool->argv[0];
	int fds[3] = {-1, -1, -1};
	int e = -open_stdio(r, fds);

	if (e == 0)
		e = spawn(r, fds);
	for (int i = 0; i < 3; i++)
		close_fd(&fds[i]);
	if (e == ENOENT || e == EACCES)
		return fail(err, COVE_EUNSUPPORTED, 0, "%s is not installed", name);
	if (e)
		return fail(err, COVE_EIO, e, "start %s", name);
	r->ended = (int)syscall(SYS_pidfd_open, r->pid, 0);
	return 0;
}

/* ---- what it says -------------------------------------------------------------- */

static void take_line(struct run *r, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i] != '\n' && r->line_len < LINE_MAX_) {
			r->line[r->line_len++] = p[i];
			continue;
		}
		if (p[i] != '\n')
			continue;
		r->line[r->line_len] = '\0';
		r->tool->line(r->tool->arg, r->line);
		r->line_len = 0;
	}
}

static void take_output(struct run *r, const char *p, size_t n)
{
	if (r->tool->line)
		take_line(r, p, n);
	else if (!r->overflow && buf_append(r->tool->text, p, n) < 0)
		r->overflow = true;
}

static void take_complaint(struct run *r, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];

		if (r->tail_len == TAIL_MAX) {
			r->tail_len /= 2;
			memmove(r->tail, r->tail + TAIL_MAX - r->tail_len, r->tail_len);
			r->cut = true;
		}
		r->tail[r->tail_len++] = (char)(c == '\n' ? ' ' : c < ' ' ? '?' : c);
	}
}

/* One read; closes what has ended. */
static void drain(struct run *r, int *fd,
		  void (*take)(struct run *, const char *, size_t))
{
	char piece[16384];
	ssize_t n = read(*fd, piece, sizeof(piece));

	if (n > 0)
		take(r, piece, (size_t)n);
	else if (n == 0 || errno != EINTR)
		close_fd(fd);
}

/* Until it has ended. What it started itself and left behind may hold its pipes: what is
 * in them is read, but nobody waits for more. */
static void attend(struct run *r)
{
	for (bool over = false; !over;) {
		struct pollfd p[] = {
			{.fd = r->out,   .events = POLLIN},
			{.fd = r->err,   .events = POLLIN},
			{.fd = r->ended, .events = POLLIN}
                };
		int n = poll(p, ARRAY_LEN(p), TICK_MS);
		bool readable = n > 0 && (p[0].revents || p[1].revents);

		if (n > 0 && p[0].revents)
			drain(r, &r->out, take_output);
		if (n > 0 && p[1].revents)
			drain(r, &r->err, take_complaint);
		if (r->overflow)
			kill(r->pid, SIGKILL);
		over = !readable && (r->ended < 0 ? r->err < 0 : n > 0 && p[2].revents);
		if (r->tool->tick && n >= 0 && !readable)
			r->tool->tick(r->tool->arg);
	}
}

/* By a signal, or it says so as shells do. */
static bool was_interrupted(int status)
{
	int signo = WIFSIGNALED(status) ? WTERMSIG(status)
		    : WIFEXITED(status) ? WEXITSTATUS(status) - 128
					: 0;

	return signo == SIGINT || signo == SIGHUP || signo == SIGTERM;
}

static int verdict(struct run *r, int status, struct cove_error *err)
{
	const char *name = r->tool->argv[0], *said = r->tail;

	while (r->tail_len && r->tail[r->tail_len - 1] == ' ')
		r->tail_len--;
	r->tail[r->tail_len] = '\0';
	if (r->cut) /* in the middle of a word */
		said += strcspn(said, " ");
	if (r->overflow)
		return fail(err, COVE_EIO, 0, "%s: too much output", name);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (was_interrupted(status))
		return fail(err, COVE_ESTATE, 0, "%s was interrupted", name);
	if (WIFSIGNALED(status))
		return fail(err, COVE_EIO, 0, "%s: killed by signal %d", name,
			    WTERMSIG(status));
	return fail(err, COVE_EIO, 0, "%s failed%s%s", name, *said ? ": " : "", said);
}

int tool_run(const struct tool *t, struct cove_error *err)
{
	struct run r = {.tool = t, .ended = -1, .out = -1, .err = -1};
	int status = -1, code = start(&r, err);

	if (code == 0) {
		attend(&r);
		while (waitpid(r.pid, &status, 0) < 0 && errno == EINTR)
			;
		code = verdict(&r, status, err);
	}
	close_fd(&r.ended);
	close_fd(&r.out);
	close_fd(&r.err);
	return code;
}
