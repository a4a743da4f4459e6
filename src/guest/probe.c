/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe - `cove-guest --probe`, run inside a sandbox: tries what must be refused there
 * and prints a line for each, "NAME=refused ERRNO" or "NAME=ALLOWED". The exit status is
 * 0 only if everything was refused. Evidence by trying, not by reading what a kernel says
 * it has.
 */
#include "guest/guest.h"

#include "base/util.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#ifndef AF_ALG
#define AF_ALG 38
#endif
#ifndef AF_VSOCK
#define AF_VSOCK 40
#endif

/* Each returns 0 if it was allowed, or the errno that refused it. */

static int result(long r)
{
	if (r < 0)
		return errno;
	if (r > 2)
		close((int)r);
	return 0;
}

/* What changes the process itself is tried in a child. */
static int in_child(int (*try)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(try());
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EPERM; /* killed: refused */
}

static int do_unshare(void)
{
	return result(unshare(CLONE_NEWUSER));
}

static int try_userns(void)
{
	return in_child(do_unshare);
}

/* A file system that does not exist: whoever may mount is told so, others are refused
 * before. Nothing is ever mounted, wherever this runs. */
static int try_mount(void)
{
	if (mount("none", "/", "cove-no-such-fs", 0, NULL) < 0 && errno != ENODEV)
		return errno;
	return 0;
}

/* The right to read init is checked before the address, which is not valid. */
static int try_ptrace(void)
{
	char byte;
	struct iovec here = {&byte, 1}, there = {NULL, 1};

	if (syscall(SYS_process_vm_readv, 1, &here, 1L, &there, 1L, 0L) < 0 &&
	    errno != EFAULT)
		return errno;
	return 0;
}

static int try_bpf(void)
{
	uint32_t array[16] = {2, 4, 4, 1}; /* type, bytes of a key, of a value, entries */

	return result(syscall(SYS_bpf, 0 /* MAP_CREATE */, array, sizeof(array)));
}

static int try_keyctl(void)
{
	return syscall(SYS_keyctl, 0 /* GET_KEYRING_ID */, -3L, 0L, 0L, 0L) < 0 ? errno
										: 0;
}

static int try_io_uring(void)
{
	char params[120] = {0};

	return result(syscall(SYS_io_uring_setup, 1, params));
}

static int try_perf(void)
{
	uint32_t attr[32] = {1 /* software */, 128};

	attr[2] = 0; /* cpu clock */
	return result(syscall(SYS_perf_event_open, attr, 0L, -1L, -1L, 0L));
}

static int try_userfaultfd(void)
{
	return result(syscall(SYS_userfaultfd, O_CLOEXEC));
}

static int try_alg(void)
{
	return result(socket(AF_ALG, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
}

static int try_vsock(void)
{
	return result(socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

static int try_packet(void)
{
	return result(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
}

static int try_raw(void)
{
	return result(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP));
}

/* Refused means at once: an answer that has to be waited for is a way out. */
static int try_connect(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(80)};
	cleanup_fd int fd =
		socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	a.sin_addr.s_addr = htonl(0xc0000201); /* 192.0.2.1, reserved for documentation */
	if (fd < 0)
		return errno;
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0 || errno == EINPROGRESS)
		return 0;
	return errno;
}

static int try_init_memory(void)
{
	return result(open("/proc/1/mem", O_RDONLY | O_CLOEXEC));
}

static int has_capabilities(void)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2] = {0};

	if (syscall(SYS_capget, &h, d) < 0)
		return 0;
	return d[0].effective | d[0].permitted | d[0].inheritable | d[1].effective |
			       d[1].permitted | d[1].inheritable
		       ? 0
		       : EPERM;
}

static int may_gain_privileges(void)
{
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? EPERM : 0;
}

static int has_no_filter(void)
{
	char text[8192];
	cleanup_fd int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	return strstr(text, "\nSeccomp:\t2") ? EPERM : 0;
}

static int do_tiocsti(void)
{
	int unlock = 0, fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), tty;

	if (fd < 0)
		return errno;
	ioctl(fd, TIOCSPTLCK, &unlock);
	tty = ioctl(fd, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (tty < 0)
		return errno;
	setsid(); /* on a terminal of one's own it would be allowed first of all */
	ioctl(tty, TIOCSCTTY, 0);
	return result(ioctl(tty, TIOCSTI, "x"));
}

static int try_tiocsti(void)
{
	return in_child(do_tiocsti);
}

static const struct {
	const char *name;
	int (*try)(void);
} probes[] = {
	{"userns",            try_userns         },
	{"mount",             try_mount          },
	{"ptrace-init",       try_ptrace         },
	{"bpf",               try_bpf            },
	{"keyctl",            try_keyctl         },
	{"io_uring",          try_io_uring       },
	{"perf_event",        try_perf           },
	{"userfaultfd",       try_userfaultfd    },
	{"socket-alg",        try_alg            },
	{"socket-vsock",      try_vsock          },
	{"socket-packet",     try_packet         },
	{"socket-raw",        try_raw            },
	{"connect-out",       try_connect        },
	{"init-memory",       try_init_memory    },
	{"capabilities",      has_capabilities   },
	{"new-privileges",    may_gain_privileges},
	{"no-seccomp-filter", has_no_filter      },
	{"tiocsti",           try_tiocsti        },
};

int probe_main(void)
{
	int allowed = 0;

	for (size_t i = 0; i < ARRAY_LEN(probes); i++) {
		int err = probes[i].try();

		allowed += err == 0;
		if (err)
			printf("%s=refused %d\n", probes[i].name, err);
		else
			printf("%s=ALLOWED\n", probes[i].name);
	}
	return allowed != 0;
}
