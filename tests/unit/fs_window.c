/* SPDX-License-Identifier: Apache-2.0 */
/* The window: bytes of READ beside the message, and a guest that lies about them. */
#include "base/fusemsg.h"
#include "base/io.h"
#include "fs_message.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static char dir[64];
static uint8_t *window;

static struct fs *serve(uint8_t *w)
{
	struct fs_options o = {.nodes = 1000, .descs = 64, .window = w};
	struct fs *fs = NULL;

	o.root = open(dir, O_PATH | O_DIRECTORY);
	if (fs_new(&fs, &o) < 0 || greet(fs) != 0)
		abort();
	close(o.root);
	return fs;
}

static void put(const char *name, size_t n)
{
	int d = open(dir, O_RDONLY | O_DIRECTORY);
	int fd = openat(d, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	for (size_t i = 0; i < n; i++)
		if (write(fd, &(char){(char)('a' + i % 23)}, 1) != 1)
			abort();
	close(fd);
	close(d);
}

static void begin_in(uint32_t opcode, uint64_t node, uint16_t slot)
{
	struct fuse_in_header h;

	begin(opcode, node);
	memcpy(&h, request_.data, sizeof(h));
	h.padding = slot;
	memcpy(request_.data, &h, sizeof(h));
}

static int ask_read(struct fs *fs, uint64_t node, uint16_t slot, uint64_t at,
		    uint32_t size)
{
	struct fuse_read_in in = {.offset = at, .size = size};

	begin_in(FUSE_READ, node, slot);
	add(&in, sizeof(in));
	return send_to(fs);
}

static uint32_t number(void)
{
	uint32_t n;

	memcpy(&n, body(), sizeof(n));
	return n;
}

static void reads(struct fs *fs, uint64_t file)
{
	memset(window, '-', FUSEMSG_WINDOW);
	OK(ask_read(fs, file, 2, 1, 1 << 20) == 0, "a READ with a slot");
	OK(body_length() == sizeof(struct fusemsg_moved) && number() == 49999,
	   "is answered by how much it was");
	OK(memcmp(window + FUSEMSG_SLOT, "bcdef", 5) == 0, "which is in that slot");
	OK(window[FUSEMSG_SLOT - 1] == '-' && window[FUSEMSG_SLOT + 49999] == '-',
	   "and nowhere else");
	OK(ask_read(fs, file, 1, 60000, 4096) == 0 && number() == 0, "behind the end: 0");
	OK(ask_read(fs, file, FUSEMSG_SLOTS, 0, UINT32_MAX) == 0 && number() == 50000,
	   "one that is too long ends with its slot");
	OK(ask_read(fs, file, 0, 0, 5) == 0 && body_length() == 5 &&
		   memcmp(body(), "abcde", 5) == 0,
	   "without a slot the bytes are in the answer");
}

static void lies(struct fs *fs, struct fs *none, uint64_t file, uint64_t other)
{
	OK(ask_read(fs, file, FUSEMSG_SLOTS + 1, 0, 10) == -EINVAL, "a slot too far");
	OK(ask_read(fs, file, UINT16_MAX, 0, 10) == -EINVAL, "and much too far");
	begin_in(FUSE_WRITE, file, 1);
	add(&(struct fuse_write_in){.size = 5}, sizeof(struct fuse_write_in));
	add("hello", 5);
	OK(send_to(fs) == -EINVAL, "nothing is written by a slot");
	begin_in(FUSE_WRITE, file, 0);
	add(&(struct fuse_write_in){.size = 5}, sizeof(struct fuse_write_in));
	add("hello", 5);
	OK(send_to(fs) == 0 && number() == 5, "but in the message");
	begin_in(FUSE_GETATTR, file, 1);
	OK(send_to(fs) == -EINVAL, "what moves no bytes has no slot");
	begin_in(FUSE_GETATTR, file, 0);
	add(&(struct fuse_getattr_in){0}, sizeof(struct fuse_getattr_in));
	OK(send_to(fs) == 0, "and is answered without");
	OK(ask_read(none, other, 1, 0, 10) == -EINVAL, "no window: no slot");
	OK(ask_read(none, other, 0, 0, 10) == 0, "but the file can be read");
	OK(ask_read(fs, file + 77, 1, 0, 10) == -ESTALE, "a node that is none");
}

int main(void)
{
	struct fs *fs, *none;
	uint64_t file, other;
	int e;

	snprintf(dir, sizeof(dir), "/tmp/fs-window.XXXXXX");
	window = malloc(FUSEMSG_WINDOW);
	if (!mkdtemp(dir) || !window)
		return 1;
	put("file", 50000);
	fs = serve(window);
	none = serve(NULL);
	file = look_up(fs, 1, "file", &e);
	other = look_up(none, 1, "file", &e);
	reads(fs, file);
	lies(fs, none, file, other);
	fs_free(fs);
	fs_free(none);
	free(window);
	remove_tree_at(AT_FDCWD, dir);
	return tap_done();
}
