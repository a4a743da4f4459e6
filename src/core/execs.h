/* SPDX-License-Identifier: Apache-2.0 */
/*
 * execs - which commands run in a sandbox, by the process that they began with: so that a
 * connection can be told whose it is (os/who.h), and judged by that.
 */
#ifndef COVE_CORE_EXECS_H
#define COVE_CORE_EXECS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXECS_MAX 2048 /* remembered; the oldest that has ended goes first */
#define EXEC_LABEL 63

struct exec_info {
	uint32_t stream; /* on the link to the guest; 0: it has ended */
	uint32_t pid;    /* inside; 0: not started yet */
	uint64_t known;  /* since when, on the clock of os/who.h */
	uint64_t number;
	bool offline;
	char agent[EXEC_LABEL + 1], tool[EXEC_LABEL + 1]; /* "": not said */
};

struct execs {
	struct exec_info *v;
	size_t n, cap;
	uint64_t next;
};

/* An EXEC request goes to the guest: its labels are in the payload. -ENOMEM, -EPROTO. */
int execs_sent(struct execs *x, uint32_t stream, const uint8_t *payload, size_t n);
void execs_started(struct execs *x, uint32_t stream, uint32_t pid, uint64_t now);
void execs_ended(struct execs *x,
		 uint32_t stream); /* what it left behind stays its own */
bool execs_offline(struct execs *x, uint32_t stream);
/* The command that began with this process, the latest one; NULL: none. A process that
 * started after its number was told has inherited the number only. */
const struct exec_info *execs_find(const struct execs *x, uint32_t pid, uint64_t started);
/* One that was started in another life of the machine. */
void execs_adopt(struct execs *x, const struct exec_info *e);
void execs_clear(struct execs *x);

#endif
