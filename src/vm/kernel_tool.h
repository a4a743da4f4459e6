/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_tool - runs a program of the host to its end: apt-get, dpkg-deb, xz, make.
 *
 * It gets the caller's environment with the C locale (its output is read), no terminal,
 * and stays in the caller's process group: who interrupts cove interrupts it.
 */
#ifndef COVE_VM_KERNEL_TOOL_H
#define COVE_VM_KERNEL_TOOL_H

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>

struct tool {
	const char *const *argv; /* NULL-terminated; the first is looked for in PATH */
	const char *dir;         /* where it runs; NULL: here */
	int in, out;             /* files; -1: nothing, and where nobody looks */
	struct buf *text;        /* or what it prints; more than the cap is a failure */
	void (*line)(void *arg, const char *line); /* or each line of it, as it comes */
	void (*tick)(void *arg);                   /* some ten times a second, or NULL */
	void *arg;                                 /* of both */
};

/* COVE_EUNSUPPORTED: there is no such program. COVE_EIO: it failed; the message has what
 * it said last. COVE_ESTATE: somebody interrupted it, so nothing is to be tried again. */
int tool_run(const struct tool *t, struct cove_error *err);

#endif
