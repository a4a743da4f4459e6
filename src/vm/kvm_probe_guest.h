/* SPDX-License-Identifier: Apache-2.0 */
/* kvm_probe_guest - the guest that kvm_probe runs: its memory, its program, its proof. */
#ifndef COVE_VM_KVM_PROBE_GUEST_H
#define COVE_VM_KVM_PROBE_GUEST_H

#include <linux/kvm.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	PROBE_MEMORY = 2 << 20, /* one large page, from address 0 */
	PROBE_TURNS = 100000,   /* of the loop, in ring 0 and again in ring 3 */
	PROBE_DOOR = 0xf4,      /* the port by which the guest leaves */
};

/* Puts program and tables into zeroed memory of PROBE_MEMORY bytes. */
void probe_guest_load(uint8_t *memory);
/* A 64-bit processor in ring 0 about to run it; s is as KVM_GET_SREGS gave it. */
void probe_guest_enter(struct kvm_sregs *s, struct kvm_regs *r);
/* How far it came, in a word. */
const char *probe_guest_stage(const uint8_t *memory);
/* It came to the end, and everything it saw on the way was right. */
bool probe_guest_passed(const uint8_t *memory);

#endif
