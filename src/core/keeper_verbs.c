/* SPDX-License-Identifier: Apache-2.0 */
/* keeper_verbs - what a client may ask of the keeper itself. */
#include "core/keeper_impl.h"

#include "base/redact.h"
#include "base/util.h"
#include "core/net.h"

#include <stdio.h>

typedef json_t *verb_fn(struct keeper *k, json_t *args, struct cove_error *err);

static json_t *verb_stop(struct keeper *k, json_t *args, struct cove_error *err)
{
	json_int_t grace = json_integer_value(json_object_get(args, "graceMs"));

	(void)err;
	keeper_stop(k,
		    grace < 0         ? 0
		    : grace > 3600000 ? 3600000u
				      : (uint32_t)grace,
		    "stopped");
	return json_pack("{s:b}", "stopping", 1);
}

static json_t *verb_kill(struct keeper *k, json_t *args, struct cove_error *err)
{
	(void)args;
	(void)err;
	keeper_audit_kill(k);
	k->box.place.backend->kill(&k->box.place);
	snprintf(k->reason, sizeof(k->reason), "killed");
	return json_pack("{s:b}", "killed", 1);
}

static json_t *verb_attest(struct keeper *k, json_t *args, struct cove_error *err)
{
	int n = 0;

	(void)args;
	return box_attest(&k->box, &n, err);
}

static json_t *verb_stats(struct keeper *k, json_t *args, struct cove_error *err)
{
	json_t *j = box_stats(&k->box);

	(void)args;
	if (!j)
		fail_nomem(err);
	return j;
}

static json_t *verb_state(struct keeper *k, json_t *args, struct cove_error *err)
{
	json_t *j;
	int n = 0;

	(void)args;
	for (struct client *c = k->clients; c; c = c->next)
		n += !c->dead && !c->own;
	j = json_pack("{s:s, s:i, s:i, s:I, s:i, s:b, s:i, s:o}", "backend",
		      k->box.place.backend->name, "keeperPid", (int)getpid(), "guestPid",
		      (int)k->box.place.pid, "startedAt", (json_int_t)k->box.started_at,
		      "clients", n, "mainRunning", k->main.running, "streams",
		      (int)routes_running(k), "degraded", box_degraded(&k->box));
	if (!j)
		fail_nomem(err);
	else if (k->pulse.silent_ms)
		json_object_set_new(j, "silentSeconds",
				    json_integer(k->pulse.silent_ms / 1000));
	return j;
}

static bool same_network(const struct spec *a, const struct spec *b)
{
	json_t *x = spec_json(a, true), *y = spec_json(b, true);
	bool same =
		json_equal(json_object_get(x, "network"), json_object_get(y, "network"));

	json_decref(x);
	json_decref(y);
	return same;
}

/* In force before it is written down; *ret tells about it if there was a change. */
static int update_network(struct keeper *k, const struct spec *s, json_t **ret,
			  struct cove_error *err)
{
	struct egress_change c = {0};

	if (same_network(&k->box.spec, s))
		return 0;
	if (netfile_place_ok(s, err) < 0 || net_update(&k->box, s, &c, err) < 0)
		return err->code;
	*ret = json_pack("{s:I, s:I, s:I, s:I}", "generation", (json_int_t)c.generation,
			 "rules", (json_int_t)c.rules, "us", (json_int_t)c.us, "closed",
			 (json_int_t)c.closed);
	return 0;
}

/* Limits and network of a new spec, live; the caller has made sure that nothing else
 * differs. */
