/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host - names of hosts, normalised once and compared as bytes ever after. Pure.
 *
 * Normal form: lower case ASCII, A-labels for international names, no trailing dot,
 * labels of 1 to 63 bytes of [a-z0-9_-] that neither begin nor end with '-', at most 253
 * bytes. Everything else (NUL, spaces, control characters, over-long labels, U-labels
 * that are not plain UTF-8 of letters) is refused, never repaired.
 */
#ifndef COVE_POLICY_HOST_H
#define COVE_POLICY_HOST_H

#include <stdbool.h>
#include <stddef.h>

#define HOST_MAX 253
/* The host itself, as a sandbox names it. */
#define HOST_INTERNAL "host.cove.internal"

/* 0; -EINVAL: no host name; -ENAMETOOLONG. in need not be terminated. IP addresses are
 * not names: "1.2.3.4" and anything whose last label is all digits is -EINVAL. */
int host_normalise(const char *in, size_t n, char out[HOST_MAX + 1]);

enum host_kind { HOST_EXACT, HOST_STAR, HOST_STARSTAR, HOST_IP, HOST_CIDR, HOST_ANY };

/* "example.com", "*.example.com" (one label), "**.example.com" (one or more), an
 * address, ADDRESS/BITS, or "*" (any). The normalised pattern without its star prefix
 * goes to out. -EINVAL. */
int host_pattern(const char *in, enum host_kind *ret, char out[HOST_MAX + 1]);
/* One pattern against one normalised name; for lists too short to compile. */
bool host_matches(const char *pattern, const char *name);

#endif
