/* SPDX-License-Identifier: Apache-2.0 */
/*
 * egress - the host's end of a sandbox's network: starts the confined role, compiles the
 * policy for it, answers its questions, and writes down what it reports.
 *
 * Used by the one-shot (in the caller's process) and by cove-keeper alike; the owner
 * polls egress_fd() and calls egress_turn().
 */
#ifndef COVE_CORE_EGRESS_H
#define COVE_CORE_EGRESS_H

#include "base/error.h"
#include "os/who.h"
#include "policy/policy.h"
#include "spec/spec.h"

#include <jansson.h>

struct secrets; /* core/secret.h */
struct netfile; /* core/netfile.h */

#define CAPTURE_FDS 4 /* tcp4, tcp6, udp4, udp6 */

/* Somebody connects: who is it? (os/who.h) */
struct egress_who {
	bool udp;
	struct addr from, to;
	uint16_t from_port, to_port;
	bool told; /* a machine's: its guest says this, and the above is not set */
	struct who guest;
};

struct egress_owner {
	/* Fills {exec, agent, tool, offline, pid, program} or {unknown: true}. */
	void (*who)(void *arg, const struct egress_who *q, json_t *answer);
	/* A connection waits for a decision: call egress_answer() now or later. NULL:
	 * nobody to ask, refused at once. */
	void (*ask)(void *arg, uint64_t id, const json_t *question);
	/* Something worth an audit record, see ipc/control.h; borrowed. */
	void (*event)(void *arg, const json_t *event);
	/* A placeholder was sent where it may not go, and the spec says stop. */
	void (*violation)(void *arg, const json_t *event);
	void *arg;
};

struct egress_config {
	const char *name;
	bool named;                   /* 'cove net' can call it by that */
	const struct spec *spec;      /* network and secrets */
	const json_t *live;           /* rules of 'cove net', first wins; or NULL */
	const struct netfile *file;   /* core/netfile.h; or NULL */
	const struct secrets *values; /* or NULL */
	int log;                      /* append-only, borrowed; -1: none */
	bool ask;
	struct egress_owner owner;
};

struct egress_host;

/* Does this spec need the role at all? */
bool egress_needed(const struct spec *s);
/* Will connections be opened, so that the sandbox must trust our authority? */
bool egress_opens(const struct spec *s, const json_t *live, const struct netfile *file);

/* The role gets ready while the caller goes on; the calls below wait for it. */
int egress_start(struct egress_host **ret, const struct egress_config *c,
		 struct cove_error *err);
void egress_stop(struct egress_host *h); /* NULL is fine */
int egress_fd(const struct egress_host *h);
/* Handles what came; COVE_EGONE when the role has died (the sandbox then has no network:
 * nothing falls open). */
int egress_turn(struct egress_host *h, struct cove_error *err);

/* Readable when addresses of the host come or go (-1: cannot be told); then call the
 * second one. */
int egress_address_fd(const struct egress_host *h);
void egress_address_turn(struct egress_host *h);

/* Asks for what egress_authority() returns, so that it is made meanwhile. Nothing may
 * read from the role in between (egress_turn). */
int egress_authority_ask(struct egress_host *h, bool java, struct cove_error *err);
/* Our certificate (PEM) and, if java, a memfd with a key store. */
int egress_authority(struct egress_host *h, bool java, struct buf *pem, int *ret_jks,
		     struct cove_error *err);
/* The sandbox's sockets; takes them. */
int egress_take_sockets(struct egress_host *h, int fds[CAPTURE_FDS],
			struct cove_error *err);

/* The same of a machine, its one stream (ipc/netmux.h); takes it. */
int egress_take_stream(struct egress_host *h, int *fd, struct cove_error *err);
/* ... of one that goes on from a saved state: its stream begins with these bytes. */
int egress_take_stream_anew(struct egress_host *h, int *fd, const uint8_t *nonce,
			    size_t n, struct cove_error *err);

struct egress_change {
	uint64_t generation;
	uint64_t us;     /* from this call to the role's word that it is in force */
	unsigned closed; /* connections whose decision changed */
	size_t rules;
	enum policy_mode mode; /* in force: a policy file may say another than the spec */
	bool ask;
};
/* A whole new policy: compiled, checked, then swapped; a failure changes nothing. */
int egress_update(struct egress_host *h, const struct spec *s, const json_t *live,
		  const struct netfile *file, struct egress_change *ret,
		  struct cove_error *err);
/* What such a policy would be, without a role: rules, mode, ask. */
int egress_foresee(const struct spec *s, const json_t *live, const struct netfile *file,
		   struct egress_change *ret, struct cove_error *err);
/* Appends its image. */
int egress_compile(const struct spec *s, const json_t *live, const struct netfile *file,
		   uint64_t generation, struct buf *image, struct cove_error *err);
uint64_t egress_generation(const struct egress_host *h);
/* From now on every connection's exec is asked for, and one that has none is refused; a
 * command without network depends on that. */
int egress_who_always(struct egress_host *h, struct cove_error *err);
/* Appends {"item","required","actual","ok"}; how many fall short. */
int egress_attest(const struct egress_host *h, json_t *items);
int egress_answer(struct egress_host *h, uint64_t id, bool allow);
/* The log is full or was moved: go on with this one (borrowed). */
int egress_log(struct egress_host *h, int fd);

#endif
