/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn - a connection from accept to its decision, and every connection's end.
 *
 * Each step either ends the connection or calls the next as its last act; after that call
 * the connection may be gone.
 */
#include "egress/conn_impl.h"
#include "egress/dns.h"

#include "base/util.h"
#include "ipc/muxend.h"

#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

static const struct carrier pending_carrier = {.end = pending_free,
					       .stands = dial_stands};

const char *conn_host(const struct conn *c, char buf[ADDR_TEXT])
{
	return c->name ? c->name->text : addr_text(&c->ip, buf);
}

#define NAMING_MS 200 /* for the log only: a refusal does not wait longer for it */
#define NAMES_A_SECOND 50

/* ---- beginning and end ---------------------------------------------------------- */

/* NULL: too many wait for their decision, or there is no memory. */
static struct conn *conn_new(struct egress *e, int fd,
			     const struct sockaddr_storage *from)
{
	bool room = e->n_undecided < e->limits.undecided;
	struct conn *c = room ? calloc(1, sizeof(*c)) : NULL;
	struct pending *p = room ? calloc(1, sizeof(*p)) : NULL;

	if (!c || !p) {
		free(c);
		free(p);
		return NULL;
	}
	p->conn = c;
	*c = (struct conn){.egress = e,
			   .id = ++e->next_id,
			   .client = fd,
			   .upstream = -1,
			   .from = *from,
			   .started_ms = loop_now(e->loop),
			   .carrier = &pending_carrier,
			   .data = p,
			   .undecided = true,
			   .next = e->conns,
			   .link = &e->conns};
	if (c->next)
		c->next->link = &c->next;
	e->conns = c;
	e->n_conns++;
	e->n_undecided++;
	e->accepted++;
	return c;
}

void conn_decided(struct conn *c)
{
	if (c->undecided)
		c->egress->n_undecided--;
	c->undecided = false;
}

static void record_end(struct conn *c, const char *verdict, const char *reason)
{
	struct record r = {.kind = "connect",
			   .conn = c,
			   .verdict = verdict,
			   .rule = c->decision.id,
			   .reason = reason,
			   .sent = c->sent,
			   .received = c->received,
			   .port = c->port};

	if (c->recorded)
		return;
	if (strcmp(verdict, "allow") == 0)
		c->egress->allowed++;
	else if (strcmp(verdict, "deny") == 0)
		c->egress->denied++;
	egress_record(c->egress, &r);
}

void conn_end(struct conn *c, const char *verdict, const char *reason)
{
	struct egress *e = c->egress;

	control_forget(e, &c->naming);
	record_end(c, verdict, reason);
	if (c->stream) /* closing the descriptor is what tells it */
		muxend_own(c->stream, NULL);
	conn_decided(c);
	timer_stop(e->loop, &c->timer);
	watch_forget(e->loop, &c->cw);
	watch_forget(e->loop, &c->uw);
	close_fd(&c->client);
	close_fd(&c->upstream);
	if (c->name)
		name_unref(e->names, c->name);
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	if (e->review == c)
		e->review = c->next;
	e->n_conns--;
	free(c->sni);
	free(c->who_text);
	free(c);
}

