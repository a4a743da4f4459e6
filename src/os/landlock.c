/* SPDX-License-Identifier: Apache-2.0 */
#include "os/landlock.h"

#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CREATE_RULESET_VERSION 1u

/* Landlock's rights on a single file; the rest are rights on directories. */
#define FILE_RIGHTS \
	(LL_EXECUTE | LL_WRITE_FILE | LL_READ_FILE | LL_TRUNCATE | LL_IOCTL_DEV)

int landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);

	return abi > 0 ? (int)abi : 0;
}

void landlock_handled(int abi, bool loopback, struct landlock_attr *ret)
{
	static const uint64_t fs[] = {0, 0x1fff, 0x3fff, 0x7fff, 0x7fff, 0xffff};

	*ret = (struct landlock_attr){0};
	ret->fs = abi <= 0 ? 0 : fs[abi < 5 ? abi : 5];
	if (abi >= 4 && !loopback)
		ret->net = 3; /* bind and connect, TCP */
	if (abi >= 6)
		ret->scoped = 3; /* abstract unix sockets, signals */
}

int landlock_create(int abi, const struct landlock_attr *a)
{
	size_t size = abi >= 6   ? sizeof(*a)
		      : abi >= 4 ? offsetof(struct landlock_attr, scoped)
				 : offsetof(struct landlock_attr, net);
	long fd = syscall(SYS_landlock_create_ruleset, a, size, 0);

	return fd < 0 ? -errno : (int)fd;
}

uint64_t landlock_mask(const struct landlock_attr *a, uint64_t rights, bool is_dir)
{
	return rights & a->fs & (is_dir ? ~0ull : (uint64_t)FILE_RIGHTS);
}
