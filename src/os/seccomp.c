/* SPDX-License-Identifier: Apache-2.0 */
#include "os/seccomp.h"

#include <linux/audit.h>
#include <stdint.h>

#include "seccomp_guest.h"

/* The generator runs on the build host: a cross build must not take the wrong program. */
#if defined(__x86_64__)
_Static_assert(SECCOMP_GUEST_ARCH == AUDIT_ARCH_X86_64, "filter for another machine");
#elif defined(__aarch64__)
_Static_assert(SECCOMP_GUEST_ARCH == AUDIT_ARCH_AARCH64, "filter for another machine");
#else
#error "no system-call filter for this architecture"
#endif

const struct sock_fprog *seccomp_guest_program(void)
{
	/* The kernel's struct has no const, but only reads. */
	static const struct sock_fprog program = {
		.len = SECCOMP_GUEST_LEN,
		.filter = (struct sock_filter *)(uintptr_t)seccomp_guest,
	};

	return &program;
}

const char *seccomp_guest_digest(void)
{
	return SECCOMP_GUEST_DIGEST;
}
