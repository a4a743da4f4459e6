/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net - one policy at a time. A change is made in full beside the one in force: the role
 * takes it, then the record is written; where either fails, everything is as before.
 */
#include "core/net_impl.h"

#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <time.h>

static int64_t mono_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t wall_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* ---- beginning and end ----------------------------------------------------------- */

/* The spec as it counts: a policy file may say another mode. */
static void look_from(struct net *n, const struct spec *s)
{
	n->view = *s;
	n->view.network.mode = (enum spec_net)n->last.mode;
	n->view.network.ask = n->last.ask;
}

static int load(struct net *n, const struct box *b, struct cove_error *err)
{
	int r = n->dir < 0 ? netrules_init(&n->live, err)
			   : netrules_load(&n->live, n->dir, err);

	if (r == 0)
		netrules_expire(&n->live, wall_ms(), &n->expires_ms);
	if (r == 0 && b->spec.network.file)
		r = netfile_read(&n->file, b->spec.network.file, err);
	if (r == 0 && !(n->active = netrules_active(&n->live)))
		r = fail_nomem(err);
	if (r == 0)
		r = egress_foresee(&b->spec, n->active, &n->file, &n->last, err);
	if (r == 0)
		look_from(n, &b->spec);
	return r;
}

int net_open(struct box *b, bool record, struct cove_error *err)
{
	struct net *n = calloc(1, sizeof(*n));
	int r;

	if (!n)
		return fail_nomem(err);
	n->watches[0] = n->watches[1] = n->log_watch = -1;
	n->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	n->save_to_effect = -1;
	n->dir = record ? openat(b->store->boxes, b->name,
				 O_RDONLY | O_DIRECTORY | O_CLOEXEC)
			: -1;
	b->net = n;
	if (n->inotify < 0)
		r = fail(err, COVE_EIO, errno, "inotify");
	else if (record && n->dir < 0)
		r = fail(err, COVE_EIO, errno, "record of %s", b->name);
	else
		r = load(n, b, err);
	if (r == 0)
		r = netlog_open(&n->log, n->dir, err);
	if (r < 0) {
		net_close(b);
		return r;
	}
	net_watch_start(b);
	net_watch_log(n);
	return 0;
}

void net_close(struct box *b)
{
	struct net *n = b->net;

	if (!n)
		return;
	b->net = NULL;
	net_ask_clear(n);
	closep(&n->inotify);
	netlog_close(n->log);
	netrules_clear(&n->live);
	netfile_clear(&n->file);
	json_decref(n->active);
	closep(&n->dir);
	free(n);
}

const struct spec *net_spec(const struct box *b)
{
	return b->net ? &b->net->view : &b->spec;
}

const json_t *net_live(const struct box *b)
{
	return b->net ? b->net->active : NULL;
}

const struct netfile *net_file(const struct box *b)
{
	return b->net ? &b->net->file : NULL;
}

int net_log_fd(const struct box *b)
{
	return b->net ? netlog_fd(b->net->log) : -1;
}

void net_event(struct box *b, const json_t *event)
{
	if (b->net)
		netlog_take(b->net->log, event);
}

void net_set_audit(struct box *b, netlog_audit_fn *fn, void *arg)
{
	if (!b->net)
		return;
	b->net->audit = fn;
	b->net->audit_arg = arg;
	netlog_set_audit(b->net->log, fn, arg);
}

/* To the log and, what is no problem of the moment, to the audit log. */
void net_notice(struct box *b, const char *kind, json_t *fields)
{
	struct net *n = b->net;

	if (n->audit)
		n->audit(n->audit_arg, kind, json_deep_copy(fields));
	netlog_note(n->log, kind, fields);
}

/* ---- changes --------------------------------------------------------------------- */

