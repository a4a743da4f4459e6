/* SPDX-License-Identifier: Apache-2.0 */
/* ports - publishing ports of a sandbox by name, running or not. */
#include "core/ports.h"
#include "api/handle.h"

#include "base/util.h"
#include "core/audit.h"

/* ---- a sandbox that does not run: its record ------------------------------------ */

static int add_entry(struct spec *s, const char *port, json_t **ret,
		     struct cove_error *err)
{
	size_t before = json_array_size(s->ports);
	json_t *list;

	if (spec_set(s, "ports", port, err) < 0)
		return err->code;
	if (json_array_size(s->ports) == before)
		return fail(err, COVE_EEXIST, 0, "ports: %s is published already", port);
	list = ports_list(s->ports);
	*ret = json_incref(json_array_get(list, before));
	json_decref(list);
	return 0;
}

static int remove_entry(struct spec *s, const char *port, struct cove_error *err)
{
	int i = ports_find(NULL, s->ports, port);

	if (i < 0)
		return fail(err, COVE_ENOENT, 0, "ports: %s is not published", port);
	return json_array_remove(s->ports, (size_t)i) < 0 ? fail_nomem(err) : 0;
}

/* ret_shown NULL: takes it back. */
static int change_record(struct store *st, const char *name, const char *port,
			 json_t **ret_shown, struct cove_error *err)
{
	struct spec old, new;
	int lock = -1, r = store_lock(st, name, &lock, err);

	if (r < 0)
		return r;
	r = store_load(st, name, &old, err);
	if (r == 0) {
		r = spec_copy(&new, &old, err);
		if (r == 0) {
			r = ret_shown ? add_entry(&new, port, ret_shown, err)
				      : remove_entry(&new, port, err);
			if (r == 0)
				r = audit_log_spec(st, name, &old, &new, err);
			if (r == 0)
				r = store_save(st, name, &new, err);
			spec_clear(&new);
		}
		spec_clear(&old);
	}
	store_clear_run(st, name);
	close_fd(&lock);
	return r;
}

/* ---- both ----------------------------------------------------------------------- */

/* Through its keeper, or without one in the record. */
static int change(const char *name, const char *port, const char *verb,
		  json_t **ret_shown, struct cove_error *err)
{
	struct cove *s = NULL;
	struct store st;
	int r;

	if (!name || !port)
		return fail(err, COVE_EINVAL, 0, "a name and a port are needed");
	if (handle_store(&st, err) < 0)
		return err->code;
	if (store_exists(&st, name) && !store_is_running(&st, name)) {
		r = change_record(&st, name, port, ret_shown, err);
	} else {
		r = cove_connect(&s, name, err);
		if (r == 0)
			r = session_keeper(s->session, verb,
					   json_pack("{s:s}", "port", port), ret_shown,
					   err);
		cove_free(s);
	}
	store_close(&st);
	return r;
}

int cove_publish(const char *name, const char *port, char **ret_json,
		 struct cove_error *err)
{
	json_t *shown = NULL;
	int r;

	err = ERR(err);
	r = change(name, port, "publish", &shown, err);
	if (r < 0 || !ret_json) {
		json_decref(shown);
		return r;
	}
	return json_out(shown, ret_json, err);
}

int cove_unpublish(const char *name, const char *port, struct cove_error *err)
{
	return change(name, port, "unpublish", NULL, ERR(err));
}

/* The list out of {"ports": list}. */
static json_t *take_list(json_t *answer)
{
	json_t *list = json_incref(json_object_get(answer, "ports"));

	json_decref(answer);
	return list;
}

int cove_ports_json(const char *name, char **ret, struct cove_error *err)
{
	struct cove *s = NULL;
	struct store st;
	struct spec spec;
	json_t *answer = NULL, *list = NULL;
	int r;

	err = ERR(err);
	if (!name)
		return fail(err, COVE_EINVAL, 0, "no name");
	if (handle_store(&st, err) < 0)
		return err->code;
	r = store_load(&st, name, &spec, err);
	if (r == 0 && !store_is_running(&st, name))
		list = ports_list(spec.ports);
	if (r == 0)
		spec_clear(&spec);
	store_close(&st);
	if (r < 0 || list)
		return r < 0 ? r : json_out(list, ret, err);
	r = cove_connect(&s, name, err);
	if (r == 0)
		r = session_keeper(s->session, "ports", NULL, &answer, err);
	cove_free(s);
	return r < 0 ? r : json_out(take_list(answer), ret, err);
}

int cove_ports_handle_json(struct cove *s, char **ret, struct cove_error *err)
{
	json_t *answer = NULL;
	int r;

	err = ERR(err);
	if (s->inproc)
		return json_out(s->ports ? ports_json(s->ports) : json_array(), ret, err);
	if (!s->session)
		return fail(err, COVE_EGONE, 0, "the sandbox has ended");
	r = session_keeper(s->session, "ports", NULL, &answer, err);
	return r < 0 ? r : json_out(take_list(answer), ret, err);
}
