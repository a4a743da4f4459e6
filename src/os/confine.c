/* SPDX-License-Identifier: Apache-2.0 */
#include "os/confine.h"

#include "base/util.h"
#include "os/landlock.h"

#include <linux/capability.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

void confine_limit(int what, rlim_t value)
{
	struct rlimit l = {value, value};

	setrlimit(what, &l);
}

static int drop_capabilities(void)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2] = {{0}};

	return syscall(SYS_capset, &h, d) < 0 ? -errno : 0;
}

int confine_alone(int last_fd, uint64_t memory_max)
{
	if (syscall(SYS_close_range, (unsigned)last_fd + 1, ~0u, 0) < 0)
		return -errno;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
		return -errno;
	confine_limit(RLIMIT_CORE, 0);
#ifndef __SANITIZE_ADDRESS__
	confine_limit(RLIMIT_NPROC, 0);
	confine_limit(RLIMIT_AS, memory_max);
#else
	(void)memory_max;
#endif
	return drop_capabilities();
}

int confine_files(int dir, uint64_t rights, bool connect)
{
	struct landlock_path_rule rule = {.parent_fd = dir};
	int abi = landlock_abi();
	struct landlock_attr a;

	if (!abi)
		return -EOPNOTSUPP;
	landlock_handled(abi, connect, &a);
	cleanup_fd int fd = landlock_create(abi, &a);
	if (fd < 0)
		return fd;
	rule.allowed = landlock_mask(&a, rights, true);
	if (dir >= 0 &&
	    syscall(SYS_landlock_add_rule, fd, 1 /* PATH_BENEATH */, &rule, 0) < 0)
		return -errno;
	return syscall(SYS_landlock_restrict_self, fd, 0) < 0 ? -errno : 0;
}

int confine_calls(const struct sock_filter *filter, unsigned short n)
{
#ifndef __SANITIZE_ADDRESS__
	struct sock_fprog p = {.len = n};

	memcpy(&p.filter, &filter, sizeof(filter)); /* the kernel does not write to it */
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p) < 0)
		return -errno;
#else
	(void)filter;
	(void)n;
#endif
	return 0;
}
