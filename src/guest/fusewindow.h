/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fusewindow - the bytes of long READs and WRITEs, by way of a disk that is memory of the
 * host (base/fusemsg.h).
 *
 * One thread sends requests and one takes answers, as in fusepump.h; they share only who
 * has which slot, which the first gives and the second takes back. What cannot go this
 * way (no slot is free, the disk fails) goes in the message as if there were no window.
 */
#ifndef COVE_GUEST_FUSEWINDOW_H
#define COVE_GUEST_FUSEWINDOW_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* Takes the disk; -1: there is none. 0 or -errno. Once in a life. */
int window_use(int fd);

/* A buffer for requests: `msg` in it has room for one (FUSEMSG_MAX), and lies so that the
 * bytes of a WRITE can go to the disk from where they are. For free(); NULL: no memory.
 */
uint8_t *window_buffer(uint8_t **msg);

/* A request that is about to go out, of n bytes: how many of them still have to. */
size_t window_request(uint8_t *msg, size_t n);

/* An answer of n bytes, as it goes to the kernel: the parts of it. It is good until the
 * next call. */
int window_answer(uint8_t *msg, size_t n, struct iovec v[2]);

#endif
