/* SPDX-License-Identifier: Apache-2.0 */
/*
 * migrate - QEMU moves a machine into a descriptor, or out of one. Everything that saves
 * or loads one is this: templates, saved memory, forks.
 */
#ifndef COVE_VM_MIGRATE_H
#define COVE_VM_MIGRATE_H

#include "vm/qmp.h"

enum migrate_way { MIGRATE_OUT, MIGRATE_IN };

struct migrate {
	uint64_t from, to; /* the commands whose answers are awaited; to 0: none */
	bool begun;        /* what began it was answered: it is asked how far it is */
};

/* Begins it, without waiting. fd: QEMU gets a copy. bare: memory that is a shared file
 * is not part of what moves. */
int migrate_begin(struct migrate *m, struct qmp *q, enum migrate_way way, int fd,
		  bool bare, struct cove_error *err);
/* 1: done; 0: it goes on. Does not wait. */
int migrate_poll(struct migrate *m, struct qmp *q, struct cove_error *err);
/* Until it is done. */
int migrate_wait(struct migrate *m, struct qmp *q, int timeout_ms,
		 struct cove_error *err);

#endif
