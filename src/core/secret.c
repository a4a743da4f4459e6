/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which value a secret has.
 *
 * `from` names exactly one source. Without it: what the caller has in hand
 * (--secret-stdin), the caller's environment, the store of `cove secret`; the first that
 * has it wins.
 */
#include "core/secret.h"

#include "base/redact.h"
#include "base/util.h"

#include <sodium.h>
#include <stdio.h>
#include <sys/stat.h>

char *secret_alloc(size_t n)
{
	char *p;

	if (sodium_init() < 0)
		return NULL;
	p = sodium_malloc(n + 1);
	if (p)
		p[n] = '\0';
	return p;
}

void secret_clear(struct secret *s)
{
	free(s->name);
	free(s->placeholder);
	free(s->hosts);
	sodium_free(s->value); /* wipes */
	*s = (struct secret){0};
}

void secrets_free(struct secrets *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		secret_clear(&s->v[i]);
	free(s->v);
	free(s);
}
DEFINE_CLEANUP(struct secrets, secrets_free)

/* ---- sources --------------------------------------------------------------------------
 */

struct search {
	struct store *store;
	const struct secret_given *given;
	size_t n_given;
	const json_t *spec; /* of this secret */
	const char *name;
};

/* Each: 0 and the value; COVE_ENOENT: not there. */
static int from_given(const struct search *q, struct secret *ret, struct cove_error *err)
{
	for (size_t i = 0; i < q->n_given; i++) {
		const struct secret_given *g = &q->given[i];

		if (strcmp(g->name, q->name) != 0)
			continue;
		if (g->n == 0 || g->n > SECRET_VALUE_MAX)
			return fail(err, COVE_EINVAL, 0, "a value has 1 to %d bytes",
				    SECRET_VALUE_MAX);
		ret->value = secret_alloc(g->n);
		if (!ret->value)
			return fail_nomem(err);
		memcpy(ret->value, g->value, g->n);
		ret->n = g->n;
		return 0;
	}
	return fail(err, COVE_ENOENT, 0, "no value was given for it");
}

static int from_env(const struct search *q, struct secret *ret, struct cove_error *err)
{
	return secret_from_env(q->name, ret, err);
}

static int from_file(const struct search *q, struct secret *ret, struct cove_error *err)
{
	return secret_from_file(
		q->name, json_string_value(json_object_get(q->spec, "path")), ret, err);
}

static int from_command(const struct search *q, struct secret *ret,
			struct cove_error *err)
{
	const json_t *list = json_object_get(q->spec, "command");
	size_t n = json_array_size(list);
	cleanup_free char **argv = calloc(n + 1, sizeof(*argv));
	int r;

	if (!argv)
		return fail_nomem(err);
	for (size_t i = 0; i < n; i++) {
		argv[i] = strdup(json_string_value(json_array_get(list, i)));
		if (!argv[i])
			n = i; /* frees what there is */
	}
	r = n && argv[n - 1] ? secret_from_command(q->name, argv, ret, err)
			     : fail_nomem(err);
	for (size_t i = 0; i < n; i++)
		free(argv[i]);
	return r;
}

static int from_store(const struct search *q, struct secret *ret, struct cove_error *err)
{
	return secret_store_get(q->store, q->name, ret, err);
}

static const struct source {
	const char *key, *label;
	int (*read)(const struct search *q, struct secret *ret, struct cove_error *err);
	bool searched; /* without `from`, in this order */
} sources[] = {
	{"stdin",   "standard input", from_given,   true },
	{"env",     "environment",    from_env,     true },
	{"store",   "store",          from_store,   true },
	{"file",    "file",           from_file,    false},
	{"command", "command",        from_command, false},
};

static int not_found(const char *name, const char *from, struct cove_error *err)
{
	if (from && strcmp(from, "stdin") == 0) {
		fail(err, COVE_EINVAL, 0,
		     "secret %s: nothing was given on standard input", name);
		return hint(err, "--secret-stdin %s reads it there", name);
	}
	if (from && strcmp(from, "env") == 0) {
		fail(err, COVE_EINVAL, 0, "secret %s: the environment does not have it",
		     name);
		return hint(err, "export %s", name);
	}
	fail(err, COVE_EINVAL, 0, "secret %s: %s", name,
	     from ? "'cove secret' has none of that name"
		  : "not on standard input (--secret-stdin), not in the environment, not "
		    "in "
		    "the store of 'cove secret'");
	return hint(err, "'cove secret set %s' keeps it", name);
}

static int find_value(const struct search *q, struct secret *ret, struct cove_error *err)
{
	const char *from = json_string_value(json_object_get(q->spec, "from"));

	for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
		const struct source *s = &sources[i];
		int r;

		if (from ? strcmp(from, s->key) != 0 : !s->searched)
			continue;
		r = s->read(q, ret, err);
		if (r == 0) {
			ret->source = s->label;
			return 0;
		}
		if (r != COVE_ENOENT)
			return wrap(err, "secret %s", q->name);
	}
	return not_found(q->name, from, err);
}

/* ---- one secret, and all of them ------------------------------------------------------
 */

