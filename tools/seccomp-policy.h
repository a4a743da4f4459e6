/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seccomp-policy - a policy file in memory: for each system call number its rules.
 * The language is described in the policy file itself.
 */
#ifndef COVE_TOOLS_SECCOMP_POLICY_H
#define COVE_TOOLS_SECCOMP_POLICY_H

#include <stdint.h>

#define MAX_NR 1024 /* above every number that exists */
#define MAX_RULES 8
#define MAX_CONDS 4
#define MAX_VALUES 16

struct cond { /* (word of struct seccomp_data & mask) is (not) one of val */
	int offset, negate, n;
	uint32_t mask, val[MAX_VALUES];
};

struct rule {
	struct cond cond[MAX_CONDS];
	int n;
	uint32_t action; /* SECCOMP_RET_* */
};

struct policy {
	uint32_t arch; /* AUDIT_ARCH_*, which libseccomp uses as its own token */
	uint32_t default_action;
	struct call {
		struct rule rule[MAX_RULES]; /* the last one has no condition */
		int n;                       /* 0: the default holds */
	} call[MAX_NR];
};

/* Fills p for the architecture that is set in it; an error ends the program. */
void policy_read(struct policy *p, const char *path);

/* Says what is wrong, with file and line while a policy is read, and ends the program. */
void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
