/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper_net - the network of a running sandbox, as clients see and change it.
 *
 * Questions (ask-on-deny) go to every client that said it answers (verb net_watch): a
 * stream that stays open and carries a line of JSON for each. The first answer counts;
 * when the last such client is gone, what waits is refused.
 */
#include "core/keeper_impl.h"

#include "base/util.h"
#include "core/net.h"

#include <stdio.h>

struct watcher {
	struct watcher *next;
	struct client *client;
	uint32_t cid;
};

/* ---- verbs ----------------------------------------------------------------------- */

static json_t *change_json(const struct egress_change *c, const char *id)
{
	json_t *j = json_pack("{s:I, s:I, s:I, s:I}", "generation",
			      (json_int_t)c->generation, "rules", (json_int_t)c->rules,
			      "us", (json_int_t)c->us, "closed", (json_int_t)c->closed);

	if (j && id)
		json_object_set_new(j, "id", json_string(id));
	return j;
}

/* After any of them: what is due may have changed. */
static json_t *done(struct keeper *k, const struct egress_change *c, const char *id,
		    int r)
{
	box_net_turn(&k->box);
	return r < 0 ? NULL : change_json(c, id);
}

json_t *verb_net_add(struct keeper *k, json_t *args, struct cove_error *err)
{
	json_t *rule = json_object_get(args, "rule");
	int64_t until = json_integer_value(json_object_get(args, "untilMs"));
	struct egress_change c = {0};
	char id[NETRULES_ID] = "";
	int r;

	if (!json_is_object(rule)) {
		fail(err, COVE_EINVAL, 0, "net: no rule");
		return NULL;
	}
	r = net_add(&k->box, json_incref(rule), until, id, &c, err);
	return done(k, &c, id, r);
}

json_t *verb_net_remove(struct keeper *k, json_t *args, struct cove_error *err)
{
	const char *id = json_string_value(json_object_get(args, "id"));
	struct egress_change c = {0};
	int r = id ? net_remove(&k->box, id, &c, err)
		   : fail(err, COVE_EINVAL, 0, "net: no id");

	return done(k, &c, id, r);
}

/* Another file is part of the spec from now on. */
static int keep_file(struct keeper *k, const char *file, struct cove_error *err)
{
	struct spec s;
	int r = spec_copy(&s, &k->box.spec, err);

	if (r < 0)
		return r;
	r = spec_set(&s, "network.file", file, err);
	if (r == 0)
		r = netfile_place_ok(&s, err);
	if (r == 0)
		r = keeper_audit_spec(k, &s, err);
	if (r == 0)
		r = store_save(&k->store, k->box.name, &s, err);
	if (r == 0)
		keeper_take_network(k, &s);
	spec_clear(&s);
	return r;
}

json_t *verb_net_reload(struct keeper *k, json_t *args, struct cove_error *err)
{
	const char *file = json_string_value(json_object_get(args, "file"));
	struct egress_change c = {0};
	int r = net_reload(&k->box, file, &c, err);

	if (r == 0 && file &&
	    (!k->box.spec.network.file || strcmp(file, k->box.spec.network.file) != 0)) {
		struct cove_error ignored = {0};

		r = keep_file(k, file, err);
		if (r < 0 && k->box.spec.network.file)
			net_reload(&k->box, NULL, &c, &ignored);
	}
	return done(k, &c, NULL, r);
}

json_t *verb_net_status(struct keeper *k, json_t *args, struct cove_error *err)
{
	int64_t since = json_integer_value(json_object_get(args, "sinceMs"));
	json_t *j = net_status(&k->box);

	if (!j)
		fail_nomem(err);
	else
		json_object_set_new(j, "denied", net_denied(&k->box, since));
	return j;
}

json_t *verb_net_answer(struct keeper *k, json_t *args, struct cove_error *err)
{
	uint64_t id = (uint64_t)json_integer_value(json_object_get(args, "id"));
	bool allow = json_is_true(json_object_get(args, "allow"));
	bool remember = json_is_true(json_object_get(args, "remember"));

	if (net_answer(&k->box, id, allow, remember, err) < 0)
		return NULL;
	box_net_turn(&k->box);
	return json_pack("{s:b}", "answered", 1);
}

