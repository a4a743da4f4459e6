/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proc_capture - hands the sockets of a captured network namespace to the parent. Runs in
 * the child: raw system calls only.
 */
#include "backend/proc_child_impl.h"

#include <sys/socket.h>

IN_CHILD long child_send_fds(int to, const int fds[CAPTURE_COUNT])
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int) * CAPTURE_COUNT)];
	} control;
	char byte = 0;
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control.room)};
	int *slots = (int *)(void *)CMSG_DATA(&control.h);

	/* As a whole: musl's struct has padding that the kernel reads as a part of the
	 * length. */
	control.h = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int) * CAPTURE_COUNT),
				     .cmsg_level = SOL_SOCKET,
				     .cmsg_type = SCM_RIGHTS};
	for (int i = 0; i < CAPTURE_COUNT; i++)
		slots[i] = fds[i];
	return raw3(SYS_sendmsg, to, &m, MSG_NOSIGNAL);
}
