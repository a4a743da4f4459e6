/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's filter, three ways: interpreted here for every call number against the
 * policy file (read by a second, simpler parser) and against tables of what must never
 * change; then installed for real in a child.
 */
#include "os/seccomp.h"

#include "base/util.h"
#include "tap.h"

#include <linux/audit.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifdef __x86_64__
#define ARCH AUDIT_ARCH_X86_64
#else
#define ARCH AUDIT_ARCH_AARCH64
#endif
#define ALLOW SECCOMP_RET_ALLOW
#define KILL SECCOMP_RET_KILL_PROCESS
#define ERR(e) (SECCOMP_RET_ERRNO | (uint32_t)(e))
#define BROKEN 0xdeadbeefu /* the program ran off its end or did something unknown */

static uint32_t jump(const struct sock_filter *f, uint32_t a, size_t pc)
{
	int yes;

	switch (BPF_OP(f->code)) {
	case BPF_JA:
		return (uint32_t)pc + f->k;
	case BPF_JEQ:
		yes = a == f->k;
		break;
	case BPF_JGE:
		yes = a >= f->k;
		break;
	default:
		return UINT32_MAX;
	}
	return (uint32_t)pc + (yes ? f->jt : f->jf);
}

/* Runs the program on d as the kernel would. */
static uint32_t simulate(const struct sock_fprog *p, const struct seccomp_data *d)
{
	uint32_t a = 0;

	for (size_t pc = 0; pc < p->len; pc++) {
		const struct sock_filter *f = &p->filter[pc];

		switch (f->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			if (f->k > sizeof(*d) - 4 || f->k % 4)
				return BROKEN;
			memcpy(&a, (const char *)d + f->k, 4);
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= f->k;
			break;
		case BPF_RET | BPF_K:
			return f->k;
		default:
			if (BPF_CLASS(f->code) != BPF_JMP)
				return BROKEN;
			pc = jump(f, a, pc);
		}
	}
	return BROKEN;
}

static uint32_t answer(uint32_t nr, uint64_t a0, uint64_t a1, uint64_t a2)
{
	struct seccomp_data d = {
		.nr = (int)nr, .arch = ARCH, .args = {a0, a1, a2}
        };

	return simulate(seccomp_guest_program(), &d);
}

/* ---- every number, against the policy file
 * ------------------------------------------------ */

enum { N = 600, FROM_ARGS = 1 }; /* FROM_ARGS: no single answer, see the table below */

static uint32_t word_to_action(const char *w)
{
	static const struct {
		const char *word;
		uint32_t action;
	} words[] = {
		{"allow",           ALLOW               },
		{"EPERM",           ERR(EPERM)          },
		{"ENOSYS",          ERR(ENOSYS)         },
		{"EAFNOSUPPORT",    ERR(EAFNOSUPPORT)   },
		{"EPROTONOSUPPORT", ERR(EPROTONOSUPPORT)},
	};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcmp(words[i].word, w) == 0)
			return words[i].action;
	return BROKEN;
}

static void expect_line(char *line, uint32_t *want)
{
	char *save, *w = strtok_r(line, " \n", &save);
	const char *first = w;
	int conditional = strstr(save ? save : "", " if ") != NULL;

	if (!w || *w == '#' || strcmp(w, "default") == 0)
		return;
	if (strcmp(w, "number") == 0) /* too new for libseccomp: found by number */
		return;
	while ((w = strtok_r(NULL, " \n", &save)) && strcmp(w, "if") != 0) {
		int nr = seccomp_syscall_resolve_name_arch(SCMP_ARCH_NATIVE, w);

		if (nr < 0 || nr >= N)
			continue;
		if (conditional || want[nr] == FROM_ARGS)
			want[nr] = FROM_ARGS;
		else
			want[nr] = word_to_action(first);
	}
}

static void every_number_follows_the_policy_file(void)
{
	static const struct {
		int nr;
		uint32_t want;
	} newer[] = {
		{451, ALLOW     },
                {452, ALLOW     },
                {453, ALLOW     },
                {454, ALLOW     },
                {455, ALLOW     },
		{456, ALLOW     },
                {462, ALLOW     },
                {463, ALLOW     },
                {464, ALLOW     },
                {465, ALLOW     },
		{466, ALLOW     },
                {467, ERR(EPERM)},
                {468, ALLOW     },
                {469, ALLOW     },
	};
	static uint32_t want[N];
	char line[1024];
	int wrong = 0, allowed = 0;
	FILE *f = fopen("src/os/guest.seccomp", "re");

	if (!f) {
		SKIP("not started in the source tree: no policy file to compare with");
		return;
	}
	for (int i = 0; i < N; i++)
		want[i] = ERR(ENOSYS);
	for (size_t i = 0; i < ARRAY_LEN(newer); i++)
		want[newer[i].nr] = newer[i].want;
	while (fgets(line, sizeof(line), f))
		expect_line(line, want);
	fclose(f);
	for (uint32_t i = 0; i < N; i++) {
		uint32_t got = answer(i, 0, 0, 0);

		allowed += got == ALLOW;
		if (want[i] != FROM_ARGS && got != want[i]) {
			printf("# call %u: %#x, policy says %#x\n", i, got, want[i]);
			wrong++;
		}
	}
	OK(wrong == 0, "600 call numbers answer as the policy file says");
	OK(allowed > 250 && allowed < 400, "%d of them are allowed", allowed);
}

