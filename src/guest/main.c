/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cove-guest - PID 1 of a sandbox, or the far end of any pipe.
 *	--init		the link is descriptor 3
 *	--stdio		the link is standard input and output
 *	--probe		tries what a sandbox must refuse, and says what happened
 * As the first process of a kernel it is /init, see machine.c.
 */
#include "guest/guest.h"
#include "guest/machine.h"

#include "base/util.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Nobody inside may read or trace us; processes we start are as usual again by exec. */
static void prepare(bool init)
{
	prctl(PR_SET_DUMPABLE, 0);
	syscall(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC);
	if (init)
		setsid(); /* away from the terminal of whoever started us */
	umask(022);
	guest_signals(init);
}

static int run(int in_fd, int out_fd, bool init)
{
	struct guest g;
	int status = 1;

	if (guest_open(&g, in_fd, out_fd, init) == 0)
		status = guest_run(&g);
	if (init) /* the kernel frees faster than we do, and ends every other process */
		_exit(status);
	guest_close(&g);
	return status;
}

/* The link moves away, so that what we start finds /dev/null there. */
static int run_stdio(void)
{
	int in_fd = fcntl(0, F_DUPFD_CLOEXEC, 3), out_fd = fcntl(1, F_DUPFD_CLOEXEC, 3);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (in_fd < 0 || out_fd < 0 || null < 0 || dup2(null, 0) < 0 ||
	    dup2(null, 1) < 0) {
		perror("cove-guest: standard input and output");
		return 1;
	}
	close(null);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	return run(in_fd, out_fd, false);
}

int main(int argc, char **argv)
{
	const char *mode = argc == 2 ? argv[1] : "";

	if (getpid() == 1 && strcmp(argv[0], "/init") == 0)
		machine_main();
	if (strcmp(mode, "--init") == 0) {
		prepare(true);
		return run(3, 3, true);
	}
	if (strcmp(mode, "--stdio") == 0) {
		prepare(false);
		return run_stdio();
	}
	if (strcmp(mode, "--probe") == 0)
		return probe_main();
	if (strcmp(mode, "--version") == 0) {
		printf("cove-guest %s, protocol %d\n", COVE_VERSION, WIRE_VERSION);
		return 0;
	}
	fputs("usage: cove-guest --init | --stdio | --probe | --version\n", stderr);
	return 2;
}
