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
 *
 * /dev/kvm is not even in QEMU's root: it gets the descriptor that the backend opened.
 * Its own id may be one that the device's mode keeps out (root's sandboxes run as nobody
 * in no group). A machine whose memory file is its own is asked for that reason alone;
 * its other opens go on as they are.
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

static const struct {
	const char *path;
	int flags;
	uint32_t number; /* that it gets; 0: any */
} files[] = {
	{"/vm/ram",   O_RDONLY, VMM_MEMORY_FD},
	{"/dev/null", O_RDWR,   0            },
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

int vmm_open_watch(struct vmm_open *o)
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

	if (!o->shared && o->kvm < 0)
		return 0;
	o->listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				   SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
	return o->listener < 0 ? -1 : 0;
}

/* Our own descriptor of the file that is meant, or -1. */
static int open_known(const struct vmm_open *o, const struct seccomp_notif *n,
		      uint32_t *ret_number)
{
	uint64_t at = n->data.nr == SYS_openat ? n->data.args[1] : n->data.args[0];
	char path[64] = "";
	struct iovec local = {path, sizeof(path) - 1};
	struct iovec remote = {(void *)(uintptr_t)at, sizeof(path) - 1};

	if (process_vm_readv((pid_t)n->pid, &local, 1, &remote, 1, 0) <= 0)
		return -1;
	if (strcmp(path, "/dev/kvm") == 0)
		return o->kvm < 0 ? -1 : fcntl(o->kvm, F_DUPFD_CLOEXEC, 0);
	for (size_t i = 0; o->shared && i < ARRAY_LEN(files); i++)
		if (strcmp(path, files[i].path) == 0) {
			*ret_number = files[i].number;
			if (files[i].number == VMM_MEMORY_FD && o->ram >= 0)
				return fcntl(o->ram, F_DUPFD_CLOEXEC, 0);
			return open(path, files[i].flags | O_CLOEXEC);
		}
	return -1;
}

void vmm_open_answer(const struct vmm_open *o)
{
	struct seccomp_notif n = {0};
	struct seccomp_notif_resp answer = {0};
	cleanup_fd int fd = -1;
	uint32_t number = 0;

	if (ioctl(o->listener, SECCOMP_IOCTL_NOTIF_RECV, &n) < 0)
		return;
	fd = open_known(o, &n, &number);
	if (fd >= 0) {
		struct seccomp_notif_addfd give = {
			.id = n.id,
			.flags = SECCOMP_ADDFD_FLAG_SEND |
				 (number ? SECCOMP_ADDFD_FLAG_SETFD : 0),
			.srcfd = (uint32_t)fd,
			.newfd = number,
			.newfd_flags = O_CLOEXEC,
		};

		if (ioctl(o->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &give) >= 0)
			return;
	}
	answer.id = n.id;
	if (o->shared || fd >= 0)
		answer.error = -EACCES;
	else
		answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	ioctl(o->listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}
