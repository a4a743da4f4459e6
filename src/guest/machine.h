/* SPDX-License-Identifier: Apache-2.0 */
/* machine - cove-guest as the first process of a kernel of its own. */
#ifndef COVE_GUEST_MACHINE_H
#define COVE_GUEST_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct guest;
struct request;

/* The whole of /init; does not return. */
void machine_main(void) __attribute__((noreturn));

/* The part of SETUP that only a machine has: its root file system, its network. NULL, or
 * what failed, with errno. */
const char *machine_setup(const struct request *r);
/* What a SETUP left out that was only a part. flags: WIRE_SETUP_* */
const char *machine_finish(const struct request *r, const uint32_t user[2], char **mounts,
			   uint32_t flags);

/* After RESUME in another life: the stream of connections begins anew. NULL, or what is
 * wrong. */
const char *machine_reconnect(const uint8_t *nonce, size_t n);

#endif
