/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attack.h - one program holds all attacks; `attack NAME [ARG...]` tries one.
 *
 * Exit status: 0 the attack WORKED, 1-99 it was refused, 100 it could not be tried (wrong
 * usage). Each attack runs in a child process, so that being killed by the system call
 * filter is seen and reported as a refusal (status 31) and not mistaken for a crash.
 * The same program is run outside the sandbox as the positive control.
 */
#ifndef COVE_ATTACK_H
#define COVE_ATTACK_H

#include <stddef.h>

#define ATTACK_USAGE 100

struct attack {
	const char *name;
	int args; /* how many it needs */
	int (*run)(char **arg);
};

extern const struct attack fs_attacks[], kernel_attacks[], mount_attacks[], net_attacks[],
	proc_attacks[], tty_attacks[], hog_attacks[], machine_attacks[];

/* Print what happened and return the exit status. refused() reads errno. */
int worked(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int refused(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* worked() if rc is 0 or more. */
int judge(long rc, const char *what);
/* For calls made with arguments that cannot succeed: any answer but "not permitted" and
 * "no such call" shows that the kernel's code behind it was reached. */
int judge_reach(long rc, const char *what);

int write_text(const char *path, const char *text); /* 0 or -1 and errno */
int read_some(const char *path, char *out,
	      size_t size); /* bytes, NUL added; -1 and errno */

#endif
