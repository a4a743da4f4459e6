/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmm_open - QEMU opens nothing for writing by itself.
 *
 * It opens the memory file of a machine for reading and writing even where it only ever
 * maps a private copy; but that file is a template which other machines share, and a
 * guest that took QEMU over must not be able to write to it. So every open that is not
 * read-only stops in the kernel and is asked of us, and the answer is a descriptor that
 * we opened: of the few files below, by their own exact names, with the rights that are
 * enough. The path in QEMU's memory is only compared; what it changes into afterwards
 * does not matter.
 */
#include "roles/vmm.h"

#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int memory = -1; /* what is given out as the first of them, if there is one */

void vmm_open_memory(int fd)
{
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	memory = fd;
}

static const struct {
	const char *path;
	int flags;
} files[] = {
	{"/vm/ram",   O_RDONLY},
	{"/dev/kvm",  O_RDWR  },
	{"/dev/null", O_RDWR  },
};

#define LOAD(field) \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, (what))

int vmm_leave_to_us(void)
{
	static struct sock_filter code[] = {
		LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 5, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 4),
		LOAD(args[1]),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xff00),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SECCOMP_IOC_MAGIC << 8, 0, 1),
		RETURN(SECCOMP_RET_ERRNO | EPERM),
		RETURN(SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {ARRAY_LEN(code), code};

	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

int vmm_open_watch(void)
{
	/* Where the flags are: the third argument of openat, the second of open. What
	 * hides them behind a pointer (openat2) the list in vm/monitor.seccomp lacks. */
	static struct sock_filter code[] = {
		LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 2, 0),
#ifdef SYS_open
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_open, 3, 0),
#else
		BPF_JUMP(BPF_JMP | BPF_JA, 0, 0, 0),
#endif
		RETURN(SECCOMP_RET_ALLOW),
		LOAD(args[2]),
		BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0),
		LOAD(args[1]),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_ACCMODE, 0, 1),
		RETURN(SECCOMP_RET_USER_NOTIF),
		RETURN(SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {ARRAY_LEN(code), code};

	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			    SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

/* Our own descriptor of the file that is meant, or -1. */
static int open_known(const struct seccomp_notif *n)
{
	uint64_t at = n->data.nr == SYS_openat ? n->data.args[1] : n->data.args[0];
	char path[64] = "";
	struct iovec local = {path, sizeof(path) - 1};
	struct iovec remote = {(void *)(uintptr_t)at, sizeof(path) - 1};

	if (process_vm_readv((pid_t)n->pid, &local, 1, &remote, 1, 0) <= 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		if (strcmp(path, files[i].path) != 0)
			continue;
		else if (i == 0 && memory >= 0)
			return fcntl(memory, F_DUPFD_CLOEXEC, 0);
		else
			return open(path, files[i].flags | O_CLOEXEC);
	return -1;
}

void vmm_open_answer(int listener)
{
	struct seccomp_notif n = {0};
	struct seccomp_notif_resp no = {.error = -EACCES};
	cleanup_fd int fd = -1;

	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &n) < 0)
		return;
	fd = open_known(&n);
	if (fd >= 0) {
		struct seccomp_notif_addfd give = {
			.id = n.id,
			.flags = SECCOMP_ADDFD_FLAG_SEND,
			.srcfd = (uint32_t)fd,
			.newfd_flags = O_CLOEXEC,
		};

		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &give) >= 0)
			return;
	}
	no.id = n.id;
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &no);
}
