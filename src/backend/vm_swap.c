/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm_swap - the swap disk of a machine: a sparse file that has no name, and is gone with
 * the machine. It is formatted here, so that the guest needs no program for that.
 */
#include "backend/vm_impl.h"

#include "base/util.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define PAGE 4096u
#define MAGIC "SWAPSPACE2" /* at the end of the first page */
#define INFO_AT 1024u      /* what is before that is for boot loaders */

/* As the kernel of the guest reads it: little-endian, as all that runs here. */
struct swap_info {
	uint32_t version, last_page, bad_pages;
};

static int format(int fd, uint64_t bytes)
{
	uint8_t page[PAGE] = {0};
	struct swap_info info = {.version = 1, .last_page = (uint32_t)(bytes / PAGE - 1)};

	memcpy(page + INFO_AT, &info, sizeof(info));
	memcpy(page + PAGE - strlen(MAGIC), MAGIC, strlen(MAGIC));
	return pwrite(fd, page, PAGE, 0) == (ssize_t)PAGE ? 0 : -1;
}

int vm_swap_open(const char *dir, uint64_t bytes, struct cove_error *err)
{
	cleanup_fd int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0 || format(fd, bytes) < 0)
		return fail(err, COVE_EIO, errno, "resources.swap: a file in %s", dir);
	return take_fd(&fd);
}