/* The network of s is the box's from now on; s gets the one before. */
void keeper_take_network(struct keeper *k, struct spec *s)
{
	__typeof__(s->network) old = k->box.spec.network;

	k->box.spec.network = s->network;
	s->network = old;
	net_rebase(&k->box);
}

/* ---- questions ------------------------------------------------------------------- */

static void send_question(struct keeper *k, const struct watcher *w, uint64_t id,
			  const json_t *question)
{
	json_t *j = json_deep_copy(question);
	cleanup_free char *line = NULL;
	cleanup_buf struct buf out = BUF_INIT(WIRE_PAYLOAD_MAX);

	(void)k;
	json_object_set_new(j, "id", json_integer((json_int_t)id));
	json_object_del(j, "t");
	line = j ? json_dumps(j, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
	json_decref(j);
	if (!line || buf_printf(&out, "%s\n", line) < 0)
		return; /* nobody answers, and the role refuses in time */
	if (conn_send(&w->client->conn, WIRE_DATA, 1, w->cid, out.data, out.len) < 0)
		client_drop(w->client);
}

static void on_question(void *arg, uint64_t id, const json_t *question)
{
	struct keeper *k = arg;

	for (struct watcher *w = k->watchers; w; w = w->next)
		if (!w->client->dead)
			send_question(k, w, id, question);
}

void keeper_net_watch(struct keeper *k, struct client *c, uint32_t cid)
{
	static const char text[] = "{\"watching\":true}";
	struct watcher *w;
	uint8_t payload[64];
	struct wire_out o;

	w = k->box.net ? calloc(1, sizeof(*w)) : NULL;
	if (!w) {
		client_fail(c, cid, COVE_ESTATE, 0,
			    "the sandbox was started without a network", NULL);
		return;
	}
	*w = (struct watcher){.next = k->watchers, .client = c, .cid = cid};
	k->watchers = w;
	net_set_ask(&k->box, on_question, k);
	wire_out_init(&o, payload, sizeof(payload));
	wire_put_str(&o, WIRE_A_TEXT, text);
	if (conn_send(&c->conn, WIRE_RESULT, 0, cid, payload, o.len) < 0)
		client_drop(c);
}

static bool drop_watchers(struct keeper *k, const struct client *c, uint32_t cid,
			  bool all)
{
	struct watcher **p = &k->watchers;
	bool any = false;

	while (*p) {
		struct watcher *w = *p;

		if (w->client != c || (!all && w->cid != cid)) {
			p = &w->next;
			continue;
		}
		*p = w->next;
		free(w);
		any = true;
	}
	if (any && !k->watchers)
		net_set_ask(&k->box, NULL, NULL);
	return any;
}

bool keeper_net_closed(struct keeper *k, struct client *c, uint32_t cid)
{
	if (!drop_watchers(k, c, cid, false))
		return false;
	if (conn_send(&c->conn, WIRE_CLOSE, 0, cid, NULL, 0) < 0)
		client_drop(c);
	return true;
}

void keeper_net_client_gone(struct keeper *k, const struct client *c)
{
	drop_watchers(k, c, 0, true);
}

/* ---- life ------------------------------------------------------------------------ */

static void on_audit(void *arg, const char *event, json_t *fields)
{
	keeper_audit_net(arg, event, fields);
}

void keeper_net_start(struct keeper *k)
{
	net_set_audit(&k->box, on_audit, k);
}

void keeper_net_hangup(struct keeper *k)
{
	struct egress_change c;
	struct cove_error err = {0};

	if (k->box.net && k->box.spec.network.file)
		net_reload(&k->box, NULL, &c, &err); /* it notes its own problems */
	box_net_turn(&k->box);
}

void keeper_net_stop(struct keeper *k)
{
	net_set_audit(&k->box, NULL, NULL);
	while (k->watchers) {
		struct watcher *w = k->watchers;

		k->watchers = w->next;
		free(w);
	}
}
