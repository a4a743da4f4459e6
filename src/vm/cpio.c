/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/cpio.h"

#include "base/util.h"

#include <stdio.h>
#include <sys/stat.h>

#define ALIGN 4

struct member {
	const char *path;
	uint32_t mode, links, major, minor;
	const void *data;
	size_t size;
};

static void pad(struct cpio *c)
{
	static const char zeros[ALIGN];
	size_t over = c->out->len % ALIGN;

	if (over && c->error == 0)
		c->error = buf_append(c->out, zeros, ALIGN - over);
}

/* Thirteen numbers of eight hexadecimal digits; then the name, then the data, each padded
 * to four bytes. */
static void put(struct cpio *c, const struct member *m)
{
	size_t name = strlen(m->path) + 1;

	if (m->size > UINT32_MAX)
		c->error = c->error ? c->error : -EFBIG;
	if (c->error)
		return;
	c->error = buf_printf(
		c->out, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		c->inode++, m->mode, 0u, 0u, m->links, 0u, (unsigned)m->size, 0u, 0u,
		m->major, m->minor, (unsigned)name, 0u);
	if (c->error == 0)
		c->error = buf_append(c->out, m->path, name);
	pad(c);
	if (c->error == 0 && m->size)
		c->error = buf_append(c->out, m->data, m->size);
	pad(c);
}

struct cpio cpio_begin(struct buf *out)
{
	return (struct cpio){
		.out = out, .inode = 1, .error = out->len % ALIGN ? -EINVAL : 0};
}

void cpio_dir(struct cpio *c, const char *path, uint32_t mode)
{
	put(c, &(struct member){.path = path, .mode = S_IFDIR | mode, .links = 2});
}

void cpio_file(struct cpio *c, const char *path, uint32_t mode, const void *data,
	       size_t n)
{
	put(c, &(struct member){.path = path,
				.mode = S_IFREG | mode,
				.links = 1,
				.data = data,
				.size = n});
}

void cpio_device(struct cpio *c, const char *path, uint32_t mode, uint32_t major,
		 uint32_t minor)
{
	put(c, &(struct member){.path = path,
				.mode = S_IFCHR | mode,
				.links = 1,
				.major = major,
				.minor = minor});
}

int cpio_end(struct cpio *c)
{
	c->inode = 0;
	put(c, &(struct member){.path = "TRAILER!!!", .links = 1});
	return c->error;
}