/* ---- what must never change
 * ------------------------------------------------------------------ */

static void dangerous_calls_stay_refused(void)
{
	static const struct {
		const char *name;
		uint32_t want;
	} cases[] = {
		{"mount",             ERR(EPERM) },
		{"umount2",           ERR(EPERM) },
		{"pivot_root",        ERR(EPERM) },
		{"chroot",            ERR(EPERM) },
		{"move_mount",        ERR(EPERM) },
		{"open_tree",         ERR(EPERM) },
		{"fsopen",            ERR(EPERM) },
		{"fsmount",           ERR(EPERM) },
		{"mount_setattr",     ERR(EPERM) },
		{"setns",             ERR(EPERM) },
		{"keyctl",            ERR(EPERM) },
		{"add_key",           ERR(EPERM) },
		{"request_key",       ERR(EPERM) },
		{"bpf",               ERR(EPERM) },
		{"perf_event_open",   ERR(EPERM) },
		{"userfaultfd",       ERR(EPERM) },
		{"kexec_load",        ERR(EPERM) },
		{"kexec_file_load",   ERR(EPERM) },
		{"init_module",       ERR(EPERM) },
		{"finit_module",      ERR(EPERM) },
		{"open_by_handle_at", ERR(EPERM) },
		{"fanotify_init",     ERR(EPERM) },
		{"reboot",            ERR(EPERM) },
		{"syslog",            ERR(EPERM) },
		{"clock_settime",     ERR(EPERM) },
		{"clone3",            ERR(ENOSYS)},
		{"io_uring_setup",    ERR(ENOSYS)},
		{"io_uring_enter",    ERR(ENOSYS)},
		{"io_uring_register", ERR(ENOSYS)},
		{"memfd_secret",      ERR(ENOSYS)},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int nr = seccomp_syscall_resolve_name(cases[i].name);

		OK(nr >= 0 && answer((uint32_t)nr, 0, 0, 0) == cases[i].want,
		   "%s is refused", cases[i].name);
	}
}

