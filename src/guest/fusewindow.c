/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/fusewindow.h"

#include "base/fusemsg.h"
#include "base/util.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SECTOR 512u
#define HUGE (2u << 20) /* one piece for the disk's driver, where the kernel can */

static struct {
	int fd;
	uint8_t *data; /* what was read, on its way to the kernel */
	_Atomic(uint64_t) user[FUSEMSG_SLOTS]; /* the READ that has it; 0: nobody */
} window = {.fd = -1};

int window_use(int fd)
{
	if (fd < 0)
		return 0;
	window.data = aligned_alloc(HUGE, HUGE);
	if (!window.data) {
		close(fd);
		return -ENOMEM;
	}
	madvise(window.data, HUGE, MADV_HUGEPAGE);
	window.fd = fd;
	return 0;
}

/* The slot that this request has; 0: one that nobody has. */
static int slot_of(uint64_t unique)
{
	for (int i = 0; i < (int)FUSEMSG_SLOTS; i++)
		if (atomic_load(&window.user[i]) == unique)
			return i;
	return -1;
}

void window_request(uint8_t *msg, size_t n)
{
	struct fuse_in_header *h = (void *)msg;
	struct fuse_read_in in;
	int slot;

	if (window.fd < 0 || h->opcode != FUSE_READ || n < sizeof(*h) + sizeof(in))
		return;
	memcpy(&in, msg + sizeof(*h), sizeof(in));
	if (in.size < FUSEMSG_WORTH || in.size > FUSEMSG_SLOT)
		return;
	slot = slot_of(0);
	if (slot < 0)
		return;
	h->padding = (uint16_t)(slot + 1);
	atomic_store(&window.user[slot], h->unique);
}

/* The bytes that an answer tells of: their number, or -EIO. The disk moves whole sectors;
 * what is behind the last byte means nothing. */
static ssize_t fetch(int slot, const uint8_t *body)
{
	struct fusemsg_moved m;
	size_t all;

	memcpy(&m, body, sizeof(m));
	if (m.size > FUSEMSG_SLOT)
		return -EIO;
	all = (m.size + SECTOR - 1) / SECTOR * SECTOR;
	if (pread(window.fd, window.data, all, (off_t)slot * FUSEMSG_SLOT) !=
	    (ssize_t)all)
		return -EIO;
	return m.size;
}

/* In the place of the word of where they are. */
static size_t fetch_answer(int slot, uint8_t *msg)
{
	struct fuse_out_header h;
	ssize_t n = fetch(slot, msg + sizeof(h));

	memcpy(&h, msg, sizeof(h));
	h.error = n < 0 ? (int32_t)n : 0;
	n = n < 0 ? 0 : n;
	h.len = (uint32_t)(sizeof(h) + (size_t)n);
	memcpy(msg, &h, sizeof(h));
	return (size_t)n;
}

int window_answer(uint8_t *msg, size_t n, struct iovec v[2])
{
	struct fuse_out_header h;
	int slot, parts = 1;

	memcpy(&h, msg, sizeof(h));
	v[0] = (struct iovec){msg, n};
	slot = window.fd < 0 ? -1 : slot_of(h.unique);
	if (slot < 0)
		return parts;
	if (!h.error && n == sizeof(h) + sizeof(struct fusemsg_moved)) {
		v[0].iov_len = sizeof(h);
		v[1] = (struct iovec){window.data, fetch_answer(slot, msg)};
		parts = 2;
	}
	atomic_store(&window.user[slot], 0);
	return parts;
}
