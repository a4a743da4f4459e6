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

enum { STACK = 16384 };

/* Holds the namespace open until the parent has opened it, then is killed. */
static int holder(void *unused)
{
	(void)unused;
	for (;;)
		raw4(SYS_ppoll, 0, 0, 0, 0);
	return 0;
}

int userns_open(uid_t uid, uid_t host_uid, gid_t gid, gid_t host_gid,
		struct userns_holder *h)
{
	char path[64];
	int r;

	*h = (struct userns_holder){0};
	h->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (h->stack == MAP_FAILED) {
		h->stack = NULL;
		return -ENOMEM;
	}
	/* No exit signal: the caller's SIGCHLD handling never hears of it. */
	h->pid = clone(holder, h->stack + STACK, CLONE_VM | CLONE_NEWUSER, NULL);
	if (h->pid < 0) {
		r = -errno;
		h->pid = 0;
		userns_reap(h);
		return r;
	}
	r = userns_write_maps(h->pid, uid, host_uid, gid, host_gid);
	if (r == 0) {
		snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)h->pid);
		r = open(path, O_RDONLY | O_CLOEXEC);
		if (r < 0)
			r = -errno;
	}
	kill(h->pid, SIGKILL);
	return r;
}

void userns_reap(struct userns_holder *h)
{
	while (h->pid && waitpid(h->pid, NULL, __WALL) < 0 && errno == EINTR)
		;
	if (h->stack)
		munmap(h->stack, STACK);
	*h = (struct userns_holder){0};
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
