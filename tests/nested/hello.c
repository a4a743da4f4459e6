/* SPDX-License-Identifier: Apache-2.0 */
/* hello - the whole userspace of a virtual machine that only has to come up. */
#include <stdio.h>
#include <sys/reboot.h>
#include <unistd.h>

int main(void)
{
	puts("userspace reached");
	fflush(stdout);
	reboot(RB_AUTOBOOT);
	pause();
	return 1;
}
