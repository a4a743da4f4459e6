/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/fusewindow.h"

#include "base/fusemsg.h"
#include "base/util.h"

#include <assert.h>
#include <errno.h>
#include <linux/fuse.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096u
#define SECTOR 512u
#define HUGE (2u << 20) /* one piece for the disk's driver, where the kernel can */
#define WRITE_HEAD (sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in))

static_assert(PAGE + FUSEMSG_MAX <= HUGE, "a request has room in its buffer");
static_assert(WRITE_HEAD <= PAGE, "and its head before the page that its bytes begin");

struct slot {
	_Atomic(uint64_t) user; /* the request that has it; 0: nobody */
	bool reads;             /* ... is a READ; good while somebody has it */
};

static struct {
	int fd;
	uint8_t *data; /* what was read, on its way to the kernel */
	struct slot slot[FUSEMSG_SLOTS];
} window = {.fd = -1};

static uint8_t *huge_buffer(void)
{
	uint8_t *p = aligned_alloc(HUGE, HUGE);

	if (p)
		madvise(p, HUGE, MADV_HUGEPAGE);
	return p;
}

int window_use(int fd)
{
	if (fd < 0)
		return 0;
	window.data = huge_buffer();
	if (!window.data) {
		close(fd);
		return -ENOMEM;
	}
	window.fd = fd;
	return 0;
}

uint8_t *window_buffer(uint8_t **msg)
{
	uint8_t *p = huge_buffer();

	if (p)
		*msg = p + PAGE - WRITE_HEAD;
	return p;
}

/* The one that this request has; 0: one that nobody has. */
static int slot_of(uint64_t unique)
{
	for (unsigned i = 0; i < FUSEMSG_SLOTS; i++)
		if (atomic_load(&window.slot[i].user) == unique)
			return (int)i;
	return -1;
}

static off_t place_of(unsigned slot)
{
	return (off_t)slot * FUSEMSG_SLOT;
}

/* The disk moves whole sectors; what is behind the last byte means nothing. */
static size_t whole_sectors(size_t n)
{
	return (n + SECTOR - 1) / SECTOR * SECTOR;
}

/* ---- requests ------------------------------------------------------------------- */

static int put(unsigned slot, const uint8_t *data, size_t n)
{
	size_t all = whole_sectors(n);

	return pwrite(window.fd, data, all, place_of(slot)) == (ssize_t)all ? 0 : -1;
}

/* How many bytes of a file this request is about; 0: it stays as it is. */
static uint32_t file_bytes(const uint8_t *msg, size_t n)
{
	const struct fuse_in_header *h = (const void *)msg;
	const size_t head = sizeof(*h);
	struct fuse_write_in w;
	struct fuse_read_in r;

	if (h->opcode == FUSE_READ && n >= head + sizeof(r)) {
		memcpy(&r, msg + head, sizeof(r));
		return r.size <= FUSEMSG_SLOT ? r.size : 0;
	}
	if (h->opcode == FUSE_WRITE && n >= head + sizeof(w)) {
		memcpy(&w, msg + head, sizeof(w));
		return w.size <= FUSEMSG_SLOT && w.size <= n - WRITE_HEAD ? w.size : 0;
	}
	return 0;
}

size_t window_request(uint8_t *msg, size_t n)
{
	struct fuse_in_header *h = (void *)msg;
	uint32_t bytes = window.fd < 0 ? 0 : file_bytes(msg, n);
	int slot = bytes < FUSEMSG_WORTH ? -1 : slot_of(0);

	if (slot < 0)
		return n;
	if (h->opcode == FUSE_WRITE) {
		if (put((unsigned)slot, msg + WRITE_HEAD, bytes) < 0)
			return n;
		n = WRITE_HEAD;
		h->len = (uint32_t)n;
	}
	h->padding = (uint16_t)(slot + 1);
	window.slot[slot].reads = h->opcode == FUSE_READ;
	atomic_store(&window.slot[slot].user, h->unique);
	return n;
}

/* ---- answers -------------------------------------------------------------------- */

/* The bytes that a READ's answer tells of. */
static ssize_t fetch(unsigned slot, const uint8_t *body)
{
	struct fusemsg_moved m;
	size_t all;

	memcpy(&m, body, sizeof(m));
	if (m.size > FUSEMSG_SLOT)
		return -EIO;
	all = whole_sectors(m.size);
	if (pread(window.fd, window.data, all, place_of(slot)) != (ssize_t)all)
		return -EIO;
	return m.size;
}

/* In the place of what was said where they are. Returns their number, or 0. */
static size_t fetch_answer(unsigned slot, uint8_t *msg)
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
	if (window.slot[slot].reads && n == sizeof(h) + sizeof(struct fusemsg_moved)) {
		v[0].iov_len = sizeof(h);
		v[1] = (struct iovec){window.data, fetch_answer((unsigned)slot, msg)};
		parts = 2;
	}
	atomic_store(&window.slot[slot].user, 0);
	return parts;
}