static int join_hosts(const json_t *list, char **ret)
{
	cleanup_buf struct buf b = BUF_INIT(65536);
	int r = buf_append(&b, "", 0);

	for (size_t i = 0; r == 0 && i < json_array_size(list); i++)
		r = buf_printf(&b, "%s%s", i ? "," : "",
			       json_string_value(json_array_get(list, i)));
	if (r < 0)
		return r;
	free(*ret);
	*ret = buf_steal(&b);
	return 0;
}

static enum secret_inject inject_of(const json_t *o)
{
	const char *inject = json_string_value(json_object_get(o, "inject"));

	if (!inject)
		return INJECT_PLACEHOLDER;
	return strcmp(inject, "env") == 0 ? INJECT_ENV : INJECT_FILE;
}

static int resolve_one(const struct search *q, struct secret *ret, struct cove_error *err)
{
	const json_t *hosts = json_object_get(q->spec, "hosts");
	int r = find_value(q, ret, err);

	if (r < 0)
		return r;
	ret->inject = inject_of(q->spec);
	if (!ret->name)
		ret->name = strdup(q->name);
	if ((json_array_size(hosts) || !ret->hosts) && join_hosts(hosts, &ret->hosts) < 0)
		return fail_nomem(err);
	if (!ret->name || !ret->hosts)
		return fail_nomem(err);
	if (memchr(ret->value, '\0', ret->n) && ret->inject == INJECT_ENV) {
		fail(err, COVE_EINVAL, 0, "secret %s: a variable cannot hold a NUL byte",
		     q->name);
		return hint(err, "inject: file can");
	}
	if (ret->hosts[0] || ret->inject != INJECT_PLACEHOLDER)
		return 0;
	fail(err, COVE_EINVAL, 0, "secret %s: no hosts that it may be used towards",
	     q->name);
	return hint(err,
		    "--secret %s@api.example.com, or inject: env or file in the spec, "
		    "which gives the value to the sandbox",
		    q->name);
}

int secrets_resolve(struct secrets **ret, struct store *st, const struct spec *s,
		    const struct secret_given *given, size_t n_given,
		    struct cove_error *err)
{
	size_t n = json_array_size(s->secrets);
	__attribute__((cleanup(secrets_freep))) struct secrets *all = NULL;

	if (n == 0) {
		*ret = NULL;
		return 0;
	}
	if (n > SECRETS_MAX)
		return fail(err, COVE_EINVAL, 0, "secrets: more than %d", SECRETS_MAX);
	all = calloc(1, sizeof(*all));
	if (!all || !(all->v = calloc(n, sizeof(*all->v))))
		return fail_nomem(err);
	for (size_t i = 0; i < n; i++) {
		const json_t *o = json_array_get(s->secrets, i);
		struct search q = {st, given, n_given, o,
				   json_string_value(json_object_get(o, "name"))};

		if (resolve_one(&q, &all->v[all->n++], err) < 0)
			return err->code;
		redact_add(q.name, all->v[i].value, all->v[i].n);
	}
	*ret = take_ptr(all);
	return 0;
}

/* A pipe is read once, by whoever starts the sandbox; a command is run by nobody else. */
static bool can_be_known(const json_t *o)
{
	const char *from = json_string_value(json_object_get(o, "from"));
	const char *path = json_string_value(json_object_get(o, "path"));
	struct stat st;

	if (from && strcmp(from, "command") == 0)
		return false;
	return !path || path[0] == '~' || (stat(path, &st) == 0 && S_ISREG(st.st_mode));
}

struct secrets *secrets_known(struct store *st, const struct spec *s)
{
	size_t n = min_size(json_array_size(s->secrets), SECRETS_MAX);
	struct secrets *all = n ? calloc(1, sizeof(*all)) : NULL;

	if (!all || !(all->v = calloc(n, sizeof(*all->v)))) {
		free(all);
		return NULL;
	}
	for (size_t i = 0; i < n; i++) {
		const json_t *o = json_array_get(s->secrets, i);
		struct search q = {.store = st, .spec = o};
		struct secret *v = &all->v[all->n];
		struct cove_error ignored = {0};

		q.name = json_string_value(json_object_get(o, "name"));
		if (!can_be_known(o) || find_value(&q, v, &ignored) < 0) {
			secret_clear(v);
			continue;
		}
		redact_add(q.name, v->value, v->n);
		all->n++;
	}
	return all;
}

int secrets_fill_spec(const struct secrets *s, struct spec *spec, struct cove_error *err)
{
	for (size_t i = 0; s && i < s->n; i++) {
		json_t *o = json_array_get(spec->secrets, i), *list;
		const char *p = s->v[i].hosts;

		if (!o || !*p || json_array_size(json_object_get(o, "hosts")))
			continue;
		list = json_array();
		while (list && *p) {
			size_t n = strcspn(p, ",");

			json_array_append_new(list, json_stringn(p, n));
			p += n + (p[n] == ',');
		}
		if (json_object_set_new(o, "hosts", list) < 0)
			return fail_nomem(err);
	}
	return 0;
}
