/* SPDX-License-Identifier: Apache-2.0 */
/* connect - reaching a sandbox's keeper, and starting one. */
#include "api/handle.h"

#include "base/io.h"
#include "base/log.h"
#include "base/util.h"
#include "core/guestfile.h"
#include "core/keeper.h"
#include "core/secret.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

int connect_keeper(struct store *st, const char *name, int *ret_fd,
		   struct cove_error *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return fail(err, COVE_EIO, errno, "socket");
	/* By descriptor: a socket's path may only have 107 bytes, a home directory more.
	 */
	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/%s/s", st->run_fd,
		 name);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		if (errno != ENOENT && errno != ECONNREFUSED)
			return fail(err, COVE_EIO, errno, "keeper of %s", name);
		fail(err, COVE_ESTATE, 0, "%s is not running", name);
		return hint(err, "'cove start %s' starts it", name);
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

/* Only what tells the keeper where its files are; nothing else of the caller's. */
static size_t keeper_env(char **env, size_t max)
{
	static const char *const names[] = {"HOME",
					    "COVE_HOME",
					    "XDG_DATA_HOME",
					    "XDG_RUNTIME_DIR",
					    "COVE_GUEST",
					    "COVE_EGRESS",
					    "COVE_RESOLVERS",
					    "COVE_QEMU",
					    "COVE_KERNEL_ARGS",
					    "COVE_VMM",
					    "COVE_FS",
					    "ASAN_OPTIONS",
					    "UBSAN_OPTIONS"};
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(names) && n + 1 < max; i++) {
		const char *v = getenv(names[i]);
		char *kv = NULL;

		if (v && asprintf(&kv, "%s=%s", names[i], v) >= 0)
			env[n++] = kv;
	}
	env[n] = NULL;
	return n;
}

/*
 * The keeper forks itself away; what we started ends at once and is ours to reap. It gets
 * descriptors 0 to 3, 4 if there are secrets, and those of an image. Ours are all
 * close-on-exec; what a host program left inheritable it closes itself, first thing:
 * there is no spawn action for that which both C libraries have.
 */
static int spawn(const char *file, const char *name, bool degraded,
		 const struct keeper_from *start, int secrets, int report,
		 struct cove_error *err)
{
	char program[] = "cove-keeper", flag[] = "--degraded", has[] = "--secrets",
	     image[] = "--image";
	char *copy = strdup(name);
	char from[2 * SPEC_NAME_MAX + 16];
	char *argv[] = {program, copy, NULL, NULL, NULL, NULL};
	size_t argc = 2;
	char *env[16];
	size_t n = keeper_env(env, ARRAY_LEN(env));
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t at;
	sigset_t none, all;
	pid_t pid;
	int r;

	if (degraded)
		argv[argc++] = flag;
	if (secrets >= 0)
		argv[argc++] = has;
	if (start && start->state) {
		snprintf(from, sizeof(from), "--state=%s", start->state);
		argv[argc++] = from;
	} else if (start) {
		argv[argc++] = image;
	}
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDWR, 0);
	posix_spawn_file_actions_adddup2(&fa, 0, 1);
	posix_spawn_file_actions_adddup2(&fa, 0, 2);
	posix_spawn_file_actions_adddup2(&fa, report, 3);
	if (secrets >= 0)
		posix_spawn_file_actions_adddup2(&fa, secrets, 4);
	for (int i = 0; start && !start->state && i < IMAGE_FDS; i++)
		posix_spawn_file_actions_adddup2(&fa, start->image[i], KEEPER_IMAGE + i);
	posix_spawnattr_init(&at);
	posix_spawnattr_setsigmask(&at, &none);
	posix_spawnattr_setsigdefault(&at, &all);
	posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
					      POSIX_SPAWN_SETSID);
	r = copy ? posix_spawn(&pid, file, &fa, &at, argv, env) : ENOMEM;
	posix_spawn_file_actions_destroy(&fa);
	posix_spawnattr_destroy(&at);
	free(copy);
	for (size_t i = 0; i < n; i++)
		free(env[i]);
	if (r)
		return fail(err, COVE_EIO, r, "start %s", file);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return 0;
}

/* Whole lines at the front that are notices: "!LEVEL text". */
static void tell_notices(struct buf *b)
{
	while (b->len && b->data[0] == '!') {
		char *nl = memchr(b->data, '\n', b->len);
		int level = LOG_WARNING, at = 0;

		if (!nl)
			return;
		*nl = '\0';
		if (sscanf(b->data, "!%d %n", &level, &at) == 1 && at)
			log_line(level, "%s", b->data + at);
		buf_consume(b, (size_t)(nl - b->data) + 1);
	}
}

/* Until the keeper has closed it; notices are told as they come. */
static int gather_report(int fd, struct buf *b)
{
	for (;;) {
		char room[1024];
		ssize_t n = read(fd, room, sizeof(room));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : buf_append(b, "", 1); /* a string */
		if (buf_append(b, room, (size_t)n) < 0)
			return -ENOBUFS;
		tell_notices(b);
	}
}

/* Notices, then "ok" or "CODE SYS\nmessage\nhint\n". */
static int read_report(int fd, const char *name, struct cove_error *err)
{
	cleanup_buf struct buf b = BUF_INIT(4096);
	int code = 0, sys = 0, at = 0, r = gather_report(fd, &b);
	char *msg, *nl, *tip;

	if (r == 0 && b.len > 0)
		b.len--;
	if (r == 0 && b.len == 2 && memcmp(b.data, "ok", 2) == 0)
		return 0;
	if (r < 0 || !b.data || sscanf(b.data, "%d %d\n%n", &code, &sys, &at) != 2 ||
	    code >= 0)
		return fail(err, COVE_EGONE, 0, "the keeper of %s ended without a word",
			    name);
	msg = b.data + at;
	nl = strchr(msg, '\n');
	tip = nl ? nl + 1 : NULL;
	if (nl)
		*nl = '\0';
	fail(err, code, 0, "%s", msg);
	err->sys = sys;
	if (tip && (nl = strchr(tip, '\n')))
		*nl = '\0';
	return tip && *tip ? hint(err, "%s", tip) : code;
}

/* adddup2 of a descriptor onto itself would leave it close-on-exec, and one that low
 * would be written over: away with it. */
static int move_up(int *fd)
{
	int high;

	if (*fd < 0 || *fd >= KEEPER_FDS)
		return 0;
	high = fcntl(*fd, F_DUPFD_CLOEXEC, KEEPER_FDS);
	if (high < 0)
		return -errno;
	close(*fd);
	*fd = high;
	return 0;
}

int spawn_keeper(struct store *st, const char *name, bool degraded,
		 const struct keeper_from *from, const struct secrets *secrets,
		 struct cove_error *err)
{
	const char *file = keeper_file(err);
	cleanup_fd int values = -1;
	int p[2];
	int r;

	(void)st;
	if (!file || (secrets && secrets_send(secrets, &values, err) < 0))
		return err->code;
	if (pipe2(p, O_CLOEXEC) < 0)
		return fail(err, COVE_EIO, errno, "pipe");
	cleanup_fd int in = p[0];
	cleanup_fd int out = p[1];
	if (move_up(&out) < 0 || move_up(&values) < 0)
		return fail(err, COVE_EIO, errno, "descriptors");
	r = spawn(file, name, degraded, from, values, out, err);
	close_fd(&out);
	if (r < 0)
		return r;
	return read_report(in, name, err);
}
