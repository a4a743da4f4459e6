/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qmp - QEMU's control protocol: one JSON object a line, over a socket that only we and
 * QEMU hold. QEMU carries a guest that may have taken it over: what it says is bounded,
 * parsed once, and decides nothing but whether a call succeeded. Commands are numbered,
 * and an answer counts for the one whose number it has.
 */
#ifndef COVE_VM_QMP_H
#define COVE_VM_QMP_H

#include "base/buf.h"
#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define QMP_REASON_MAX 40

struct qmp {
	int fd; /* owned */
	struct buf in;
	uint64_t sent; /* commands so far: the number of the last one */
	bool greeted;
	char reason[QMP_REASON_MAX]; /* that it gave for its end */
};

void qmp_init(struct qmp *q, int fd);
void qmp_clear(struct qmp *q);

/* Sends a command without waiting; its number is q->sent. args: taken over, may be NULL.
 * pass: a descriptor for `getfd`, or -1. */
int qmp_send(struct qmp *q, const char *command, json_t *args, int pass,
	     struct cove_error *err);
/* The answers to the commands from..to, without waiting: 1: all are there, and the last
 * one's "return" in *ret (may be NULL); 0: not yet. An answer to another command, which
 * somebody gave up waiting for, is passed over. */
int qmp_poll(struct qmp *q, uint64_t from, uint64_t to, json_t **ret,
	     struct cove_error *err);
/* Waits for the answers to the last n commands. */
int qmp_wait(struct qmp *q, unsigned n, json_t **ret, int timeout_ms,
	     struct cove_error *err);
int qmp_call(struct qmp *q, const char *command, json_t *args, json_t **ret,
	     struct cove_error *err);
/* Waits for an event of this name. */
int qmp_event(struct qmp *q, const char *name, int timeout_ms, struct cove_error *err);
/* Why it ended, if it has said so ("guest-reset"); else "". Does not wait. */
void qmp_shutdown_reason(struct qmp *q, char *ret, size_t size);

#endif
