/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filtered - runs a program under the smallest seccomp filter there is: one instruction
 * that allows everything. What the kernel charges for that is the price of having any
 * filter.
 *
 * usage: filtered PROGRAM [ARG...]
 */
#include "bench.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

int main(int argc, char **argv)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {.len = 1, .filter = &allow};

	if (argc < 2)
		die("usage: filtered PROGRAM [ARG...]");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
		die("seccomp");
	execvp(argv[1], argv + 1);
	die(argv[1]);
}
