/* SPDX-License-Identifier: Apache-2.0 */
/* inject_calls - the system calls that inject knows, and what each is about. */
#ifndef INJECT_CALLS_H
#define INJECT_CALLS_H

enum call_kind {
	CALL_OTHER,    /* changes something outside of the process, but no file */
	CALL_PURE,     /* changes nothing that outlives the process */
	CALL_FILE,     /* changes files */
	CALL_OPEN,     /* changes files if its flags say so */
	CALL_OPEN_HOW, /* the same, with flags in memory */
	CALL_IOCTL     /* changes files if it clones them */
};

struct call_arg {
	char kind; /* d: directory and path, f: file, p: path, x: number */
	int index;
};

struct call {
	long nr;
	const char *name;
	enum call_kind kind;
	int flags_arg; /* CALL_OPEN: where the flags are */
	struct call_arg args[4];
};

#define C(name, ...) \
	{ \
		SYS_##name, #name, __VA_ARGS__ \
	}
#define PURE(name) C(name, CALL_PURE, 0, {{0}})

static const struct call calls[] = {
	C(openat, CALL_OPEN, 2, {{'d', 0},  {'x', 2}}
           ),
	C(openat2, CALL_OPEN_HOW, 0, {{'d', 0}        }
           ),
	C(write, CALL_FILE, 0, {{'f', 0}, {'x', 2}}
           ),
	C(writev, CALL_FILE, 0, {{'f', 0}}
           ),
	C(pwrite64, CALL_FILE, 0, {{'f', 0},  {'x', 2}}
           ),
	C(pwritev, CALL_FILE, 0, {{'f', 0} }
           ),
	C(pwritev2, CALL_FILE, 0, {{'f', 0}        }
           ),
	C(copy_file_range, CALL_FILE, 0, {{'f', 0},        {'f', 2}}
           ),
	C(sendfile, CALL_FILE, 0, {{'f', 0}, {'f', 1}}
           ),
	C(splice, CALL_FILE, 0, {{'f', 0},{'f', 2}}
           ),
	C(renameat2, CALL_FILE, 0, {{'d', 0},  {'d', 2}, {'x', 4}}
           ),
	C(linkat, CALL_FILE, 0, {{'d', 0},         {'d', 2}}
           ),
	C(symlinkat, CALL_FILE, 0, {{'p', 0},        {'d', 1}}
           ),
	C(mkdirat, CALL_FILE, 0, {{'d', 0},  {'x', 2}}
           ),
	C(mknodat, CALL_FILE, 0, {{'d', 0}, {'x', 2}}
           ),
	C(unlinkat, CALL_FILE, 0, {{'d', 0},  {'x', 2}}
           ),
	C(fsync, CALL_FILE, 0, {{'f', 0}        }
           ),
	C(fdatasync, CALL_FILE, 0, {{'f', 0}}
           ),
	C(syncfs, CALL_FILE, 0, {{'f', 0} }
           ),
	C(sync_file_range, CALL_FILE, 0, {{'f', 0}        }
           ),
	C(ftruncate, CALL_FILE, 0, {{'f', 0}}
           ),
	C(truncate, CALL_FILE, 0, {{'p', 0} }
           ),
	C(fallocate, CALL_FILE, 0, {{'f', 0}        }
           ),
	C(fchmod, CALL_FILE, 0, {{'f', 0}, {'x', 1}}
           ),
	C(fchmodat, CALL_FILE, 0, {{'d', 0},                {'x', 2}}
           ),
	C(fchown, CALL_FILE, 0, {{'f', 0}       }
           ),
	C(fchownat, CALL_FILE, 0, {{'d', 0}}
           ),
	C(utimensat, CALL_FILE, 0, {{'d', 0}        }
           ),
	C(setxattr, CALL_FILE, 0, {{'p', 0},        {'p', 1}}
           ),
	C(lsetxattr, CALL_FILE, 0, {{'p', 0}, {'p', 1}}
           ),
	C(fsetxattr, CALL_FILE, 0, {{'f', 0}, {'p', 1}}
           ),
	C(removexattr, CALL_FILE, 0, {{'p', 0},  {'p', 1}}
           ),
	C(lremovexattr, CALL_FILE, 0, {{'p', 0},         {'p', 1}}
           ),
	C(fremovexattr, CALL_FILE, 0, {{'f', 0},  {'p', 1}}
           ),
	C(ioctl, CALL_IOCTL, 0, {{'f', 0},         {'x', 1}}
           ),
#ifdef SYS_fchmodat2
	C(fchmodat2, CALL_FILE, 0, {{'d', 0}, {'x', 2}}
           ),
#endif
#ifdef SYS_renameat
	C(renameat, CALL_FILE, 0, {{'d', 0},{'d', 2}}
           ),
#endif
#ifdef SYS_open  /* the calls of old, which newer machines do not have */
	C(open, CALL_OPEN, 1, {{'p', 0},  {'x', 1}}
           ),
	C(creat, CALL_FILE, 0, {{'p', 0}        }
           ),
	C(rename, CALL_FILE, 0, {{'p', 0}, {'p', 1}}
           ),
	C(link, CALL_FILE, 0, {{'p', 0},  {'p', 1}}
           ),
	C(symlink, CALL_FILE, 0, {{'p', 0},         {'p', 1}}
           ),
	C(mkdir, CALL_FILE, 0, {{'p', 0}}
           ),
	C(rmdir, CALL_FILE, 0, {{'p', 0} }
           ),
	C(mknod, CALL_FILE, 0, {{'p', 0}        }
           ),
	C(unlink, CALL_FILE, 0, {{'p', 0}}
           ),
	C(chmod, CALL_FILE, 0, {{'p', 0},  {'x', 1}}
           ),
	C(chown, CALL_FILE, 0, {{'p', 0}        }
           ),
	C(lchown, CALL_FILE, 0, {{'p', 0}       }
           ),
	C(vfork, CALL_OTHER, 0, {{0} }
           ),
	C(fork, CALL_OTHER, 0, {{0}        }
           ),
	PURE(access),
	PURE(stat),
	PURE(lstat),
	PURE(readlink),
	PURE(getdents),
	PURE(poll),
	PURE(select),
	PURE(pipe),
	PURE(dup2),
	PURE(arch_prctl),
	PURE(epoll_wait),
	PURE(getpgrp),
	PURE(time),
#endif
	C(execve, CALL_OTHER, 0, {{'p', 0}}
           ),
	C(clone, CALL_OTHER, 0, {{0}}
           ),
	C(clone3, CALL_OTHER, 0, {{0} }
           ),
	C(mount, CALL_OTHER, 0, {{'p', 0},         {'p', 1}}
           ),
	C(umount2, CALL_OTHER, 0, {{'p', 0}}
           ),
	C(connect, CALL_OTHER, 0, {{'f', 0} }
           ),
	C(sendto, CALL_OTHER, 0, {{'f', 0} }
           ),
	C(sendmsg, CALL_OTHER, 0, {{'f', 0} }
           ),
	C(kill, CALL_OTHER, 0, {{'x', 0},  {'x', 1}}
           ),
	C(pidfd_send_signal, CALL_OTHER, 0, {{0} }
           ),
	C(flock, CALL_OTHER, 0, {{'f', 0},         {'x', 1}}
           ),
	C(unshare, CALL_OTHER, 0, {{'x', 0}}
           ),
	C(setns, CALL_OTHER, 0, {{'f', 0} }
           ),
	C(exit_group, CALL_OTHER, 0, {{'x', 0}       }
           ),
	PURE(read),
	PURE(readv),
	PURE(pread64),
	PURE(preadv),
	PURE(close),
	PURE(close_range),
	PURE(fstat),
	PURE(newfstatat),
	PURE(statx),
	PURE(statfs),
	PURE(fstatfs),
	PURE(faccessat),
	PURE(faccessat2),
	PURE(readlinkat),
	PURE(getdents64),
	PURE(getxattr),
	PURE(lgetxattr),
	PURE(fgetxattr),
	PURE(listxattr),
	PURE(llistxattr),
	PURE(flistxattr),
	PURE(lseek),
	PURE(fadvise64),
	PURE(readahead),
	PURE(mmap),
	PURE(munmap),
	PURE(mremap),
	PURE(mprotect),
	PURE(madvise),
	PURE(mincore),
	PURE(brk),
	PURE(fcntl),
	PURE(dup),
	PURE(dup3),
	PURE(pipe2),
	PURE(socket),
	PURE(socketpair),
	PURE(bind),
	PURE(getsockname),
	PURE(getpeername),
	PURE(getsockopt),
	PURE(setsockopt),
	PURE(shutdown),
	PURE(recvfrom),
	PURE(recvmsg),
	PURE(ppoll),
	PURE(pselect6),
	PURE(epoll_create1),
	PURE(epoll_ctl),
	PURE(epoll_pwait),
	PURE(eventfd2),
	PURE(timerfd_create),
	PURE(timerfd_settime),
	PURE(signalfd4),
	PURE(inotify_init1),
	PURE(inotify_add_watch),
	PURE(memfd_create),
	PURE(pidfd_open),
	PURE(wait4),
	PURE(waitid),
	PURE(futex),
	PURE(nanosleep),
	PURE(clock_nanosleep),
	PURE(clock_gettime),
	PURE(gettimeofday),
	PURE(getrandom),
	PURE(getpid),
	PURE(gettid),
	PURE(getppid),
	PURE(getuid),
	PURE(geteuid),
	PURE(getgid),
	PURE(getegid),
	PURE(getgroups),
	PURE(getresuid),
	PURE(getresgid),
	PURE(getpgid),
	PURE(getsid),
	PURE(setsid),
	PURE(setpgid),
	PURE(setfsuid),
	PURE(setfsgid),
	PURE(capget),
	PURE(capset),
	PURE(prctl),
	PURE(prlimit64),
	PURE(getrlimit),
	PURE(setrlimit),
	PURE(getrusage),
	PURE(sysinfo),
	PURE(uname),
	PURE(umask),
	PURE(chdir),
	PURE(fchdir),
	PURE(getcwd),
	PURE(personality),
	PURE(sched_getaffinity),
	PURE(sched_yield),
	PURE(set_tid_address),
	PURE(set_robust_list),
	PURE(rseq),
	PURE(sigaltstack),
	PURE(rt_sigaction),
	PURE(rt_sigprocmask),
	PURE(rt_sigreturn),
	PURE(rt_sigtimedwait),
	PURE(seccomp),
	PURE(landlock_create_ruleset),
	PURE(landlock_add_rule),
	PURE(landlock_restrict_self),
	{0},
};

#undef C
#undef PURE

#endif
