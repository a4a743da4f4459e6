/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper - the host process of a named sandbox.
 *
 * It owns the box, listens on RUN/NAME/s, and speaks the same protocol to its clients
 * that the guest speaks to it: a client's streams are relayed to the guest under ids of
 * the keeper's own, so several clients share one guest without knowing of each other. The
 * main session is the keeper's: it outlives the client that started it, its output is
 * kept in a bounded ring, and clients can join it.
 *
 * It lives until stop, TTL, idle time, a signal, or the end of the guest.
 */
#ifndef COVE_CORE_KEEPER_H
#define COVE_CORE_KEEPER_H

#include "base/error.h"

#include <stdbool.h>

/* Runs until the sandbox has ended. secrets: a descriptor (core/secret.h), or -1; closed.
 * report: a descriptor that gets notices, then "ok" or the failure of the start (see
 * connect.c), and is closed then. Returns an exit code. */
struct keeper_options {
	const char *name;
	bool degraded;
	int secrets, report;
	const char *state; /* "NAME@TAG": go on from that snapshot's memory; or NULL */
	bool image;        /* go on from an image: descriptors from KEEPER_IMAGE on */
};

/* Memory, state of devices and tables (backend.h), and the description, as JSON. */
#define KEEPER_IMAGE 5
enum { IMAGE_RAM, IMAGE_STATE, IMAGE_TABLES, IMAGE_HEAD, IMAGE_FDS };
int keeper_run(const struct keeper_options *o);

#endif
