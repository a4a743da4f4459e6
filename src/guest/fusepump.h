/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fusepump - carries FUSE messages between /dev/fuse and the port to the host's server.
 *
 * Theory of operation. Three threads of the guest's first process, none of which touches
 * a file below the mount it feeds (it would wait for itself):
 *  - out: one request of the kernel after the other goes to the port;
 *  - in: what comes from the port is cut into messages; each answer goes to the kernel in
 *    one write of exactly its length;
 *  - tell: notifications go to the kernel apart from answers. The kernel may make such a
 *    write wait for a directory whose holder waits for an answer: in one thread with the
 *    answers that would be a deadlock. The server sends at most FUSEMSG_TOLD_MAX of them
 *    ahead of our acknowledgements, so that the queue between `in` and `tell` is bounded.
 *
 * When the port ends, all three end and /dev/fuse is closed: whoever still uses the mount
 * gets an error (ENOTCONN), nobody hangs.
 */
#ifndef COVE_GUEST_FUSEPUMP_H
#define COVE_GUEST_FUSEPUMP_H

#include <stdbool.h>

/* Takes the descriptors, in any outcome. window_fd: see fusewindow.h; -1: none. shrinks:
 * see fusehear.h, whose thread this starts too. 0 or -errno. Once in a life. */
int fusepump_start(int fuse_fd, int port_fd, int window_fd, bool shrinks);

/* For a snapshot of memory: holds back new requests until every one that went out is
 * answered. 0: the stream is silent in both directions; -ETIMEDOUT: not paused. */
int fusepump_pause(int timeout_ms);
void fusepump_resume(void);

#endif
