/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit_event - what records say about commands and specs, and what they never say:
 * values of the environment, of secrets, and what goes in and out of a process.
 */
#include "core/audit.h"

#include "base/util.h"
#include "ipc/wire.h"

#define ARGV_MAX 4096  /* bytes of all arguments together */
#define NAMES_MAX 2048 /* of all names of the environment */
#define CWD_MAX 4096

/* ---- exec ------------------------------------------------------------------------ */

struct strings {
	json_t *list;
	size_t left; /* bytes */
	bool cut;
};

static void add(struct strings *s, const void *data, size_t n)
{
	if (s->left == 0) {
		s->cut = true;
		return;
	}
	json_array_append_new(s->list, audit_text(data, n, s->left));
	s->cut |= n > s->left;
	s->left -= min_size(n + 1, s->left);
}

static size_t name_len(const struct wire_attr *a)
{
	const char *eq = memchr(a->data, '=', a->len);

	return eq ? (size_t)(eq - (const char *)a->data) : a->len;
}

json_t *audit_exec(const void *payload, size_t n, const struct spec *s)
{
	struct strings argv = {json_array(), ARGV_MAX, false};
	struct strings env = {json_array(), NAMES_MAX, false};
	json_t *j = json_object(), *cwd = NULL;
	const char *user = s->exec.user && *s->exec.user ? s->exec.user : "agent";
	uint32_t flags = 0, uid;
	struct wire_attr a;
	size_t pos = 0;

	while (wire_next_attr(payload, n, &pos, &a) > 0) {
		if (a.tag == WIRE_A_ARG)
			add(&argv, a.data, a.len);
		else if (a.tag == WIRE_A_ENV)
			add(&env, a.data, name_len(&a));
		else if (a.tag == WIRE_A_CWD && !cwd)
			cwd = audit_text((const char *)a.data, a.len, CWD_MAX);
		else if (a.tag == WIRE_A_FLAGS)
			wire_attr_u32(&a, &flags);
		else if (a.tag == WIRE_A_UID && wire_attr_u32(&a, &uid) == 0)
			json_object_set_new(j, "insideUid", json_integer(uid));
	}
	json_object_set_new(j, "argv", argv.list);
	if (argv.cut)
		json_object_set_new(j, "argvCut", json_true());
	json_object_set_new(j, "cwd", cwd ? cwd : json_string(""));
	json_object_set_new(j, "user", json_string(user));
	json_object_set_new(j, "tty", json_boolean(flags & WIRE_EXEC_PTY));
	if (flags & WIRE_EXEC_MAIN)
		json_object_set_new(j, "main", json_true());
	json_object_set_new(j, "env", env.list);
	if (env.cut)
		json_object_set_new(j, "envCut", json_true());
	return j;
}

/* ---- specs ----------------------------------------------------------------------- */

/* {"K":"V"} becomes ["K"]. */
static json_t *only_keys(json_t *object)
{
	json_t *names = json_array(), *value;
	const char *key;

	json_object_foreach(object, key, value)
		json_array_append_new(names, json_string(key));
	return names;
}

static json_t *only_names(json_t *secrets)
{
	json_t *names = json_array(), *s;
	size_t i;

	json_array_foreach(secrets, i, s) json_array_append(
		names, json_is_object(s) ? json_object_get(s, "name") : s);
	return names;
}

json_t *audit_spec(const struct spec *s)
{
	json_t *j = spec_json(s, false), *exec = json_object_get(j, "exec");
	json_t *env = json_object_get(exec, "env"),
	       *secrets = json_object_get(j, "secrets");

	if (json_is_object(env))
		json_object_set_new(exec, "env", only_keys(env));
	else if (env)
		json_object_del(exec, "env");
	if (json_array_size(secrets))
		json_object_set_new(j, "secrets", only_names(secrets));
	return j;
}

struct difference {
	json_t *keys, *old, *new;
};

static void note(struct difference *d, const char *name, json_t *old, json_t *new)
{
	if (old == new || (old && new &&json_equal(old, new)))
		return;
	json_array_append_new(d->keys, json_string(name));
	json_object_set(d->old, name, old ? old : json_null());
	json_object_set(d->new, name, new ? new : json_null());
}

/* The members of both, with a dotted prefix. */
static void compare(struct difference *d, const char *prefix, json_t *old, json_t *new)
{
	json_t *both = json_object(), *value;
	const char *key;

	json_object_update(both, old);
	json_object_update_missing(both, new);
	json_object_foreach(both, key, value)
	{
		json_t *a = json_object_get(old, key), *b = json_object_get(new, key);
		char name[200];

		snprintf(name, sizeof(name), "%s%s%s", prefix, *prefix ? "." : "", key);
		if (!*prefix && json_is_object(a) && json_is_object(b))
			compare(d, key, a, b);
		else
			note(d, name, a, b);
	}
	json_decref(both);
}

/* A value of the environment that changed under the same name is not seen in the names,
 * but that it changed is worth a word. */
static void compare_env(struct difference *d, const struct spec *old,
			const struct spec *new)
{
	bool same = old->exec.env.n == new->exec.env.n;

	for (size_t i = 0; same && i < old->exec.env.n; i++)
		same = strcmp(old->exec.env.v[i], new->exec.env.v[i]) == 0;
	if (!same && !json_object_get(d->new, "exec.env"))
		json_array_append_new(d->keys, json_string("exec.env"));
}

json_t *audit_spec_change(const struct spec *old, const struct spec *new)
{
	json_t *a = audit_spec(old), *b = audit_spec(new);
	struct difference d = {json_array(), json_object(), json_object()};

	compare(&d, "", a, b);
	compare_env(&d, old, new);
	json_decref(a);
	json_decref(b);
	if (json_array_size(d.keys))
		return json_pack("{s:o, s:o, s:o}", "keys", d.keys, "old", d.old, "new",
				 d.new);
	json_decref(d.keys);
	json_decref(d.old);
	json_decref(d.new);
	return NULL;
}

int audit_log_spec(struct store *st, const char *name, const struct spec *old,
		   const struct spec *new, struct cove_error *err)
{
	json_t *j = audit_spec_change(old, new);

	if (!j)
		return 0;
	json_object_set_new(j, "uid", json_integer(getuid()));
	return audit_log(st, name, "spec", j, err);
}
