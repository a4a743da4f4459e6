/* SPDX-License-Identifier: Apache-2.0 */
/* attack_kernel - system calls that open kernel code no sandboxed program needs. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <linux/reboot.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

/* Calls whose arguments are wrong on purpose: nothing happens even where they are
 * allowed. */
static const struct probe {
	const char *name;
	long nr, arg[6];
} probes[] = {
	{"keyctl",            SYS_keyctl,            {KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1} },
	{"add-key",           SYS_add_key,           {0}					       },
	{"request-key",       SYS_request_key,       {0}					       },
	{"kexec-load",        SYS_kexec_load,        {0, 99999, 0, 0}                                  },
	{"kexec-file-load",   SYS_kexec_file_load,   {-1, -1, 0, 0, -1}                                },
	{"init-module",       SYS_init_module,       {0}					       },
	{"finit-module",      SYS_finit_module,      {-1}                                              },
	{"delete-module",     SYS_delete_module,     {0}                                               },
	{"reboot",            SYS_reboot,            {LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, 0x7e57}},
	{"swapon",            SYS_swapon,            {0}					       },
	{"swapoff",           SYS_swapoff,           {0}					       },
	{"quotactl",          SYS_quotactl,          {-1}					      },
	{"acct",              SYS_acct,              {1}					       },
	{"fanotify",          SYS_fanotify_init,     {-1}					      },
	{"handle-open",       SYS_open_by_handle_at, {-1, 0, 0}                                        },
	{"process-madvise",   SYS_process_madvise,   {-1}                                              },
	{"move-pages",        SYS_move_pages,        {1, 0, 0, 0, 0, 99}                               },
	{"migrate-pages",     SYS_migrate_pages,     {1, 1 << 30}                                      },
	{"io-uring-enter",    SYS_io_uring_enter,    {-1, 1, 1, 0, 0}                                  },
	{"io-uring-register", SYS_io_uring_register, {-1, 0, 0, 0}                                     },
#if defined(__x86_64__)
	{"iopl",              SYS_iopl,              {3}					       },
	{"ioperm",            SYS_ioperm,            {0x80, 1, 1}                                      },
	{"modify-ldt",        SYS_modify_ldt,        {0x11, 0, 0}                                      },
#endif
	{NULL,		0,		     {0}					       },
};

/* reach NAME: any call of the table. */
static int reach(char **arg)
{
	for (const struct probe *p = probes; p->name; p++)
		if (strcmp(p->name, arg[0]) == 0)
			return judge_reach(syscall(p->nr, p->arg[0], p->arg[1], p->arg[2],
						   p->arg[3], p->arg[4], p->arg[5]),
					   p->name);
	return ATTACK_USAGE;
}

static int names(char **arg)
{
	(void)arg;
	for (const struct probe *p = probes; p->name; p++)
		puts(p->name);
	return 0;
}

static int bpf_map(char **arg)
{
	union bpf_attr a = {.map_type = BPF_MAP_TYPE_ARRAY,
			    .key_size = 4,
			    .value_size = 4,
			    .max_entries = 1};

	(void)arg;
	return judge(syscall(SYS_bpf, BPF_MAP_CREATE, &a, sizeof(a)), "bpf map");
}

static int bpf_prog(char **arg)
{
	struct bpf_insn code[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K},
				  {.code = BPF_JMP | BPF_EXIT}};
	union bpf_attr a = {.prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
			    .insns = (uintptr_t)code,
			    .insn_cnt = 2,
			    .license = (uintptr_t) "GPL"};

	(void)arg;
	return judge(syscall(SYS_bpf, BPF_PROG_LOAD, &a, sizeof(a)), "bpf program");
}

static int perf(char **arg)
{
	struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE,
				    .size = sizeof(a),
				    .config = PERF_COUNT_SW_CPU_CLOCK,
				    .exclude_kernel = 1,
				    .exclude_hv = 1};

	(void)arg;
	return judge(syscall(SYS_perf_event_open, &a, 0, -1, -1, 0), "perf_event_open");
}

static int io_uring(char **arg)
{
	uint32_t params[30] = {0};

	(void)arg;
	return judge(syscall(SYS_io_uring_setup, 4, params), "io_uring_setup");
}

static int user_fault(char **arg)
{
	int fd;

	(void)arg;
	if (syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */) >= 0)
		return worked("userfaultfd, user mode");
	if (syscall(SYS_userfaultfd, O_CLOEXEC) >= 0)
		return worked("userfaultfd");
	fd = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	return judge(fd < 0 ? -1 : ioctl(fd, 0xaa00, 0), "userfaultfd");
}

static int kernel_log(char **arg)
{
	char text[64];

	(void)arg;
	return judge(klogctl(3, text, sizeof(text)), "read the kernel's log");
}

/* Sets the time to what it is: a success would be seen, a change not. */
static int set_time(char **arg)
{
	struct timex tx = {.modes = ADJ_TICK, .tick = 10000};
	struct timespec now;
	struct timeval tv;

	(void)arg;
	clock_gettime(CLOCK_REALTIME, &now);
	if (clock_settime(CLOCK_REALTIME, &now) == 0)
		return worked("clock_settime");
	gettimeofday(&tv, NULL);
	if (settimeofday(&tv, NULL) == 0)
		return worked("settimeofday");
	return judge(adjtimex(&tx), "set the time");
}

static int set_hostname(char **arg)
{
	return judge(sethostname(arg[0], strlen(arg[0])), "sethostname");
}

/* raise-limit: a hard limit goes up only with a privilege. */
static int raise_limit(char **arg)
{
	struct rlimit r, more;

	(void)arg;
	if (getrlimit(RLIMIT_CORE, &r) < 0)
		return refused("getrlimit");
	more = (struct rlimit){r.rlim_cur, RLIM_INFINITY};
	if (r.rlim_max == RLIM_INFINITY)
		return worked("core files are unlimited");
	return judge(setrlimit(RLIMIT_CORE, &more), "raise a hard limit");
}

#if defined(__x86_64__)
/* The 32-bit entry: a second table of system calls, with other numbers. */
static int int80(char **arg)
{
	long rc;

	(void)arg;
	__asm__ volatile("int $0x80" : "=a"(rc) : "a"(20 /* getpid */) : "memory", "cc");
	errno = ENOSYS;
	return judge(rc > 0 ? 0 : -1, "i386 system call");
}

/* x32 numbers: bit 30 set. */
static int x32(char **arg)
{
	(void)arg;
	return judge(syscall(0x40000000 | SYS_getpid), "x32 system call");
}
#else
static int x32(char **arg)
{
	(void)arg;
	errno = ENOSYS;
	return refused("not this architecture");
}
static int int80(char **arg)
{
	return x32(arg);
}
#endif

const struct attack kernel_attacks[] = {
	{"reach",        1, reach       },
	{"reach-names",  0, names       },
	{"bpf-map",      0, bpf_map     },
	{"bpf-prog",     0, bpf_prog    },
	{"perf",         0, perf        },
	{"io-uring",     0, io_uring    },
	{"userfaultfd",  0, user_fault  },
	{"kernel-log",   0, kernel_log  },
	{"set-time",     0, set_time    },
	{"set-hostname", 1, set_hostname},
	{"raise-limit",  0, raise_limit },
	{"int80",        0, int80       },
	{"x32",          0, x32         },
	{NULL,           0, NULL        },
};
