/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/initramfs.h"

#include "base/util.h"
#include "vm/cpio.h"

#include <elf.h>
#include <stdio.h>

#define MODULES "modules/"

/* Uncompressed: the kernel has it in memory anyway, and unpacking takes longer than
 * reading. */
int initramfs_build(struct buf *out, const void *guest, size_t guest_size,
		    const struct initramfs_module *v, size_t n)
{
	cleanup_buf struct buf order = BUF_INIT(1u << 20);
	static const char *const dirs[] = {"dev", "proc", "sys", "root", "modules"};
	struct cpio c = cpio_begin(out);
	char path[200];
	int r;

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		cpio_dir(&c, dirs[i], 0755);
	cpio_device(&c, "dev/console", 0600, 5, 1); /* /init's stdin, stdout, stderr */
	for (size_t i = 0; i < n; i++) {
		if (snprintf(path, sizeof(path), MODULES "%s", v[i].name) >=
		    (int)sizeof(path))
			return -ENAMETOOLONG;
		cpio_file(&c, path, 0644, v[i].data, v[i].size);
		r = buf_printf(&order, "/%s\n", path);
		if (r < 0)
			return r;
	}
	cpio_file(&c, MODULES "order", 0644, order.data, order.len);
	cpio_file(&c, "init", 0755, guest, guest_size);
	return cpio_end(&c);
}

bool initramfs_can_start(const void *guest, size_t n)
{
	Elf64_Ehdr head;
	Elf64_Phdr part;

	if (n < sizeof(head))
		return false;
	memcpy(&head, guest, sizeof(head));
	if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
	    head.e_phentsize != sizeof(part) || head.e_phoff > n ||
	    head.e_phnum > (n - head.e_phoff) / sizeof(part))
		return false;
	for (unsigned i = 0; i < head.e_phnum; i++) {
		memcpy(&part, (const char *)guest + head.e_phoff + i * sizeof(part),
		       sizeof(part));
		if (part.p_type == PT_INTERP)
			return false;
	}
	return true;
}
