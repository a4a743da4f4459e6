/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net - the network of one running sandbox, as its owner (keeper or one-shot) holds it:
 * policy, live rules, log, questions. egress.h carries it out.
 *
 * Order at the start: net_open(), egress_start() with net_spec(), net_live() and
 * net_log_fd(), and with net_event() and net_ask() behind the owner's callbacks; at the
 * end egress_stop(), net_close().
 */
#ifndef COVE_CORE_NET_H
#define COVE_CORE_NET_H

#include "core/egress.h"
#include "core/netfile.h"
#include "core/netlog.h"
#include "core/netrules.h"

struct box;
struct net;

/* Reads live rules and the policy file of b, and opens the log. record: is there a
 * directory for them? */
int net_open(struct box *b, bool record, struct cove_error *err); /* sets b->net */
void net_close(struct box *b);                                    /* NULL is fine */
const struct spec *net_spec(const struct box *b); /* mode and ask are those in force */
const json_t *net_live(const struct box *b);
const struct netfile *net_file(const struct box *b);
int net_log_fd(const struct box *b);

/* From the owner's callbacks. */
void net_event(struct box *b, const json_t *event);
void net_ask(struct box *b, uint64_t id, const json_t *question);

/* Who answers questions; NULL: nobody, they are refused at once. */
void net_set_ask(struct box *b,
		 void (*fn)(void *arg, uint64_t id, const json_t *question), void *arg);
void net_set_audit(struct box *b, netlog_audit_fn *fn, void *arg);
/* remember: as a live rule. An id that nobody waits for any more is no error. */
int net_answer(struct box *b, uint64_t id, bool allow, bool remember,
	       struct cove_error *err);
/* Nobody is left to answer: what waits is refused. */
void net_refuse_all(struct box *b);

/* Changes, all or nothing: the record and the role. rule is stolen. */
int net_add(struct box *b, json_t *rule, int64_t until_ms, char ret_id[NETRULES_ID],
	    struct egress_change *ret, struct cove_error *err);
int net_remove(struct box *b, const char *id, struct egress_change *ret,
	       struct cove_error *err);
/* The policy file again. path: another one from now on (absolute), or NULL. */
int net_reload(struct box *b, const char *path, struct egress_change *ret,
	       struct cove_error *err);
/* b->spec's network was replaced by `s`'s: in force, or unchanged. */
int net_update(struct box *b, const struct spec *s, struct egress_change *ret,
	       struct cove_error *err);
/* b->spec was replaced by what net_update() was given: that one may go. */
void net_rebase(struct box *b);
/* Something is wrong with it that 'cove net status' and the logs should say. */
void net_problem(struct box *b, const char *text);
/* Generation, rules, file, last change, last problem, refusals. */
json_t *net_status(const struct box *b);
json_t *net_denied(const struct box *b, int64_t since_ms); /* see netlog_denied() */

/* Time and files: a descriptor to poll (the watched file; -1: none), when to come back
 * (CLOCK_MONOTONIC ms; 0: never), and what to do then. */
int net_fd(const struct box *b);
int64_t net_due(const struct box *b);
void net_turn(struct box *b);

#endif