void conn_reset(struct conn *c, const char *verdict, const char *reason)
{
	struct linger now = {.l_onoff = 1};

	if (c->stream)
		mux_reset(c);
	if (c->client >= 0)
		setsockopt(c->client, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	if (c->upstream >= 0)
		setsockopt(c->upstream, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	conn_end(c, verdict, reason);
}

void conn_release(struct conn *c)
{
	timer_stop(c->egress->loop, &c->timer);
	watch_stop(c->egress->loop, &c->cw);
	watch_stop(c->egress->loop, &c->uw);
}

static void stop_asking(struct conn *c, struct pending *p)
{
	if (p->asking)
		control_forget(c->egress, &p->question);
	p->asking = false;
}

void pending_free(struct conn *c)
{
	struct pending *p = take_ptr(c->data);

	if (!p)
		return;
	stop_asking(c, p);
	dial_clear(p);
	free(p);
	c->carrier = NULL;
	timer_stop(c->egress->loop, &c->timer);
}

static void turn_down(struct conn *c, const char *reason)
{
	pending_free(c);
	refuse_start(c, c->decision.id, reason);
}

/* ---- the decision --------------------------------------------------------------- */

static void answered(struct question *q, const json_t *answer)
{
	struct pending *p = container_of(q, struct pending, question);
	struct conn *c = p->conn;

	p->asking = false;
	if (!json_is_true(json_object_get(answer, "allow"))) {
		turn_down(c, answer ? "the question was answered with no"
				    : "nobody answered the question in time");
		return;
	}
	c->asked = true;
	c->decision.verdict = VERDICT_ALLOW;
	dial_start(c);
}

/* Which program it is, for people who read the log; the policy does not need it. */
static void note_program(struct conn *c, const json_t *answer)
{
	const char *program = json_string_value(json_object_get(answer, "program"));
	const char *exec = json_string_value(json_object_get(answer, "exec"));

	c->pid = (uint32_t)json_integer_value(json_object_get(answer, "pid"));
	snprintf(c->program, sizeof(c->program), "%s", program ? program : "");
	snprintf(c->exec, sizeof(c->exec), "%s", exec ? exec : "");
}

static void named(struct question *q, const json_t *answer)
{
	note_program(container_of(q, struct conn, naming), answer);
}

static void decide(struct conn *c);

static void named_refusal(struct question *q, const json_t *answer)
{
	struct conn *c = container_of(q, struct conn, naming);

	note_program(c, answer);
	decide(c); /* again: the policy may be another one now */
}

/* Asks which program it is, if that is not known and not too many were asked for. */
static bool ask_name(struct conn *c, void (*fn)(struct question *, const json_t *))
{
	struct egress *e = c->egress;

	if (loop_now(e->loop) >= e->names_until_ms) {
		e->names_until_ms = loop_now(e->loop) + 1000;
		e->names_left = NAMES_A_SECOND;
	}
	if (c->named || c->pid || c->who.unknown || !e->control || !e->names_left)
		return false;
	c->named = true;
	e->names_left--;
	control_who(e, &c->naming, "tcp", (struct sockaddr *)&c->from,
		    (struct sockaddr *)&c->to, NAMING_MS, fn);
	return true;
}

static void decide(struct conn *c)
{
	struct pending *p = c->data;

	policy_connect(c->egress->policy, &c->who, c->name ? c->name->text : NULL,
		       c->name ? NULL : &c->ip, c->port, &c->decision);
	switch (c->decision.verdict) {
	case VERDICT_ALLOW:
	case VERDICT_INSPECT:
		ask_name(c, named);
		dial_start(c);
		return;
	case VERDICT_ASK:
		c->stage = CONN_ASK;
		p->asking = true;
		control_ask(c->egress, &p->question, c, NULL, NULL, answered);
		return;
	case VERDICT_DENY:
		break;
	}
	c->stage = CONN_WHO;
	if (!ask_name(c, named_refusal))
		turn_down(c, c->decision.reason);
}

/* Three texts in one block; an empty or missing one is not said. */
static int take_subject(struct conn *c, const json_t *answer)
{
	static const char *const keys[] = {"agent", "tool", "exec"};
	const char **const to[] = {&c->who.agent, &c->who.tool, &c->who.exec};
	size_t len[ARRAY_LEN(keys)], total = 0;
	char *at;

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		len[i] = json_string_length(json_object_get(answer, keys[i]));
		total += len[i] + 1;
	}
	at = c->who_text = calloc(1, total);
	if (!at)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_LEN(keys); at += len[i++] + 1) {
		const char *text = json_string_value(json_object_get(answer, keys[i]));

		if (text && *text)
			*to[i] = memcpy(at, text, len[i]);
	}
	return 0;
}

static void identified(struct question *q, const json_t *answer)
{
	struct pending *p = container_of(q, struct pending, question);
	struct conn *c = p->conn;

	p->asking = false;
	c->who.unknown = !answer || json_is_true(json_object_get(answer, "unknown")) ||
			 take_subject(c, answer) < 0;
	c->who.offline = json_is_true(json_object_get(answer, "offline"));
	c->named = true;
	note_program(c, answer);
	if (c->who.unknown && c->egress->who_always)
		turn_down(c, "it cannot be told which program connects");
	else
		decide(c);
}

