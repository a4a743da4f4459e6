/* SPDX-License-Identifier: Apache-2.0 */
/* landlock - the highest ABI of this kernel with every right it knows. */
#ifndef COVE_OS_LANDLOCK_H
#define COVE_OS_LANDLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* The kernel's own structure, as of ABI 6; older kernels take a shorter prefix. Declared
 * here because distribution headers lag behind kernels. */
struct landlock_attr {
	uint64_t fs, net, scoped;
};

struct landlock_path_rule {
	uint64_t allowed;
	int32_t parent_fd;
} __attribute__((packed));

enum { /* rights that later ABIs added, by their fixed numbers */
       LL_EXECUTE = 1 << 0,
       LL_WRITE_FILE = 1 << 1,
       LL_READ_FILE = 1 << 2,
       LL_READ_DIR = 1 << 3,
       LL_REMOVE_DIR = 1 << 4,
       LL_REMOVE_FILE = 1 << 5,
       LL_MAKE_CHAR = 1 << 6,
       LL_MAKE_DIR = 1 << 7,
       LL_MAKE_REG = 1 << 8,
       LL_MAKE_SOCK = 1 << 9,
       LL_MAKE_FIFO = 1 << 10,
       LL_MAKE_BLOCK = 1 << 11,
       LL_MAKE_SYM = 1 << 12,
       LL_REFER = 1 << 13,     /* ABI 2 */
       LL_TRUNCATE = 1 << 14,  /* ABI 3 */
       LL_IOCTL_DEV = 1 << 15, /* ABI 5 */
};

#define LL_READ (LL_READ_FILE | LL_READ_DIR)
#define LL_READ_EXEC (LL_READ | LL_EXECUTE)
/* Everything but making device nodes. */
#define LL_FULL (0xffff & ~(LL_MAKE_CHAR | LL_MAKE_BLOCK | LL_IOCTL_DEV))

int landlock_abi(void); /* 0: none, or switched off at boot */

/* What that ABI can handle. loopback: TCP stays usable (the network namespace is the
 * boundary); otherwise bind and connect are handled, with no rule that allows any. */
void landlock_handled(int abi, bool loopback, struct landlock_attr *ret);

int landlock_create(int abi, const struct landlock_attr *a); /* fd or -errno */

/* Drops from `rights` what this ABI does not know, and what makes no sense on a file. */
uint64_t landlock_mask(const struct landlock_attr *a, uint64_t rights, bool is_dir);

#endif
