/* SPDX-License-Identifier: Apache-2.0 */
/* proc_child_impl - what the files that run in the child share; raw system calls only. */
#ifndef COVE_BACKEND_PROC_CHILD_IMPL_H
#define COVE_BACKEND_PROC_CHILD_IMPL_H

#include "backend/backend.h"
#include "backend/proc_child.h"
#include "os/raw.h"

#include <errno.h>
#include <fcntl.h>

#define O_PATH_ (O_PATH | O_CLOEXEC)

IN_CHILD static inline long len_of(const char *s)
{
	long n = 0;

	while (s[n]) {
		n++;
		__asm__ volatile(""); /* or the compiler makes a call to strlen() of it */
	}
	return n;
}

long child_loopback_up(void);

/* proc_capture.c: the sockets of struct place (os/capture.h), to the parent. */
long child_send_fds(int to, const int fds[CAPTURE_COUNT]);

/* proc_mount.c: the plan, then the way into it. */
long child_mount(struct child_job *j, int *ret_root);
long child_pivot(const struct child_job *j, int root);

#endif