static void identify(struct conn *c)
{
	struct egress *e = c->egress;
	struct pending *p = c->data;

	if (!e->who_always && !policy_scoped(e->policy)) {
		decide(c);
		return;
	}
	c->stage = CONN_WHO;
	p->asking = true;
	control_who(e, &p->question, "tcp", (struct sockaddr *)&c->from,
		    (struct sockaddr *)&c->to, e->limits.who_ms, identified);
}

static void begin(struct conn *c)
{
	struct egress *e = c->egress;

	if (addr_from_sockaddr((struct sockaddr *)&c->to, &c->ip, &c->port) < 0 ||
	    egress_is_listener(e, &c->ip, c->port)) {
		pending_free(c);
		conn_reset(c, "deny", "not an address to connect to");
		return;
	}
	if (c->port == 53) {
		pending_free(c);
		conn_decided(c);
		dns_serve_tcp(c);
		return;
	}
	if (names_is_synthetic(&c->ip)) {
		c->name = names_by_addr(e->names, &c->ip, c->started_ms);
		if (!c->name) {
			turn_down(c, "no name for this address "
				     "(it expired; look it up again)");
			return;
		}
		name_ref(c->name);
	}
	identify(c);
}

void conn_accept(struct egress *e, int fd, const struct sockaddr_storage *from)
{
	struct conn *c = conn_new(e, fd, from);
	socklen_t n = sizeof(c->to);

	if (!c) {
		egress_turn_away(e, fd);
		return;
	}
	if (getsockname(fd, (struct sockaddr *)&c->to, &n) < 0)
		c->to.ss_family = AF_UNSPEC; /* no address to connect to */
	begin(c);
}

void conn_open(struct egress *e, int fd, const struct netmux_ends *ends,
	       struct mux_stream *s)
{
	struct conn *c = conn_new(e, fd, &ends->from);

	if (!c) {
		muxend_reset(s);
		egress_turn_away(e, fd);
		return;
	}
	c->to = ends->to;
	c->stream = s;
	muxend_own(s, c);
	begin(c);
}

/* ---- a new policy --------------------------------------------------------------- */

enum addr_class conn_address(const struct conn *c, const struct addr *a)
{
	const struct egress *e = c->egress;

	return policy_address(e->policy, c->decision.rule, c->name ? c->name->text : NULL,
			      a, e->self, e->n_self);
}

bool conn_name_allowed(const struct conn *c, const char *name)
{
	struct policy_decision d;

	policy_connect(c->egress->policy, &c->who, name, NULL, c->port, &d);
	return d.verdict == VERDICT_ALLOW;
}

/* Takes the new decision; true if it says what the old one did. */
static bool still_stands(struct conn *c)
{
	struct egress *e = c->egress;
	const char *name = c->name ? c->name->text : NULL;
	struct policy_decision old = c->decision, *d = &c->decision;

	policy_connect(e->policy, &c->who, name, name ? NULL : &c->ip, c->port, d);
	if (c->asked && d->verdict == VERDICT_ASK)
		d->verdict = VERDICT_ALLOW;
	if (d->verdict != old.verdict)
		return false;
	if (d->protocol != old.protocol && d->protocol != PROTO_ANY &&
	    d->protocol != PROTO_TCP)
		return false;
	if (c->sni && !conn_name_allowed(c, c->sni))
		return false;
	return c->upstream < 0 || !conn_address(c, &c->dialled);
}

static bool review(struct conn *c)
{
	if (c->stage == CONN_WHO) /* nothing may point into the old policy */
		c->decision = (struct policy_decision){.verdict = VERDICT_DENY};
	if (!c->decision.id || c->stage == CONN_REFUSE)
		return false; /* not decided yet, or ending */
	if (still_stands(c) &&
	    (!c->carrier || !c->carrier->stands || c->carrier->stands(c)))
		return false;
	if (c->stage == CONN_ASK) {
		stop_asking(c, c->data);
		decide(c);
		return false;
	}
	if (c->carrier)
		c->carrier->end(c);
	conn_reset(c, "deny", "the policy changed");
	return true;
}

unsigned conn_review_all(struct egress *e)
{
	unsigned ended = 0;

	e->review = e->conns;
	while (e->review) {
		struct conn *c = e->review;

		e->review = c->next; /* conn_end() goes on if that one ends meanwhile */
		ended += review(c);
	}
	return ended;
}