static void arguments_decide(void)
{
#define HIGH (1ull << 32) /* the kernel ignores the upper half of an int: so must we */
#define THREAD \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM)
	static const struct {
		const char *what;
		uint32_t nr;
		uint64_t a0, a1, a2;
		uint32_t want;
	} cases[] = {
		{"fork by clone",            SYS_clone,       SIGCHLD,                 0,               0,              ALLOW     },
		{"a thread by clone",        SYS_clone,       THREAD | CLONE_SETTLS,   0,               0,              ALLOW     },
		{"clone NEWUSER",            SYS_clone,       CLONE_NEWUSER | SIGCHLD, 0,               0,              ERR(EPERM)},
		{"clone NEWNS",              SYS_clone,       CLONE_NEWNS,             0,               0,              ERR(EPERM)},
		{"clone NEWPID",             SYS_clone,       CLONE_NEWPID,            0,               0,              ERR(EPERM)},
		{"clone NEWNET",             SYS_clone,       CLONE_NEWNET,            0,               0,              ERR(EPERM)},
		{"clone NEWIPC",             SYS_clone,       CLONE_NEWIPC,            0,               0,              ERR(EPERM)},
		{"clone NEWUTS",             SYS_clone,       CLONE_NEWUTS,            0,               0,              ERR(EPERM)},
		{"clone NEWCGROUP",          SYS_clone,       HIGH | CLONE_NEWCGROUP,  0,               0,              ERR(EPERM)},
		{"unshare FILES",            SYS_unshare,     CLONE_FILES,             0,               0,              ALLOW     },
		{"unshare NEWUSER",          SYS_unshare,     CLONE_NEWUSER,           0,               0,              ERR(EPERM)},
		{"unshare NEWTIME",          SYS_unshare,     0x80,                    0,               0,              ERR(EPERM)},
		{"unshare of bit 32",        SYS_unshare,     HIGH,                    0,               0,              ERR(EPERM)},
		{"TCGETS",                   SYS_ioctl,       0,                       TCGETS,          0,              ALLOW     },
		{"TIOCGWINSZ",               SYS_ioctl,       0,                       TIOCGWINSZ,      0,              ALLOW     },
		{"TIOCSTI",                  SYS_ioctl,       0,                       TIOCSTI,         0,              ERR(EPERM)},
		{"TIOCSTI with high bits",   SYS_ioctl,       0,                       HIGH | TIOCSTI,  0,              ERR(EPERM)},
		{"TIOCLINUX",                SYS_ioctl,       0,                       TIOCLINUX,       0,              ERR(EPERM)},
		{"TIOCSETD",                 SYS_ioctl,       0,                       HIGH | TIOCSETD, 0,              ERR(EPERM)},
		{"personality query",        SYS_personality, 0xffffffff,              0,               0,              ALLOW     },
		{"personality for gdb",      SYS_personality, 0x40000,                 0,               0,              ALLOW     },
		{"READ_IMPLIES_EXEC",        SYS_personality, 0x400000,                0,               0,              ERR(EPERM)},
		{"mknodat file",             SYS_mknodat,     0,                       0,               S_IFREG | 0600, ALLOW     },
		{"mknodat fifo",             SYS_mknodat,     0,                       0,               S_IFIFO | 0600, ALLOW     },
		{"mknodat without type",     SYS_mknodat,     0,                       0,               0600,           ALLOW     },
		{"mknodat character device", SYS_mknodat,     0,                       0,               S_IFCHR,        ERR(EPERM)},
		{"mknodat block device",     SYS_mknodat,     0,                       0,               S_IFBLK,        ERR(EPERM)},
#ifdef SYS_mknod
		{"mknod socket",             SYS_mknod,       0,                       S_IFSOCK | 0600, 0,              ALLOW     },
		{"mknod block device",       SYS_mknod,       0,                       S_IFBLK | 0600,  0,              ERR(EPERM)},
#endif
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		OK(answer(cases[i].nr, cases[i].a0, cases[i].a1, cases[i].a2) ==
			   cases[i].want,
		   "%s", cases[i].what);
}

static void sockets_by_family(void)
{
	static const struct {
		const char *what;
		uint64_t family, type, proto;
		uint32_t want;
	} cases[] = {
		{"unix",               AF_UNIX,        SOCK_SEQPACKET | SOCK_CLOEXEC, 0,                 ALLOW               },
		{"tcp",                AF_INET,        SOCK_STREAM | SOCK_NONBLOCK,   IPPROTO_TCP,       ALLOW               },
		{"tcp, high bits set", HIGH | AF_INET, HIGH | SOCK_STREAM,            HIGH,              ALLOW               },
		{"udp6",               AF_INET6,       SOCK_DGRAM | SOCK_CLOEXEC,     0,                 ALLOW               },
		{"ping",               AF_INET,        SOCK_DGRAM,                    IPPROTO_ICMP,      ALLOW               },
		{"ping6",              AF_INET6,       SOCK_DGRAM,                    IPPROTO_ICMPV6,    ALLOW               },
		{"mptcp",              AF_INET,        SOCK_STREAM,                   IPPROTO_MPTCP,     ERR(EPROTONOSUPPORT)},
		{"sctp",               AF_INET,        SOCK_STREAM,                   IPPROTO_SCTP,      ERR(EPERM)          },
		{"raw",                AF_INET,        SOCK_RAW,                      IPPROTO_ICMP,      ERR(EPERM)          },
		{"raw6",               AF_INET6,       SOCK_RAW,                      0,                 ERR(EPERM)          },
		{"netlink route",      AF_NETLINK,     SOCK_RAW,                      NETLINK_ROUTE,     ALLOW               },
		{"netlink netfilter",  AF_NETLINK,     SOCK_RAW,                      NETLINK_NETFILTER,
		 ERR(EAFNOSUPPORT)											   },
		{"netlink audit",      AF_NETLINK,     SOCK_RAW,                      NETLINK_AUDIT,     ERR(EAFNOSUPPORT)   },
		{"packet",             AF_PACKET,      SOCK_RAW,                      0,                 ERR(EAFNOSUPPORT)   },
		{"alg",                AF_ALG,         SOCK_SEQPACKET,                0,                 ERR(EAFNOSUPPORT)   },
		{"vsock",              AF_VSOCK,       SOCK_STREAM,                   0,                 ERR(EAFNOSUPPORT)   },
		{"bluetooth",          AF_BLUETOOTH,   SOCK_RAW,                      0,                 ERR(EAFNOSUPPORT)   },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		OK(answer(SYS_socket, cases[i].family, cases[i].type, cases[i].proto) ==
			   cases[i].want,
		   "socket: %s", cases[i].what);
	OK(answer(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0) == ALLOW, "socketpair: unix");
	OK(answer(SYS_socketpair, AF_TIPC, SOCK_STREAM, 0) == ERR(EAFNOSUPPORT),
	   "socketpair: tipc");
}

static void foreign_architectures_die(void)
{
	struct seccomp_data d = {.nr = SYS_read, .arch = AUDIT_ARCH_I386};

	OK(simulate(seccomp_guest_program(), &d) == KILL, "i386 is killed");
	d.arch = AUDIT_ARCH_ARM;
	OK(simulate(seccomp_guest_program(), &d) == KILL, "32-bit arm is killed");
#ifdef __x86_64__
	OK(answer(0x40000000u, 0, 0, 0) == KILL, "x32 read is killed");
	OK(answer(0x40000000u + 39, 0, 0, 0) == KILL, "x32 getpid is killed");
	OK(answer(0xfffffffeu, 0, 0, 0) == KILL, "so is any number with that bit");
	OK(answer(0xffffffffu, 0, 0, 0) == ERR(ENOSYS), "-1, a skipped call, is not");
#endif
	OK(answer(0x3fffffffu, 0, 0, 0) == ERR(ENOSYS), "a huge number does not exist");
}

static void program_is_well_formed(void)
{
	const struct sock_fprog *p = seccomp_guest_program();

	OK(p->len > 20 && p->len < 255, "%u instructions", p->len);
	OK(strlen(seccomp_guest_digest()) == 64, "digest %s", seccomp_guest_digest());
}

/* ---- for real
 * ------------------------------------------------------------------------------------ */

static int install(void)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, seccomp_guest_program()) < 0)
		return -errno;
	return 0;
}

