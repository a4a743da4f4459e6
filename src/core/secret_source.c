/* SPDX-License-Identifier: Apache-2.0 */
/* Values from outside: a variable, a file, the output of a command. They are read
 * straight into locked memory; a text's last line break is not part of it. */
#include "core/secret.h"

#include "base/util.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <sodium/utils.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define COMMAND_MS 60000
#define SECRET_SOURCE_MAX (SECRET_VALUE_MAX + 3) /* a line break, and one too many */

extern char **environ;

/* Takes n bytes over, of which there is room for SECRET_SOURCE_MAX; cuts the last line
 * break, refuses what is empty or too large. */
static int take_value(struct secret *ret, char *value, size_t n, struct cove_error *err)
{
	if (n <= SECRET_SOURCE_MAX && n && value[n - 1] == '\n') {
		n--;
		if (n && value[n - 1] == '\r')
			n--;
	}
	if (n == 0 || n > SECRET_VALUE_MAX) {
		sodium_free(value);
		if (n == 0)
			return fail(err, COVE_EINVAL, 0, "its value is empty");
		fail(err, COVE_EINVAL, 0, "its value has more than %d bytes",
		     SECRET_VALUE_MAX);
		return hint(err, "what is larger can be a file that is mounted");
	}
	value[n] = '\0';
	ret->value = value;
	ret->n = n;
	return 0;
}

int secret_from_env(const char *name, struct secret *ret, struct cove_error *err)
{
	const char *text = getenv(name);
	size_t n;
	char *copy;

	if (!text || !*text)
		return fail(err, COVE_ENOENT, 0, "%.60s is not in the environment", name);
	n = strnlen(text, SECRET_SOURCE_MAX);
	copy = secret_alloc(SECRET_SOURCE_MAX);
	if (!copy)
		return fail_nomem(err);
	memcpy(copy, text, n);
	return take_value(ret, copy, n, err);
}

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Until the end, or as much as there is room for. */
static int read_whole(int fd, int64_t until_ms, char *p, size_t *ret_n)
{
	size_t n = 0;

	while (n < SECRET_SOURCE_MAX) {
		struct pollfd ready = {.fd = fd, .events = POLLIN};
		int64_t left = until_ms - now();
		int polled = left > 0 ? poll(&ready, 1, (int)left) : 0;
		ssize_t k;

		if (polled == 0)
			return -ETIMEDOUT;
		if (polled < 0)
			continue; /* a signal: a read might wait for longer */
		k = read(fd, p + n, SECRET_SOURCE_MAX - n);
		if (k < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (k < 0)
			return -errno;
		if (k == 0)
			break;
		n += (size_t)k;
	}
	*ret_n = n;
	return 0;
}

/* "DIRECTORY/./PATH", as a project's file is named: nothing below DIRECTORY leads out of
 * it, whoever may have put a link there. Other paths are the user's own. */
static int open_source(const char *path)
{
	const char *below = strstr(path, "/./");
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
			       .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
	cleanup_free char *root = NULL;
	cleanup_fd int dir = -1;

	if (!below)
		return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	root = strndup(path, (size_t)(below - path) + 1);
	if (!root)
		return -1;
	dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return dir < 0 ? -1
		       : (int)syscall(SYS_openat2, dir, below + 3, &how, sizeof(how));
}

static int open_failed(const char *path, struct cove_error *err)
{
	if (errno != EXDEV)
		return fail(err, COVE_EIO, errno, "%s", path);
	fail(err, COVE_EDENIED, 0, "%s: a link leads out of the project", path);
	return hint(err,
		    "a project's file may only name files of the project; name it in "
		    "your own configuration");
}

int secret_from_file(const char *name, const char *path, struct secret *ret,
		     struct cove_error *err)
{
	char full[PATH_MAX];
	const char *home = getenv("HOME");
	size_t n = 0;
	char *value;
	int r;

	(void)name;
	if (path && path[0] == '~' && path[1] == '/' && home) {
		if (snprintf(full, sizeof(full), "%s%s", home, path + 1) >=
		    (int)sizeof(full))
			return fail(err, COVE_EINVAL, ENAMETOOLONG, "%s", path);
		path = full;
	}
	if (!path)
		return fail(err, COVE_EINVAL, 0, "no path");
	cleanup_fd int fd = open_source(path);
	if (fd < 0) /* not ENOENT: the spec names this one place */
		return open_failed(path, err);
	value = secret_alloc(SECRET_SOURCE_MAX);
	if (!value)
		return fail_nomem(err);
	r = read_whole(fd, now() + COMMAND_MS, value, &n);
	if (r < 0) {
		sodium_free(value);
		return fail(err, COVE_EIO, -r, "%s", path);
	}
	r = take_value(ret, value, n, err);
	return r < 0 ? wrap(err, "%s", path) : 0;
}

/* The command's descriptors: 0 as ours, so that it can ask; 2 too; 1 is the pipe. */
static int spawn_command(char *const *argv, int out, pid_t *ret, struct cove_error *err)
{
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t at;
	sigset_t none, all;
	int r;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, out, 1);
	posix_spawnattr_init(&at);
	posix_spawnattr_setsigmask(&at, &none);
	posix_spawnattr_setsigdefault(&at, &all);
	posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	r = posix_spawnp(ret, argv[0], &fa, &at, argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	posix_spawnattr_destroy(&at);
	return r ? fail(err, COVE_EIO, r, "command %s", argv[0]) : 0;
}

/* Its end; a command that closed its output and goes on is not waited for. */
static int wait_command(pid_t pid, int64_t until_ms, int *ret_status)
{
	for (;;) {
		struct timespec pause = {.tv_nsec = 2000000};
		pid_t got = waitpid(pid, ret_status, WNOHANG);

		if (got == pid)
			return 0;
		if (got < 0 && errno != EINTR)
			return -errno;
		if (now() > until_ms) {
			kill(pid, SIGKILL);
			while (waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
				;
			return -ETIMEDOUT;
		}
		nanosleep(&pause, NULL);
	}
}

int secret_from_command(const char *name, char *const *argv, struct secret *ret,
			struct cove_error *err)
{
	int64_t until = now() + COMMAND_MS;
	int p[2], status = 0, r, ended;
	size_t n = 0;
	char *value;
	pid_t pid;

	(void)name;
	if (pipe2(p, O_CLOEXEC) < 0)
		return fail(err, COVE_EIO, errno, "pipe");
	cleanup_fd int in = p[0];
	cleanup_fd int out = p[1];
	if (spawn_command(argv, out, &pid, err) < 0)
		return err->code;
	close_fd(&out);
	value = secret_alloc(SECRET_SOURCE_MAX);
	r = value ? read_whole(in, until, value, &n) : -ENOMEM;
	close_fd(&in);
	if (r < 0)
		kill(pid, SIGKILL);
	ended = wait_command(pid, until, &status);
	if (r == 0)
		r = ended;
	/* Whose output is too long may have been ended by the closed pipe. */
	if (r == 0 &&
	    (n == SECRET_SOURCE_MAX || (WIFEXITED(status) && WEXITSTATUS(status) == 0)))
		return take_value(ret, value, n, err);
	sodium_free(value);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "command %s", argv[0]);
	return fail(err, COVE_EIO, 0, "command %s failed (%s %d)", argv[0],
		    WIFEXITED(status) ? "exit code" : "signal",
		    WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}
