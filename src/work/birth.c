/* SPDX-License-Identifier: Apache-2.0 */
/* birth - statx() by its kernel header, which does not go together with libc's. */
#include "work/attrs.h"

#include <linux/fcntl.h>
#include <linux/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int64_t birth_ns(int dir, const char *name)
{
	struct statx x = {0};

	if (syscall(SYS_statx, dir, name, AT_SYMLINK_NOFOLLOW, STATX_BTIME, &x) < 0 ||
	    !(x.stx_mask & STATX_BTIME))
		return 0;
	return (int64_t)x.stx_btime.tv_sec * 1000000000 + x.stx_btime.tv_nsec;
}
