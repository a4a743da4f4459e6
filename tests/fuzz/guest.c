/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes to the guest's dispatcher, behind a good HELLO. The guest is compiled in
 * here, with what would touch the machine replaced: programs are `cat` and `true` or
 * fail, files are created in memory only, nothing is connected to. Properties: no crash,
 * no hang, no leak of memory or descriptors, and what the guest answers is always
 * well-formed and within credit.
 */
#include "fuzz.h"

#include "base/io.h"
#include "guest/file.h"
#include "guest/guest.h"
#include "guest/machine.h"
#include "guest/request.h"
#include "guest/spawn.h"

#include <fcntl.h>
#include <linux/random.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>

/* No machine: what only one can do is refused as such. */
const char *machine_setup(const struct request *r)
{
	(void)r;
	errno = ENODEV;
	return "this is no machine";
}

int on_quiesce(struct guest *g, const struct wire_frame *f)
{
	(void)f;
	return violation(g, "this is no machine");
}

int on_resume(struct guest *g, const struct wire_frame *f)
{
	(void)f;
	return violation(g, "this is no machine");
}

static int fuzz_refuse(int sys)
{
	errno = sys;
	return -1;
}

static int fuzz_execve(const char *file, char **argv, char **envp)
{
	char *cat[] = {argv[0], NULL};

	if (strcmp(file, "/bin/cat") == 0 || strcmp(file, "/bin/true") == 0)
		return execve(file, cat, envp);
	if (file[0] == 'x')
		_exit(file[1]);
	return fuzz_refuse(file[0] == 'a' ? EACCES : ENOENT);
}

static int fuzz_open(const char *path, int flags, ...)
{
	static const char *const may[] = {"/dev/ptmx", "/etc/passwd", "/proc/self/status",
					  "/"};

	if (flags & O_CREAT)
		return memfd_create("fuzz", MFD_CLOEXEC);
	for (size_t i = 0; i < ARRAY_LEN(may); i++)
		if (strcmp(path, may[i]) == 0)
			return open(path, flags);
	return fuzz_refuse(ENOENT);
}

static int fuzz_name_op(const char *path, uint64_t unused)
{
	(void)unused;
	return strlen(path) % 2 ? 0 : fuzz_refuse(EEXIST);
}

/* Every other connection is to a socket that nobody serves. */
static int fuzz_connect(int fd, const struct sockaddr *a, socklen_t n)
{
	int sv[2];

	(void)n;
	if (a->sa_family != AF_UNIX)
		return fuzz_refuse(ECONNREFUSED);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) < 0)
		return -1;
	dup3(sv[0], fd, O_CLOEXEC);
	close(sv[0]);
	if (write(sv[1], "hi", 2) != 2)
		abort();
	close(sv[1]);
	return 0;
}

#define execve(file, argv, envp) fuzz_execve(file, argv, envp)
#define open(...) fuzz_open(__VA_ARGS__)
#define connect(fd, a, n) fuzz_connect(fd, a, n)
#define rename(from, to) fuzz_name_op(to, 0)
#define symlink(target, path) fuzz_name_op(path, 0)
#define mkdir(path, mode) fuzz_name_op(path, mode)
#define unlink(path) fuzz_name_op(path, 0)
#define rmdir(path) fuzz_name_op(path, 0)
#define chmod(path, mode) fuzz_name_op(path, mode)
#define mkdir_p(path, mode) fuzz_name_op(path, mode)
#define sethostname(name, n) fuzz_refuse(EPERM)
#define clock_settime(clock, t) fuzz_refuse((t)->tv_nsec < 0 ? EINVAL : EPERM)

#include "guest/dispatch.c"
#include "guest/exec.c"
#include "guest/file.c"
#include "guest/flow.c"
#include "guest/info.c"
#include "guest/loop.c"
#include "guest/port.c"
#include "guest/proc.c"
#include "guest/request.c"
#include "guest/setup.c"
#include "guest/spawn.c"
#include "guest/stream.c"
#include "guest/write.c"

#define SEND_MAX (96u * 1024)
#define TURNS 12

static int open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

/* What the guest said: well-formed, from a server, and never more than the window and
 * what the input granted (which cannot be more than what it holds, so only an upper
 * bound). */
static void take_answers(struct link *l)
{
	struct wire_frame f;
	int r;

	while (link_fill(l) == 1) {
		while ((r = link_next(l, &f)) == 1)
			if (f.type == WIRE_EXEC || f.type == WIRE_SIGNAL ||
			    f.type == WIRE_SETUP)
				abort();
		if (r < 0)
			abort();
	}
}

static void run_guest(int fd, int peer)
{
	struct guest g;
	struct link l;

	link_init(&l, peer, peer);
	if (guest_open(&g, fd, fd, false) < 0)
		abort();
	for (int i = 0; i < TURNS; i++) {
		guest_child_ended = 1;
		if (guest_turn(&g, i < TURNS - 2 || !g.streams ? 0 : 1) < 0)
			break;
		take_answers(&l);
	}
	if (g.bye)
		send_frame(&g, WIRE_BYE, 0, 0, g.bye, strlen(g.bye));
	link_flush(&g.link);
	take_answers(&l);
	guest_close(&g);
	link_clear(&l);
}

static void prepare_once(void)
{
	static bool done;
	sigset_t set;

	if (done)
		return;
	done = true;
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t hello[WIRE_HEADER + 16] = {0};
	int sv[2], before, room = 256 * 1024;

	if (size > SEND_MAX)
		return 0;
	prepare_once();
	before = open_fds();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv) < 0)
		abort();
	setsockopt(sv[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	wire_put_header(hello, WIRE_HELLO, 0, 0, 16);
	wire_set32(hello + WIRE_HEADER, WIRE_MAGIC);
	wire_set32(hello + WIRE_HEADER + 4, WIRE_VERSION);
	if (write(sv[1], hello, sizeof(hello)) != (ssize_t)sizeof(hello))
		abort();
	if (size && write(sv[1], data, size) != (ssize_t)size)
		abort();
	run_guest(sv[0], sv[1]);
	close(sv[0]);
	close(sv[1]);
	if (open_fds() != before)
		abort();
	return 0;
}
