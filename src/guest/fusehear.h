/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fusehear - makes programs in the guest hear (inotify) what the host did to files.
 *
 * Theory of operation. FUSE tells a kernel that its caches are out of date, and no
 * watcher of anything. An event comes of a system call that changes a file, so one thread
 * of ours makes such calls: it makes, unlinks, or allocates zero bytes of what the host
 * made, removed or changed. The requests that the kernel makes of them are known by the
 * thread's number; they never reach the host. `out` (fusepump.h) hands them to
 * hear_request(), which answers them as the host would have: a new name is looked up, a
 * name that is gone is there to be removed once more, all else is done already.
 *
 * Only where somebody watches: /proc says which nodes are (fdinfo of inotify), and when
 * nobody does, nothing of this happens. Nodes are opened by their number
 * (open_by_handle_at), so there is no path for anybody to put a symlink into.
 *
 * A rename of the host's is heard as a name that goes and one that comes. A burst of more
 * than HEAR_MAX events loses some: those are for watchers, who know overflows.
 *
 * The same thread makes the kernel forget what nobody uses (FUSEMSG_SHRINK).
 */
#ifndef COVE_GUEST_FUSEHEAR_H
#define COVE_GUEST_FUSEHEAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEAR_MAX 256
#define HEAR_ANSWER_MAX 256

/* shrinks: the kernel is ours alone, and may be told to drop its caches. 0 or -errno. */
int hear_start(bool shrinks);
/* The FUSE mount, as an O_PATH descriptor, which is taken; before, nothing is heard. */
void hear_mount(int fd);
/* The end of a thread that may wait for answers; called before /dev/fuse is closed. */
void hear_stop(void);

/* A message of the server that is none for the kernel: false. */
bool hear_take(const uint8_t *msg, size_t n);

/*
 * A request of the kernel (*n bytes, maybe less afterwards). 0: it goes to the host as it
 * is now; otherwise the length of the answer that was put at `answer` (HEAR_ANSWER_MAX).
 */
size_t hear_request(uint8_t *msg, size_t *n, uint8_t *answer);

#endif
