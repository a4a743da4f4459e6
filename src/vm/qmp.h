/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qmp - QEMU's control protocol: one JSON object a line, over a socket that only we and
 * QEMU hold. QEMU carries a guest that may have taken it over: what it says is bounded,
 * parsed once, and decides nothing but whether a call succeeded.
 */
#ifndef COVE_VM_QMP_H
#define COVE_VM_QMP_H

#include "base/buf.h"
#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>

struct qmp {
	int fd; /* owned */
	struct buf in;
	bool greeted;
};

void qmp_init(struct qmp *q, int fd);
void qmp_clear(struct qmp *q);

/* Sends a command without waiting. args: taken over, may be NULL. pass: a descriptor for
 * `getfd`, or -1. */
int qmp_send(struct qmp *q, const char *command, json_t *args, int pass,
	     struct cove_error *err);
/* Waits for n answers to what was sent; the last one's "return" in *ret (may be NULL). */
int qmp_wait(struct qmp *q, unsigned n, json_t **ret, int timeout_ms,
	     struct cove_error *err);
int qmp_call(struct qmp *q, const char *command, json_t *args, json_t **ret,
	     struct cove_error *err);
/* Waits for an event of this name. */
int qmp_event(struct qmp *q, const char *name, int timeout_ms, struct cove_error *err);
/* Why it ended, if it has said so ("guest-reset"); else "". Does not wait. */
void qmp_shutdown_reason(struct qmp *q, char *ret, size_t size);

#endif
