/* SPDX-License-Identifier: Apache-2.0 */
#include "os/program.h"

#include "base/util.h"

#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>

/* The file that holds this code: the program itself, or libcove.so. */
static int find_self(struct dl_phdr_info *info, size_t size, void *arg)
{
	char *out = arg;
	uintptr_t here = (uintptr_t)&find_self;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + p->p_vaddr;

		if (p->p_type != PT_LOAD || here < start || here >= start + p->p_memsz)
			continue;
		if (info->dlpi_name && info->dlpi_name[0])
			snprintf(out, PATH_MAX, "%s", info->dlpi_name);
		return 1;
	}
	return 0;
}

static bool try_file(char *out, const char *dir, const char *name)
{
	return snprintf(out, PATH_MAX, "%s/%s", dir, name) < PATH_MAX &&
	       access(out, X_OK) == 0;
}

static bool beside(char *out, char *program, const char *name)
{
	char *slash = strrchr(program, '/');
	char dir[PATH_MAX + 32];

	if (!slash)
		return false;
	*slash = '\0';
	if (try_file(out, program, name))
		return true;
	snprintf(dir, sizeof(dir), "%s/../libexec/cove", program);
	return try_file(out, dir, name);
}

const char *program_find(char cache[PATH_MAX], const char *name, const char *env,
			 struct cove_error *err)
{
	const char *named = getenv(env);
	char program[PATH_MAX];
	ssize_t n;

	if (cache[0])
		return cache;
	if (named && *named) {
		snprintf(cache, PATH_MAX, "%s", named);
		return cache;
	}
	n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	if (n > 0) {
		program[n] = '\0';
		if (beside(cache, program, name))
			return cache;
	}
	program[0] = '\0';
	dl_iterate_phdr(find_self, program);
	if (program[0] && beside(cache, program, name))
		return cache;
	if (try_file(cache, COVE_LIBEXEC, name))
		return cache;
	cache[0] = '\0';
	fail(err, COVE_EUNSUPPORTED, 0, "%s: not found", name);
	hint(err, "install cove completely, or set %s to its path", env);
	return NULL;
}

static int spawn_with(const char *file, const char *const *argv,
		      const int fds[PROGRAM_FDS], pid_t *ret)
{
	char *env[] = {NULL};
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t at;
	sigset_t none, all;
	int r;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&fa);
	for (int i = 0; i < PROGRAM_FDS; i++)
		if (fds[i] >= 0)
			posix_spawn_file_actions_adddup2(&fa, fds[i], i);
		else
			posix_spawn_file_actions_addopen(&fa, i, "/dev/null", O_RDWR, 0);
	posix_spawnattr_init(&at);
	posix_spawnattr_setsigmask(&at, &none);
	posix_spawnattr_setsigdefault(&at, &all);
	posix_spawnattr_setpgroup(&at, 0);
	posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
					      POSIX_SPAWN_SETPGROUP);
	/* which only reads them, but says so for the pointers alone */
	r = posix_spawn(ret, file, &fa, &at, (char *const *)(uintptr_t)argv, env);
	posix_spawn_file_actions_destroy(&fa);
	posix_spawnattr_destroy(&at);
	return -r;
}

int program_spawn_args(const char *file, const char *const *argv,
		       const int fds[PROGRAM_FDS], pid_t *ret)
{
	int high[PROGRAM_FDS], r = 0;

	/* Above the numbers that are rearranged: no dup2() may hit another one's source,
	 * or itself, which would keep close-on-exec. */
	for (int i = 0; i < PROGRAM_FDS; i++) {
		high[i] = fds[i] < 0 ? -1 : fcntl(fds[i], F_DUPFD_CLOEXEC, PROGRAM_FDS);
		if (fds[i] >= 0 && high[i] < 0)
			r = -errno;
	}
	if (r == 0)
		r = spawn_with(file, argv, high, ret);
	for (int i = 0; i < PROGRAM_FDS; i++)
		close_fd(&high[i]);
	return r;
}

int program_spawn(const char *file, const char *name, const int fds[PROGRAM_FDS],
		  pid_t *ret)
{
	return program_spawn_args(file, (const char *const[]){name, NULL}, fds, ret);
}
