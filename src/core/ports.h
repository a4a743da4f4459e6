/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ports - what listens inside, published on the host.
 *
 * A published port is a listener here, on loopback unless told otherwise, or a unix
 * socket; each connection to it is a PORT stream over the sandbox's link, with credit
 * both ways, so that a slow end holds back the other and nothing else.
 *
 * Used by the one-shot (over its own link) and by cove-keeper (keeper_ports.c) alike; it
 * works whenever its session has a turn. Who connects is not asked: everybody who can
 * reach the listener can reach what listens inside.
 *
 * Bounds: PORTS_MAX listeners; PORTS_CONNECTIONS open connections, of which more wait in
 * the kernel's queue; without descriptors, a new connection is closed at once.
 */
#ifndef COVE_CORE_PORTS_H
#define COVE_CORE_PORTS_H

#include "core/session.h"
#include "core/store.h"

#define PORTS_MAX SPEC_LIST_MAX
#define PORTS_CONNECTIONS 256

struct ports;

/* Borrows everything; ends before the session. */
struct ports *ports_new(struct session *s, struct store *st, const char *name,
			struct cove_error *err);
void ports_free(struct ports *p); /* NULL is fine; closes all connections */

/* Opens what an entry of the spec's `ports` says: {"host": PORT|TEXT, "guest":
 * PORT|PATH}. A conflict names who has it. *ret_shown (may be NULL): as in ports_json(),
 * new. */
int ports_add(struct ports *p, const json_t *entry, json_t **ret_shown,
	      struct cove_error *err);
/* All of a list (may be NULL), or none. */
int ports_add_all(struct ports *p, const json_t *list, struct cove_error *err);
/* Closes the listener that has this entry, and its connections. what (may be NULL) tells
 * equal ones apart, see ports_find(). */
void ports_remove(struct ports *p, const json_t *entry, const char *what);

/* [{"host":"127.0.0.1:8080"|"/path","guest":3000|"/path","listening":true,"open":N,
 * "total":N}] */
json_t *ports_json(const struct ports *p);
/* The same for a sandbox that does not run. */
json_t *ports_list(const json_t *entries);

/* The index of the entry that `what` means, -1: none. what: "HOST", "HOST:GUEST" or
 * "GUEST", as they were written or, of one that runs (p, else NULL), as they are shown.
 */
int ports_find(const struct ports *p, const json_t *entries, const char *what);

#endif
