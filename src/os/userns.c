/* SPDX-License-Identifier: Apache-2.0 */
#include "os/userns.h"

#include "base/util.h"
#include "os/raw.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

static int write_map(pid_t pid, const char *which, uint32_t in, uint32_t out)
{
	char path[64], line[64];
	int n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, which);
	n = snprintf(line, sizeof(line), "%u %u 1\n", in, out);
	cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return write(fd, line, (size_t)n) == n ? 0 : -errno;
}

int userns_write_maps(pid_t pid, uid_t uid, uid_t host_uid, gid_t gid, gid_t host_gid)
{
	int r = write_map(pid, "gid_map", gid, host_gid);

	return r < 0 ? r : write_map(pid, "uid_map", uid, host_uid);
}

/* Holds the namespace open until the parent has opened it, then is killed. */
static int holder(void *unused)
{
	(void)unused;
	for (;;)
		raw4(SYS_ppoll, 0, 0, 0, 0);
	return 0;
}

int userns_open(uid_t uid, uid_t host_uid, gid_t gid, gid_t host_gid)
{
	enum { STACK = 16384 };
	char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	char path[64];
	pid_t pid;
	int r;

	if (stack == MAP_FAILED)
		return -errno;
	/* No exit signal: the caller's SIGCHLD handling never hears of it. */
	pid = clone(holder, stack + STACK, CLONE_VM | CLONE_NEWUSER, NULL);
	if (pid < 0) {
		r = -errno;
		munmap(stack, STACK);
		return r;
	}
	r = userns_write_maps(pid, uid, host_uid, gid, host_gid);
	if (r == 0) {
		snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
		r = open(path, O_RDONLY | O_CLOEXEC);
		if (r < 0)
			r = -errno;
	}
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		;
	munmap(stack, STACK);
	return r;
}

bool have_sys_admin(void)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2] = {{0}};

	if (syscall(SYS_capget, &h, d) < 0)
		return false;
	return (d[0].effective & (1u << CAP_SYS_ADMIN)) &&
	       (d[0].effective & (1u << CAP_SETUID)) &&
	       (d[0].effective & (1u << CAP_SETGID));
}
