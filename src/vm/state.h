/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state - a running machine as one sealed file (seal.h). Its text:
 *
 *	u32 and a JSON object	what machine it was: see struct state_machine
 *	u64 and bytes		the tables of its file server (fs/tables.h)
 *	to the end		QEMU's migration stream: devices and memory
 */
#ifndef COVE_VM_STATE_H
#define COVE_VM_STATE_H

#include "base/error.h"
#include "vm/kernel.h"
#include "vm/seal.h"

#include <jansson.h>

#define STATE_QEMU_MAX 80
#define STATE_HEAD_MAX 65536u

/* What must be the same where it goes on. */
struct state_machine {
	char qemu[STATE_QEMU_MAX]; /* version */
	bool kvm;
	bool tuned;       /* see vm/qemu.h */
	uint64_t tsc_khz; /* the host's, where it counts on that; 0: unknown */
	unsigned cpus;
	uint64_t memory; /* bytes */
	/* What it booted once, which need not be here any more. */
	char kernel[KERNEL_NAME_MAX + 1], digest[KERNEL_DIGEST_HEX];
};

json_t *state_machine_json(const struct state_machine *m);
int state_machine_parse(struct state_machine *m, const json_t *o); /* -EBADMSG */

/* Begins a file at fd with head (borrowed) and all of the file `tables`; the stream
 * follows by seal_write(), then seal_end(). s: cleared by the caller in every case. */
int state_begin(struct seal *s, int fd, const uint8_t key[SEAL_KEY], const json_t *head,
		int tables, struct cove_error *err);
/* Reads up to the stream; the tables go to `tables`, or nowhere (-1). */
int state_open(struct seal *s, int fd, const uint8_t key[SEAL_KEY], json_t **ret_head,
	       int tables, struct cove_error *err);
/* All of it, to the last byte, from the front of the file, which is where it is left. */
int state_verify(int fd, const uint8_t key[SEAL_KEY], json_t **ret_head,
		 struct cove_error *err);

#endif
