/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper_ports - published ports of a named sandbox.
 *
 * The keeper is its own client here: a socket pair joins a session (core/ports.c, which
 * knows nothing of keepers) to the loop that serves every other client. So one code does
 * credit, bounds and the end of streams for both.
 */
#include "core/keeper_impl.h"

#include "base/util.h"

#include <stdio.h>
#include <sys/socket.h>

static int make(struct keeper *k, struct cove_error *err)
{
	int pair[2];
	cleanup_fd int mine = -1;

	if (k->ports)
		return 0;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return fail(err, COVE_EIO, errno, "ports");
	mine = pair[0];
	if (keeper_add_client(k, pair[1], true) < 0)
		return fail_nomem(err);
	k->ports_session = session_new(&mine, err);
	if (!k->ports_session)
		return err->code;
	k->ports = ports_new(k->ports_session, &k->store, k->box.name, err);
	if (!k->ports || keeper_watch(k, session_fd(k->ports_session), W_PORTS) < 0) {
		keeper_ports_stop(k);
		return fail(err, COVE_EIO, errno, "ports");
	}
	return 0;
}

int keeper_ports_start(struct keeper *k, struct cove_error *err)
{
	if (json_array_size(k->box.spec.ports) == 0)
		return 0;
	if (make(k, err) < 0)
		return err->code;
	return ports_add_all(k->ports, k->box.spec.ports, err);
}

void keeper_ports_stop(struct keeper *k)
{
	ports_free(take_ptr(k->ports));
	session_free(take_ptr(k->ports_session));
}

void keeper_ports_turn(struct keeper *k)
{
	struct cove_error ignored = {0};

	if (k->ports_session)
		session_turn(k->ports_session, 0, &ignored);
}

/* ---- verbs ---------------------------------------------------------------------- */

/* The record first has what then holds; a record that cannot be written changes nothing.
 */
static int save(struct keeper *k, struct spec *s, struct cove_error *err)
{
	if (keeper_audit_spec(k, s, err) < 0 ||
	    store_save(&k->store, k->box.name, s, err) < 0)
		return err->code;
	/* Only the ports differ; the rest of the old spec is what the mounts point into.
	 */
	json_decref(k->box.spec.ports);
	k->box.spec.ports = json_incref(s->ports);
	k->box.spec.given |= s->given;
	return 0;
}

/* The entry that the text means, at the end of the list of *s; NULL after a failure. */
static json_t *new_entry(struct keeper *k, struct spec *s, const char *text,
			 struct cove_error *err)
{
	size_t before = json_array_size(s->ports);

	if (spec_set(s, "ports", text, err) < 0)
		return NULL;
	if (json_array_size(s->ports) > before)
		return json_array_get(s->ports, before);
	fail(err, COVE_EEXIST, 0, "ports: %s is published already", text);
	hint(err, "'cove ports %s' shows them, 'cove unpublish' takes one back",
	     k->box.name);
	return NULL;
}

json_t *verb_publish(struct keeper *k, json_t *args, struct cove_error *err)
{
	const char *text = json_string_value(json_object_get(args, "port"));
	json_t *entry, *shown = NULL;
	struct spec s;

	if (!text) {
		fail(err, COVE_EINVAL, 0, "publish: no port");
		return NULL;
	}
	if (make(k, err) < 0 || spec_copy(&s, &k->box.spec, err) < 0)
		return NULL;
	entry = new_entry(k, &s, text, err);
	if (entry && ports_add(k->ports, entry, &shown, err) == 0 &&
	    save(k, &s, err) < 0) {
		ports_remove(k->ports, entry,
			     json_string_value(json_object_get(shown, "host")));
		json_decref(shown);
		shown = NULL;
	}
	spec_clear(&s);
	return shown;
}

json_t *verb_unpublish(struct keeper *k, json_t *args, struct cove_error *err)
{
	const char *text = json_string_value(json_object_get(args, "port"));
	int i = text ? ports_find(k->ports, k->box.spec.ports, text) : -1;
	json_t *entry;
	struct spec s;
	int r;

	if (i < 0) {
		fail(err, COVE_ENOENT, 0, "ports: %s is not published",
		     text ? text : "nothing");
		hint(err, "'cove ports %s' shows them", k->box.name);
		return NULL;
	}
	if (spec_copy(&s, &k->box.spec, err) < 0)
		return NULL;
	entry = json_incref(json_array_get(s.ports, (size_t)i));
	json_array_remove(s.ports, (size_t)i);
	r = save(k, &s, err);
	if (r == 0)
		ports_remove(k->ports, entry, text);
	json_decref(entry);
	spec_clear(&s);
	return r < 0 ? NULL : json_pack("{s:b}", "unpublished", 1);
}

json_t *verb_ports(struct keeper *k, json_t *args, struct cove_error *err)
{
	json_t *list = k->ports ? ports_json(k->ports) : json_array();

	(void)args;
	if (!list)
		fail_nomem(err);
	return list ? json_pack("{s:o}", "ports", list) : NULL;
}
