/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvm_probe - does /dev/kvm run an ordinary 64-bit guest? Found out by running one.
 *
 * A device that opens and lists every capability may still be a software-nested one on
 * which Linux dies or crawls. A guest of a few hundred bytes does what a kernel does
 * early (exceptions, a page fault, ring 3 and back, SSE) and a timed loop; it takes
 * milliseconds and never more than a fraction of a second.
 */
#ifndef COVE_VM_KVM_PROBE_H
#define COVE_VM_KVM_PROBE_H

#include <stddef.h>

enum kvm_verdict {
	KVM_USABLE,
	KVM_UNUSABLE, /* there, but it cannot run an ordinary kernel */
	KVM_DENIED,   /* there, but not for this user */
	KVM_ABSENT,
	KVM_UNKNOWN, /* no answer in time from a processor that others were using: ask
			again */
};

/* detail: a few words on what was seen ("exit reason 17 at stage 4"). */
enum kvm_verdict kvm_probe(char *detail, size_t size);

#endif
