/* SPDX-License-Identifier: Apache-2.0 */
/* vm_init - what the first process of every machine to compare with has to do. */
#ifndef COVE_BENCH_VM_INIT_H
#define COVE_BENCH_VM_INIT_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Those that /modules/order names, in that order. */
static inline void load_modules(void)
{
	FILE *order = fopen("/modules/order", "re");
	char path[300];

	while (order && fgets(path, sizeof(path), order)) {
		path[strcspn(path, "\n")] = '\0';
		int fd = open(path, O_RDONLY | O_CLOEXEC);

		if (syscall(SYS_finit_module, fd, "", 0) < 0)
			fprintf(stderr, "%s: %s\n", path, strerror(errno));
		close(fd);
	}
	if (order)
		fclose(order);
}

#endif
