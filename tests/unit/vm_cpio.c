/* SPDX-License-Identifier: Apache-2.0 */
/* The archive that a kernel unpacks: read back member by member. */
#include "base/util.h"
#include "tap.h"
#include "vm/cpio.h"
#include "vm/initramfs.h"

#include <elf.h>
#include <stdint.h>
#include <sys/stat.h>

struct member {
	unsigned ino, mode, links, size, major, minor;
	char name[200];
	const char *data;
};

static unsigned field(const char *head, int i)
{
	char digits[9] = {0};

	memcpy(digits, head + 6 + i * 8, 8);
	return (unsigned)strtoul(digits, NULL, 16);
}

/* The member at *at, as a kernel reads it; false: it is none. */
static bool next(const struct buf *b, size_t *at, struct member *m)
{
	const char *head = b->data + *at;
	size_t name;

	if (*at % 4 || b->len - *at < 110 || memcmp(head, "070701", 6) != 0)
		return false;
	*m = (struct member){.ino = field(head, 0),
			     .mode = field(head, 1),
			     .links = field(head, 4),
			     .size = field(head, 6),
			     .major = field(head, 9),
			     .minor = field(head, 10)};
	name = field(head, 11);
	if (name == 0 || name > sizeof(m->name) || b->len - *at - 110 < name ||
	    head[110 + name - 1])
		return false;
	memcpy(m->name, head + 110, name);
	*at = (*at + 110 + name + 3) & ~(size_t)3;
	m->data = b->data + *at;
	*at = (*at + m->size + 3) & ~(size_t)3;
	return *at <= b->len;
}

static void members_come_back(void)
{
	cleanup_buf struct buf b = BUF_INIT(1 << 16), again = BUF_INIT(1 << 16);
	struct cpio c = cpio_begin(&b), d = cpio_begin(&again);
	struct member m;
	size_t at = 0;

	for (int i = 0; i < 2; i++) {
		struct cpio *one = i ? &d : &c;

		cpio_dir(one, "dev", 0755);
		cpio_device(one, "dev/console", 0600, 5, 1);
		cpio_file(one, "a", 0644, "12345", 5);
		cpio_file(one, "empty", 0600, NULL, 0);
		OK(cpio_end(one) == 0, "an archive is written");
	}
	OK(b.len == again.len && memcmp(b.data, again.data, b.len) == 0,
	   "the same calls, the same bytes");
	OK(next(&b, &at, &m) && strcmp(m.name, "dev") == 0 &&
		   m.mode == (S_IFDIR | 0755) && m.links == 2,
	   "a directory");
	OK(next(&b, &at, &m) && m.mode == (S_IFCHR | 0600) && m.major == 5 &&
		   m.minor == 1 && m.size == 0,
	   "a device");
	OK(next(&b, &at, &m) && m.size == 5 && memcmp(m.data, "12345", 5) == 0 &&
		   m.ino == 3 && m.links == 1,
	   "a file");
	OK(next(&b, &at, &m) && m.size == 0 && strcmp(m.name, "empty") == 0,
	   "an empty one");
	OK(next(&b, &at, &m) && strcmp(m.name, "TRAILER!!!") == 0 && at == b.len,
	   "and the end");
}

static void failures_stick(void)
{
	cleanup_buf struct buf small = BUF_INIT(200), odd = BUF_INIT(1000);
	struct cpio c = cpio_begin(&small);

	cpio_file(&c, "a", 0644, "12345", 5);
	cpio_file(&c, "b", 0644, "12345", 5);
	OK(cpio_end(&c) == -ENOBUFS, "too much for the buffer");
	buf_puts(&odd, "x");
	c = cpio_begin(&odd);
	OK(cpio_end(&c) == -EINVAL, "an archive begins at a multiple of four");
	c = cpio_begin(&(struct buf)BUF_INIT(1000));
	cpio_file(&c, "big", 0644, "", (size_t)UINT32_MAX + 1);
	OK(c.error == -EFBIG, "a file that the format has no number for");
}

static void initramfs_holds_all(void)
{
	const struct initramfs_module modules[] = {
		{"virtio.ko", "one",   3},
                {"fuse.ko",   "three", 5}
        };
	static const char *const want[] = {"dev",
					   "proc",
					   "sys",
					   "root",
					   "modules",
					   "dev/console",
					   "modules/virtio.ko",
					   "modules/fuse.ko",
					   "modules/order",
					   "init",
					   "TRAILER!!!"};
	static const char order[] = "/modules/virtio.ko\n/modules/fuse.ko\n";
	cleanup_buf struct buf b = BUF_INIT(1 << 16);
	struct member m;
	size_t at = 0;

	OK(initramfs_build(&b, "guest", 5, modules, 2) == 0, "an initramfs is built");
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		OK(next(&b, &at, &m) && strcmp(m.name, want[i]) == 0, "%s", want[i]);
		if (strcmp(m.name, "modules/order") == 0)
			OK(m.size == sizeof(order) - 1 &&
				   memcmp(m.data, order, m.size) == 0,
			   "modules in their order");
		if (strcmp(m.name, "init") == 0)
			OK(m.mode == (S_IFREG | 0755) && memcmp(m.data, "guest", 5) == 0,
			   "the guest is /init");
	}
	b.len = 0;
	OK(initramfs_build(&b, "guest", 5, NULL, 0) == 0, "without modules too");
}

static void only_a_static_program_starts(void)
{
	struct {
		Elf64_Ehdr head;
		Elf64_Phdr part[2];
	} e = {
		.head = {.e_phoff = sizeof(Elf64_Ehdr),
			 .e_phnum = 2,
			 .e_phentsize = sizeof(Elf64_Phdr)},
		.part = {{.p_type = PT_LOAD},                             {.p_type = PT_LOAD}}
        };

	memcpy(e.head.e_ident, ELFMAG, SELFMAG);
	OK(initramfs_can_start(&e, sizeof(e)), "a static program");
	e.part[1].p_type = PT_INTERP;
	OK(!initramfs_can_start(&e, sizeof(e)), "not one that needs a loader");
	OK(!initramfs_can_start(&e, sizeof(e) - 1), "not one that is cut");
	e.head.e_phoff = UINT64_MAX - 8;
	OK(!initramfs_can_start(&e, sizeof(e)), "not one with a wild offset");
	OK(!initramfs_can_start("#!/bin/sh\n", 10), "not a script");
}

int main(void)
{
	members_come_back();
	failures_stick();
	initramfs_holds_all();
	only_a_static_program_starts();
	return tap_done();
}
