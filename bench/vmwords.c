/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmwords - the command line that cove gives QEMU for a machine, a word a line: a machine
 * of somebody else's is of the same kind if it has the same words where it matters.
 *
 *   vmwords kvm|tcg CPUS MIB
 */
#include "bench.h"
#include "vm/qemu.h"
#include "vm/tsc.h"

int main(int argc, char **argv)
{
	struct qemu_machine m = {.program = "qemu-system-x86_64",
				 .kernel = "vmlinuz",
				 .initramfs = "initramfs",
				 .swap = -1};
	struct qemu_args a;

	if (argc != 4) {
		errno = EINVAL;
		die("vmwords");
	}
	m.kvm = strcmp(argv[1], "kvm") == 0;
	m.cpus = (unsigned)strtoul(argv[2], NULL, 10);
	m.memory = strtoull(argv[3], NULL, 10) << 20;
	m.tsc_khz = m.kvm ? 0 : tsc_measure();
	if (qemu_args(&a, &m) < 0)
		die("qemu_args");
	for (size_t i = 0; i < a.n; i++)
		printf("%s\n", a.v[i]);
	return 0;
}
