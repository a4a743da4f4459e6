/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netrules - rules that 'cove net allow' and its kin put over a sandbox's policy.
 *
 *	HOME/sandboxes/NAME/net.json	{"next":N,"rules":[RULE...]}, first wins
 *
 * A rule here has the keys of `rules:` in cove-spec(5) and two of our own: "added" and
 * "until" (ms since 1970; only of a rule that ends by itself). The newest is the first.
 * The file is replaced as a whole; it belongs to the keeper while the sandbox runs, and
 * to whoever holds the lock while it does not.
 */
#ifndef COVE_CORE_NETRULES_H
#define COVE_CORE_NETRULES_H

#include "core/store.h"

#include <jansson.h>

#define NETRULES_MAX 4096 /* live rules of one sandbox */
#define NETRULES_FILE "net.json"
#define NETRULES_TEXT_MAX (8u << 20)
#define NETRULES_ID 64

struct netrules {
	json_t *rules; /* array; never NULL after netrules_init() */
	uint64_t next; /* number of the next "live-N" */
};

int netrules_init(struct netrules *r, struct cove_error *err);
void netrules_clear(struct netrules *r);

/* dir: the record. A missing file means no rules. */
int netrules_load(struct netrules *r, int dir, struct cove_error *err);
int netrules_save(const struct netrules *r, int dir, struct cove_error *err);

/* Puts a checked rule (stolen) in front and tells its id. One that says the same goes
 * away for it; an id that is taken by another is refused. until_ms 0: it stays. */
int netrules_add(struct netrules *r, json_t *rule, int64_t until_ms,
		 char ret_id[NETRULES_ID], struct cove_error *err);
int netrules_remove(struct netrules *r, const char *id, struct cove_error *err);
/* Takes those out whose time is up. *ret_next: when the next one ends; 0: none does. */
bool netrules_expire(struct netrules *r, int64_t now_ms, int64_t *ret_next);
/* The rules as policy_compile() wants them, without our keys; a new reference. */
json_t *netrules_active(const struct netrules *r);

/* ---- what a rule may be ---------------------------------------------------------- */

/* what: "rules[3]", "the rule"; goes in front of the message. */
int netrule_check(const json_t *rule, const char *what, struct cove_error *err);

int64_t wall_ms(void); /* CLOCK_REALTIME */

#endif