static json_t *verb_update(struct keeper *k, json_t *args, struct cove_error *err)
{
	const char *text = json_string_value(json_object_get(args, "spec"));
	bool degraded = json_is_true(json_object_get(args, "degraded"));
	cleanup_buf struct buf problems = BUF_INIT(1 << 16);
	json_t *network = NULL, *answer;
	struct spec s;

	if (!text) {
		fail(err, COVE_EINVAL, 0, "update: no spec");
		return NULL;
	}
	spec_init(&s);
	if (spec_parse(&s, text, strlen(text), "update", &problems, err) < 0)
		return NULL;
	if (k->box.place.backend->set_limits(&k->box.place, &s, degraded, err) < 0 ||
	    update_network(k, &s, &network, err) < 0 ||
	    keeper_audit_spec(k, &s, err) < 0 ||
	    store_save(&k->store, k->box.name, &s, err) < 0) {
		struct cove_error ignored;

		/* back to what was in force */
		k->box.place.backend->set_limits(&k->box.place, &k->box.spec, true,
						 &ignored);
		if (network)
			net_update(&k->box, &k->box.spec, NULL, &ignored);
		net_rebase(&k->box);
		json_decref(network);
		spec_clear(&s);
		return NULL;
	}
	/* Only limits differ; the rest of the old spec is what the mounts point into. */
	k->box.spec.resources = s.resources;
	k->box.spec.given |= s.given;
	if (network)
		keeper_take_network(k, &s);
	spec_clear(&s);
	diskwatch_init(&k->box.disk, k->store.boxes, k->box.name,
		       k->box.spec.resources.disk_bytes, keeper_now());
	k->ttl_at = k->box.spec.resources.ttl_ms
			    ? keeper_now() + (int64_t)k->box.spec.resources.ttl_ms
			    : 0;
	answer = json_pack("{s:b}", "updated", 1);
	if (answer && network)
		json_object_set(answer, "network", network);
	json_decref(network);
	box_net_turn(&k->box);
	return answer;
}

static const struct {
	const char *name;
	verb_fn *fn;
} verbs[] = {
	{"stop",       verb_stop      },
	{"kill",       verb_kill      },
	{"attest",     verb_attest    },
	{"stats",      verb_stats     },
	{"state",      verb_state     },
	{"update",     verb_update    },
	{"freeze",     verb_freeze    },
	{"thaw",       verb_thaw      },
	{"save",       verb_save      },
	{"saved",      verb_saved     },
	{"pause",      verb_pause     },
	{"resume",     verb_resume    },
	{"publish",    verb_publish   },
	{"unpublish",  verb_unpublish },
	{"ports",      verb_ports     },
	{"net_add",    verb_net_add   },
	{"net_remove", verb_net_remove},
	{"net_reload", verb_net_reload},
	{"net_status", verb_net_status},
	{"net_answer", verb_net_answer},
};

static void answer(struct client *c, uint32_t cid, json_t *j)
{
	cleanup_free uint8_t *payload = malloc(WIRE_PAYLOAD_MAX);
	char *text = json_dumps(j, JSON_COMPACT);
	struct wire_out o = {.overflow = 1};

	if (redact_string(&text) == 0 && payload && text) {
		wire_out_init(&o, payload, WIRE_PAYLOAD_MAX);
		wire_put_str(&o, WIRE_A_TEXT, text);
	}
	if (!payload || !text || o.overflow)
		client_fail(c, cid, COVE_ENOMEM, ENOMEM, "answer", NULL);
	else if (conn_send(&c->conn, WIRE_RESULT, 0, cid, payload, o.len) < 0 ||
		 conn_send(&c->conn, WIRE_CLOSE, 0, cid, NULL, 0) < 0)
		client_drop(c);
	free(text);
}

static json_t *run_verb(struct keeper *k, const char *name, const char *text,
			struct cove_error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		json_error_t je;
		json_t *args, *result;

		if (strcmp(name, verbs[i].name) != 0)
			continue;
		args = *text ? json_loads(text, 0, &je) : NULL;
		result = verbs[i].fn(k, args, err);
		json_decref(args);
		return result;
	}
	fail(err, COVE_EUNSUPPORTED, 0, "the keeper does not know '%.40s'", name);
	hint(err, "it was started by another version of cove: restart the sandbox");
	return NULL;
}

void verb_from_client(struct keeper *k, struct client *c, const struct wire_frame *f)
{
	char name[64] = "";
	cleanup_free char *text = calloc(1, WIRE_PAYLOAD_MAX + 1);
	struct cove_error err = {0};
	struct wire_attr a;
	size_t pos = 0;
	json_t *j;

	while (text && wire_next_attr(f->payload, f->len, &pos, &a) > 0) {
		if (a.tag == WIRE_A_NAME)
			wire_attr_str(&a, name, sizeof(name));
		else if (a.tag == WIRE_A_TEXT)
			wire_attr_str(&a, text, WIRE_PAYLOAD_MAX + 1);
	}
	if (strcmp(name, "net_watch") == 0) { /* answered for as long as it is open */
		keeper_net_watch(k, c, f->stream);
		return;
	}
	k->asking = c;
	j = text ? run_verb(k, name, text, &err) : NULL;
	k->asking = NULL;
	if (j)
		answer(c, f->stream, j);
	else
		client_fail(c, f->stream, err.code ? err.code : COVE_ENOMEM, err.sys,
			    err.msg, err.hint);
	json_decref(j);
}
