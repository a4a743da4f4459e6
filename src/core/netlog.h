/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netlog - what a sandbox's network did.
 *
 *	HOME/sandboxes/NAME/net.jsonl		lines of JSON, written by the egress role
 *	HOME/sandboxes/NAME/net.jsonl.old	those before, when it got too long
 *
 * The role has an append-only descriptor and writes itself; the host sees what matters as
 * events, keeps a short list of refusals for the person at the terminal, and writes audit
 * records: every refusal (bounded: one record a minute for each host and port, with how
 * many there were), the first use of a rule for each host and port, every use of a
 * secret, every change of the policy.
 */
#ifndef COVE_CORE_NETLOG_H
#define COVE_CORE_NETLOG_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define NETLOG_FILE "net.jsonl"
#define NETLOG_OLD "net.jsonl.old"
#define NETLOG_MAX (8u << 20)
#define NETLOG_HOSTS 512 /* host:port pairs that are remembered, refused or allowed */

struct netlog;

/* Takes an audit record; fields are stolen. */
typedef void netlog_audit_fn(void *arg, const char *event, json_t *fields);

/* dir: the record (borrowed for ever), -1: nothing is written. */
int netlog_open(struct netlog **ret, int dir, struct cove_error *err);
void netlog_close(struct netlog *l); /* NULL is fine; tells what was held back */
void netlog_set_audit(struct netlog *l, netlog_audit_fn *fn, void *arg);
/* Append-only, for the role; -1: there is none. */
int netlog_fd(const struct netlog *l);
/* Begins a new file if this one is full: true, and netlog_fd() is another. Also writes
 * what was held back for long enough. */
bool netlog_turn(struct netlog *l, int64_t now_ms);
int64_t netlog_due(const struct netlog *l); /* CLOCK_REALTIME ms; 0: nothing waits */

/* An event of the role (ipc/control.h). */
void netlog_take(struct netlog *l, const json_t *event);
/* A line of our own: {"kind":kind, "time_ms", ...fields}; fields stolen. */
void netlog_note(struct netlog *l, const char *kind, json_t *fields);

/* [{host, port, count, rule, reason, program, last}] refused since then, most recent
 * first; a new reference. */
json_t *netlog_denied(const struct netlog *l, int64_t since_ms);

/* ---- reading ---------------------------------------------------------------------- */

/* Calls fn with each line from *cursor on (0: all there is), and moves it. fn: not 0
 * stops. dir: the record. */
int netlog_read(int dir, uint64_t *cursor,
		int (*fn)(void *arg, const char *line, size_t n), void *arg,
		struct cove_error *err);

#endif
