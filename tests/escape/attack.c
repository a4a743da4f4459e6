/* SPDX-License-Identifier: Apache-2.0 */
/* attack - main program: finds the attack in the tables, runs it in a child, reports. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STATUS_REFUSED 1
#define STATUS_KILLED_BY_FILTER 31
#define STATUS_KILLED 32

int worked(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	printf("WORKED: ");
	vprintf(fmt, ap);
	printf("\n");
	va_end(ap);
	return 0;
}

int refused(const char *fmt, ...)
{
	int saved = errno;
	va_list ap;

	va_start(ap, fmt);
	printf("refused: ");
	vprintf(fmt, ap);
	printf(": %s\n", strerror(saved));
	va_end(ap);
	return STATUS_REFUSED;
}

int judge(long rc, const char *what)
{
	return rc < 0 ? refused("%s", what) : worked("%s", what);
}

int judge_reach(long rc, const char *what)
{
	if (rc < 0 && (errno == EPERM || errno == EACCES || errno == ENOSYS))
		return refused("%s", what);
	return worked("%s: answered %s", what, rc < 0 ? strerror(errno) : "success");
}

int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));
	int saved = errno;

	if (fd >= 0)
		close(fd);
	errno = saved;
	return n < 0 ? -1 : 0;
}

int read_some(const char *path, char *out, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);
	int saved = errno;

	if (fd >= 0)
		close(fd);
	errno = saved;
	out[n > 0 ? n : 0] = '\0';
	return (int)n;
}

static const struct attack *find(const char *name)
{
	static const struct attack *const tables[] = {
		fs_attacks,   kernel_attacks, mount_attacks, net_attacks,
		proc_attacks, tty_attacks,    hog_attacks,   machine_attacks};

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (const struct attack *a = tables[i]; a->name; a++)
			if (strcmp(a->name, name) == 0)
				return a;
	return NULL;
}

int main(int argc, char **argv)
{
	const struct attack *a = argc > 1 ? find(argv[1]) : NULL;
	int status;
	pid_t pid;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!a || argc - 2 < a->args) {
		fprintf(stderr, "attack: no such attack, or arguments missing\n");
		return ATTACK_USAGE;
	}
	pid = fork();
	if (pid == 0)
		_exit(a->run(argv + 2));
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return ATTACK_USAGE;
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	printf("refused: killed by signal %d\n", WTERMSIG(status));
	return WTERMSIG(status) == SIGSYS ? STATUS_KILLED_BY_FILTER : STATUS_KILLED;
}
