/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fusewindow - the bytes of long READs, by way of a disk that is memory of the host
 * (base/fusemsg.h).
 *
 * One thread sends requests and one takes answers, as in fusepump.h; they share only who
 * has which slot, which the first gives and the second takes back. When no slot is free,
 * the bytes come in the message as if there were no window.
 */
#ifndef COVE_GUEST_FUSEWINDOW_H
#define COVE_GUEST_FUSEWINDOW_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* Takes the disk; -1: there is none. 0 or -errno. Once in a life. */
int window_use(int fd);

/* A request of n bytes that is about to go out. */
void window_request(uint8_t *msg, size_t n);

/* An answer of n bytes, as it goes to the kernel: how many parts it has. They are good
 * until the next call. */
int window_answer(uint8_t *msg, size_t n, struct iovec v[2]);

#endif
