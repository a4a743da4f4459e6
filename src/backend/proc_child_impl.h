/* SPDX-License-Identifier: Apache-2.0 */
/* proc_child_impl - what the files that run in the child share; raw system calls only. */
#ifndef COVE_BACKEND_PROC_CHILD_IMPL_H
#define COVE_BACKEND_PROC_CHILD_IMPL_H

#include "backend/backend.h"
#include "backend/proc_child.h"
#include "os/raw.h"

#include <errno.h>
#include <fcntl.h>

/* The sanitizers' own tables must not be touched from a stack they do not know. */
#if defined(__SANITIZE_ADDRESS__)
#define IN_CHILD __attribute__((no_sanitize("address", "undefined")))
#else
#define IN_CHILD
#endif

#define O_PATH_ (O_PATH | O_CLOEXEC)

#define TRY(expr) \
	do { \
		long try_ = (expr); \
		if (try_ < 0) \
			return try_; \
	} while (0)

IN_CHILD static inline long len_of(const char *s)
{
	long n = 0;

	while (s[n]) {
		n++;
		__asm__ volatile(""); /* or the compiler makes a call to strlen() of it */
	}
	return n;
}

IN_CHILD static inline void close_raw(long fd)
{
	raw1(SYS_close, fd);
}

long child_loopback_up(void);

/* proc_capture.c: in a network namespace of its own with lo up, opens the sockets of
 * struct place; 0 or -errno. */
long child_capture(const struct netcapture *n, int fds[CAPTURE_COUNT]);
long child_send_fds(int to, const int fds[CAPTURE_COUNT]);

/* proc_mount.c: the plan, then the way into it. */
long child_mount(struct child_job *j, int *ret_root);
long child_pivot(const struct child_job *j, int root);

#endif