static int try_getpid(void)
{
	return getpid() > 0 ? 0 : -EIO;
}

static int try_newuser(void)
{
	return unshare(CLONE_NEWUSER) < 0 ? -errno : 0;
}

static int try_io_uring(void)
{
	return syscall(SYS_io_uring_setup, 4, NULL) < 0 ? -errno : 0;
}

static int try_alg(void)
{
	return socket(AF_ALG, SOCK_SEQPACKET, 0) < 0 ? -errno : 0;
}

static int try_sti(void)
{
	return ioctl(0, TIOCSTI, "x") < 0 ? -errno : 0;
}

static int try_fork(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return pid < 0 ? -errno : waitpid(pid, NULL, 0) == pid ? 0 : -errno;
}

#ifdef __x86_64__
static int try_int80(void)
{
	long r;

	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory"); /* i386 getpid */
	return r > 0 ? 0 : (int)r;
}

static int try_x32(void)
{
	return (int)syscall(0x40000000 + SYS_getpid) > 0 ? 0 : -errno;
}
#endif

/* Runs fn in a child, with the filter or without: its -errno, or 1000 + the signal. */
static int in_child(int (*fn)(void), int filtered)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (filtered && install() < 0)
			_exit(255);
		_exit(-fn());
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void live(void)
{
	static const struct {
		const char *what;
		int (*fn)(void);
		int want;
	} cases[] = {
		{"getpid works",                    try_getpid,   0            },
		{"fork works",                      try_fork,     0            },
		{"unshare(CLONE_NEWUSER) is EPERM", try_newuser,  EPERM        },
		{"io_uring_setup is ENOSYS",        try_io_uring, ENOSYS       },
		{"AF_ALG is EAFNOSUPPORT",          try_alg,      EAFNOSUPPORT },
		{"TIOCSTI is EPERM",                try_sti,      EPERM        },
#ifdef __x86_64__
		{"int 0x80 kills",                  try_int80,    1000 + SIGSYS},
		{"x32 kills",                       try_x32,      1000 + SIGSYS},
#endif
	};
	int r = in_child(try_getpid, 1);

	if (r == 255) {
		SKIP("this host does not take seccomp filters");
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		r = in_child(cases[i].fn, 1);
		OK(r == cases[i].want, "live: %s (%d)", cases[i].what, r);
	}
	/* Positive control: it is the filter that says no, not the host. */
	OK(in_child(try_io_uring, 0) != ENOSYS,
	   "live: without the filter io_uring answers");
}

int main(void)
{
	program_is_well_formed();
	every_number_follows_the_policy_file();
	dangerous_calls_stay_refused();
	arguments_decide();
	sockets_by_family();
	foreign_architectures_die();
	live();
	return tap_done();
}
