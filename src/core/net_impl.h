/* SPDX-License-Identifier: Apache-2.0 */
/* net_impl - what the files of a sandbox's network share. */
#ifndef COVE_CORE_NET_IMPL_H
#define COVE_CORE_NET_IMPL_H

#include "core/box.h"
#include "core/net.h"

#define QUESTIONS_MAX 64   /* that wait at one time; more are refused */
#define QUESTION_MS 180000 /* then nobody waits for the answer any more */
#define LOG_CHECK_MS 2000  /* after it began to grow: how long is it now? */
#define WATCH_SETTLE_MS 10 /* after a change of the file that may go on */
#define WATCH_RETRY_MS 50  /* after one that made no policy */

struct question_of {
	struct question_of *next;
	uint64_t id;
	int64_t since_ms;
	json_t *text;
};

struct net {
	int dir; /* the record; -1: none */
	struct netlog *log;
	struct netrules live;
	struct netfile file; /* the policy file as it is in force */
	json_t *active;      /* live rules for policy_compile() */
	struct spec view;    /* the box's, borrowed; mode and ask are those in force */
	void (*ask)(void *arg, uint64_t id, const json_t *question);
	void *ask_arg;
	netlog_audit_fn *audit;
	void *audit_arg;
	struct question_of *questions;
	/* the watched file */
	int inotify, watches[2];
	int log_watch;        /* of the log: once, when it grows again */
	int64_t log_check_ms; /* when to look at its size; 0: it does not grow */
	int64_t settle_ms;    /* it changed: when to read it; 0: it did not */
	bool retried;         /* it could not be read, and was given some time */
	int64_t expires_ms;   /* wall clock; 0: no rule ends by itself */
	/* for net_status() */
	struct egress_change last;
	int64_t last_ms;        /* wall clock */
	int64_t effect_us;      /* the same, when the role had it */
	int64_t save_to_effect; /* us; of the last reload of the file; -1: none yet */
	char problem[400];      /* of the last reload; "": it went well */
	bool gone;              /* the role has ended, and that is the problem */
};

/* What a change is made of; what is NULL stays. */
struct net_change {
	const struct spec *spec;
	struct netrules *live; /* taken over on success */
	struct netfile *file;  /* taken over on success */
	const char *why;       /* for audit and log: "allow", "reload" ... */
	const char *detail;    /* the id of a rule, a path; or NULL */
};
int net_change(struct box *b, struct net_change *c, struct egress_change *ret,
	       struct cove_error *err);
int64_t wall_us(void);
void net_notice(struct box *b, const char *kind, json_t *fields);

/* net_watch.c */
void net_watch_start(struct box *b); /* again: what is watched may be another file */
void net_watch_ready(struct box *b);
void net_watch_log(struct net *n);

/* net_ask.c */
void net_ask_clear(struct net *n);
void net_ask_expire(struct box *b);

#endif
