/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_ask - questions of the role: a connection that no rule allows waits for a person.
 *
 * Bounded in number and time; without anybody to answer, and whenever something is wrong,
 * the answer is no.
 */
#include "core/net_impl.h"

#include "base/util.h"

#include <stdio.h>
#include <time.h>

static int64_t mono_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void forget(struct question_of **p)
{
	struct question_of *q = *p;

	*p = q->next;
	json_decref(q->text);
	free(q);
}

void net_ask_clear(struct net *n)
{
	while (n->questions)
		forget(&n->questions);
}

void net_set_ask(struct box *b,
		 void (*fn)(void *arg, uint64_t id, const json_t *question), void *arg)
{
	if (!b->net)
		return;
	b->net->ask = fn;
	b->net->ask_arg = arg;
	if (!fn)
		net_refuse_all(b);
}

void net_ask(struct box *b, uint64_t id, const json_t *question)
{
	struct net *n = b->net;
	struct question_of *q, **end;
	unsigned waiting = 0;

	for (q = n ? n->questions : NULL; q; q = q->next)
		waiting++;
	q = n && n->ask && waiting < QUESTIONS_MAX ? calloc(1, sizeof(*q)) : NULL;
	if (!q) {
		if (b->egress)
			egress_answer(b->egress, id, false);
		return;
	}
	q->id = id;
	q->since_ms = mono_ms();
	q->text = json_deep_copy(question);
	for (end = &n->questions; *end; end = &(*end)->next)
		;
	*end = q;
	n->ask(n->ask_arg, id, q->text);
}

/* Those of long ago: the role has refused them itself. */
void net_ask_expire(struct box *b)
{
	struct net *n = b->net;

	while (n->questions && mono_ms() - n->questions->since_ms >= QUESTION_MS)
		forget(&n->questions);
}

void net_refuse_all(struct box *b)
{
	struct net *n = b->net;

	while (n && n->questions) {
		if (b->egress)
			egress_answer(b->egress, n->questions->id, false);
		forget(&n->questions);
	}
}

/* The rule that answers this question for ever. */
static json_t *rule_of(const json_t *q, bool allow)
{
	const char *host = json_string_value(json_object_get(q, "host"));
	const char *method = json_string_value(json_object_get(q, "method"));
	const char *path = json_string_value(json_object_get(q, "path"));
	json_t *rule =
		json_pack("{s:s, s:O, s:s}", "host", host ? host : "", "port",
			  json_object_get(q, "port"), "action", allow ? "allow" : "deny");

	if (rule && method && path) {
		json_object_set_new(rule, "methods", json_pack("[s]", method));
		json_object_set_new(rule, "paths", json_pack("[s]", path));
	}
	return rule;
}

int net_answer(struct box *b, uint64_t id, bool allow, bool remember,
	       struct cove_error *err)
{
	struct net *n = b->net;
	struct question_of **p = n ? &n->questions : NULL;
	char rule_id[NETRULES_ID];
	int r = 0;

	while (p && *p && (*p)->id != id)
		p = &(*p)->next;
	if (!p || !*p)
		return 0;
	if (remember) {
		json_t *rule = rule_of((*p)->text, allow);

		r = rule ? net_add(b, rule, 0, rule_id, NULL, err) : fail_nomem(err);
	}
	/* net_add() asks nobody, so it is still there. */
	forget(p);
	if (b->egress)
		egress_answer(b->egress, id, allow);
	return r;
}