static void hash_json(crypto_generichash_state *st, json_t *j)
{
	char *text = j ? json_dumps(j, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

	if (text)
		crypto_generichash_update(st, (const unsigned char *)text, strlen(text));
	free(text);
	json_decref(j);
}

/* Names the policy in the audit log: the spec's network, the file's bytes, live rules. */
static void policy_hash(const struct box *b, const struct spec *s, char out[65])
{
	const struct net *n = b->net;
	json_t *all = spec_json(s, true);
	unsigned char hash[32];
	crypto_generichash_state st;

	crypto_generichash_init(&st, NULL, 0, sizeof(hash));
	hash_json(&st, json_incref(json_object_get(all, "network")));
	if (n->file.text)
		crypto_generichash_update(&st, (const unsigned char *)n->file.text,
					  n->file.n);
	hash_json(&st, json_incref(n->active));
	json_decref(all);
	crypto_generichash_final(&st, hash, sizeof(hash));
	sodium_bin2hex(out, 65, hash, sizeof(hash));
}

static void tell_change(struct box *b, const struct net_change *c)
{
	struct net *n = b->net;
	char hash[65];
	json_t *j;

	policy_hash(b, c->spec ? c->spec : &b->spec, hash);
	j = json_pack("{s:s, s:I, s:I, s:I, s:i, s:s}", "change", c->why, "generation",
		      (json_int_t)n->last.generation, "rules", (json_int_t)n->last.rules,
		      "us", (json_int_t)n->last.us, "closed", (int)n->last.closed, "hash",
		      hash);
	if (j && c->detail)
		json_object_set_new(j, "detail", json_string(c->detail));
	if (j)
		net_notice(b, "policy", j);
}

static int not_running(struct cove_error *err)
{
	fail(err, COVE_ESTATE, 0,
	     "the sandbox was started without a network: this needs a restart");
	return hint(err, "stop it, 'cove set NAME --net allowlist', start it again");
}

/* Everything back to what it was before a change that could not be written down. */
static void take_back(struct box *b)
{
	struct net *n = b->net;
	struct cove_error ignored = {0};

	egress_update(b->egress, &b->spec, n->active, &n->file, NULL, &ignored);
}

static void adopt(struct net *n, struct net_change *c, json_t *active)
{
	json_decref(n->active);
	n->active = active;
	if (c->live) {
		netrules_clear(&n->live);
		n->live = *c->live;
		*c->live = (struct netrules){0};
		netrules_expire(&n->live, 0, &n->expires_ms);
	}
	if (c->file) {
		netfile_clear(&n->file);
		n->file = *c->file;
		*c->file = (struct netfile){0};
	}
	n->last_ms = wall_ms();
}

int net_change(struct box *b, struct net_change *c, struct egress_change *ret,
	       struct cove_error *err)
{
	struct net *n = b->net;
	const struct spec *s = c->spec ? c->spec : &b->spec;
	struct egress_change done = {0};
	json_t *active;
	int r;

	if (!n || !b->egress)
		return not_running(err);
	active = netrules_active(c->live ? c->live : &n->live);
	if (!active)
		return fail_nomem(err);
	r = egress_update(b->egress, s, active, c->file ? c->file : &n->file, &done, err);
	n->effect_us = wall_us();
	if (r == 0 && c->live && n->dir >= 0) {
		r = netrules_save(c->live, n->dir, err);
		if (r < 0)
			take_back(b);
	}
	if (r < 0) {
		json_decref(active);
		return r;
	}
	adopt(n, c, active);
	n->last = done;
	look_from(n, s);
	tell_change(b, c);
	if (ret)
		*ret = done;
	return box_net_trust(b, err); /* a rule may open what was passed through */
}

static int copy_rules(const struct net *n, struct netrules *ret, struct cove_error *err)
{
	*ret = (struct netrules){.rules = json_copy(n->live.rules), .next = n->live.next};
	return ret->rules ? 0 : fail_nomem(err);
}

int net_add(struct box *b, json_t *rule, int64_t until_ms, char ret_id[NETRULES_ID],
	    struct egress_change *ret, struct cove_error *err)
{
	struct netrules rules = {0};
	const char *action = json_string_value(json_object_get(rule, "action"));
	struct net_change c = {.live = &rules,
			       .why = action && strcmp(action, "deny") == 0 ? "deny"
									    : "allow",
			       .detail = ret_id};
	int r;

	if (!b->net || !b->egress) {
		json_decref(rule);
		return not_running(err);
	}
	if (netrule_check(rule, "rule", err) < 0 || copy_rules(b->net, &rules, err) < 0) {
		json_decref(rule);
		return err->code;
	}
	r = netrules_add(&rules, rule, until_ms, ret_id, err);
	if (r == 0)
		r = net_change(b, &c, ret, err);
	netrules_clear(&rules);
	return r;
}

int net_remove(struct box *b, const char *id, struct egress_change *ret,
	       struct cove_error *err)
{
	struct netrules rules = {0};
	struct net_change c = {.live = &rules, .why = "rm", .detail = id};
	int r;

	if (!b->net || !b->egress)
		return not_running(err);
	if (copy_rules(b->net, &rules, err) < 0)
		return err->code;
	r = netrules_remove(&rules, id, err);
	if (r == 0)
		r = net_change(b, &c, ret, err);
	netrules_clear(&rules);
	return r;
}

int net_update(struct box *b, const struct spec *s, struct egress_change *ret,
	       struct cove_error *err)
{
	struct netfile file = {0}; /* without one there is nothing of it left */
	struct net_change c = {.spec = s, .file = &file, .why = "spec"};
	int r = 0;

	if (s->network.file)
		r = netfile_read(&file, s->network.file, err);
	if (r == 0)
		r = net_change(b, &c, ret, err);
	netfile_clear(&file);
	return r;
}

void net_rebase(struct box *b)
{
	if (!b->net)
		return;
	look_from(b->net, &b->spec);
	net_watch_start(b);
}

void net_problem(struct box *b, const char *text)
{
	struct net *n = b->net;

	if (!n)
		return;
	n->gone = true;
	snprintf(n->problem, sizeof(n->problem), "%.399s", text);
	net_notice(b, "policy", json_pack("{s:s}", "error", text));
}

json_t *net_denied(const struct box *b, int64_t since_ms)
{
	json_t *list = b->net ? netlog_denied(b->net->log, since_ms) : json_array();

	if (b->net && b->net->gone)
		json_array_insert_new(list, 0,
				      json_pack("{s:s}", "problem", b->net->problem));
	return list;
}

json_t *net_status(const struct box *b)
{
	static const char *const modes[] = {"none", "allowlist", "open", "learn"};
	const struct net *n = b->net;
	json_t *j;

	if (!n || !b->egress)
		return json_pack("{s:s, s:b}", "mode", "none", "running", 1);
	j = json_pack(
		"{s:s, s:b, s:I, s:I, s:I, s:b}", "mode", modes[n->view.network.mode],
		"running", 1, "generation", (json_int_t)egress_generation(b->egress),
		"rules", (json_int_t)n->last.rules, "liveRules",
		(json_int_t)json_array_size(n->live.rules), "ask", n->view.network.ask);
	if (j && b->spec.network.file)
		json_object_set_new(j, "file", json_string(b->spec.network.file));
	if (j && n->last_ms)
		json_object_set_new(j, "lastChange",
				    json_pack("{s:I, s:I, s:i}", "time_ms",
					      (json_int_t)n->last_ms, "us",
					      (json_int_t)n->last.us, "closed",
					      (int)n->last.closed));
	if (j && n->save_to_effect >= 0)
		json_object_set_new(j, "saveToEffectUs", json_integer(n->save_to_effect));
	if (j && n->problem[0])
		json_object_set_new(j, "problem", json_string(n->problem));
	return j;
}

static void expire(struct box *b)
{
	struct netrules rules = {0};
	struct net_change c = {.live = &rules, .why = "expired"};
	struct cove_error err = {0};
	int64_t next;

	if (copy_rules(b->net, &rules, &err) < 0)
		return;
	netrules_expire(&rules, wall_ms(), &next);
	if (net_change(b, &c, NULL, &err) < 0) {
		/* It must end: try again soon, and say why it has not yet. */
		b->net->expires_ms = wall_ms() + 1000;
		netlog_note(b->net->log, "policy", json_pack("{s:s}", "error", err.msg));
	}
	netrules_clear(&rules);
}

/* ---- the owner's loop ------------------------------------------------------------ */

int64_t net_due(const struct box *b)
{
	const struct net *n = b->net;
	int64_t wall, next = 0, ask = n && n->questions ? n->questions->since_ms : 0;

	if (!n)
		return 0;
	wall = netlog_due(n->log);
	if (n->expires_ms && (!wall || n->expires_ms < wall))
		wall = n->expires_ms;
	if (wall)
		next = mono_ms() + (wall > wall_ms() ? wall - wall_ms() : 0) + 1;
	if (n->settle_ms && (!next || n->settle_ms < next))
		next = n->settle_ms;
	if (n->log_check_ms && (!next || n->log_check_ms < next))
		next = n->log_check_ms;
	if (ask && (!next || ask + QUESTION_MS < next))
		next = ask + QUESTION_MS;
	return next;
}

void net_turn(struct box *b)
{
	struct net *n = b->net;

	if (!n)
		return;
	net_watch_ready(b);
	if (netlog_turn(n->log, wall_ms())) {
		if (b->egress)
			egress_log(b->egress, netlog_fd(n->log));
		net_watch_log(n);
	}
	if (n->log_check_ms && mono_ms() >= n->log_check_ms)
		net_watch_log(n);
	if (n->settle_ms && mono_ms() >= n->settle_ms) {
		struct cove_error ignored = {0};

		n->settle_ms = 0;
		net_reload(b, NULL, NULL, &ignored); /* it notes its own problems */
	}
	if (n->expires_ms && wall_ms() >= n->expires_ms && b->egress)
		expire(b);
	net_ask_expire(b);
}
