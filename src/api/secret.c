/* SPDX-License-Identifier: Apache-2.0 */
/* secret - the store of secrets, and the values that a sandbox starts with. */
#include "core/secret.h"
#include "api/handle.h"

#include "base/redact.h"
#include "base/util.h"
#include "policy/host.h"

#include <fcntl.h>

int start_secrets(struct secrets **ret, struct store *st, const char *name,
		  const struct spec *spec, const struct cove_start_options *o,
		  struct cove_error *err)
{
	cleanup_free struct secret_given *given =
		calloc(o->n_secrets + 1, sizeof(*given));
	struct secrets *all = NULL;
	cleanup_fd int record = -1;

	if (!given)
		return fail_nomem(err);
	for (size_t i = 0; i < o->n_secrets; i++)
		given[i] = (struct secret_given){o->secrets[i].name, o->secrets[i].value,
						 o->secrets[i].size};
	if (secrets_resolve(&all, st, spec, given, o->n_secrets, err) < 0)
		return err->code;
	if (name && all)
		record = openat(st->boxes, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (all && secrets_placeholders(all, record, err) < 0) {
		secrets_free(all);
		return err->code;
	}
	*ret = all;
	return 0;
}

/* ---- the store ------------------------------------------------------------------------
 */

static int check_hosts(const char *hosts, struct cove_error *err)
{
	do {
		size_t n = strcspn(hosts, ",");
		cleanup_free char *one = strndup(hosts, n);
		char norm[HOST_MAX + 1];
		enum host_kind kind;

		if (!one)
			return fail_nomem(err);
		if (host_pattern(one, &kind, norm) < 0 || kind == HOST_ANY) {
			fail(err, COVE_EINVAL, 0, "'%.80s' is not a host", one);
			return hint(err, "write api.example.com, *.example.com or an "
					 "address");
		}
		hosts += n;
	} while (*hosts++ == ',');
	return 0;
}

static int read_value(const struct cove_secret_options *o, struct secret *ret,
		      struct cove_error *err)
{
	if (!!o->value + !!o->env + !!o->file + !!o->command != 1)
		return fail(err, COVE_EINVAL, 0, "exactly one source is needed");
	if (o->env) {
		int r = secret_from_env(o->env, ret, err);

		return r == COVE_ENOENT ? hint(err, "export %.60s", o->env) : r;
	}
	if (o->file)
		return secret_from_file(o->name, o->file, ret, err);
	if (o->command) {
		char *const *argv;

		memcpy(&argv, &o->command, sizeof(argv)); /* it is not written to */
		return secret_from_command(o->name, argv, ret, err);
	}
	if (o->value_size == 0 || o->value_size > SECRET_VALUE_MAX)
		return fail(err, COVE_EINVAL, 0, "a value has 1 to %d bytes",
			    SECRET_VALUE_MAX);
	ret->value = secret_alloc(o->value_size);
	if (!ret->value)
		return fail_nomem(err);
	memcpy(ret->value, o->value, o->value_size);
	ret->n = o->value_size;
	return 0;
}

static int open_store(struct store *st, struct cove_error *err)
{
	int r = store_open(st, err);

	if (r < 0 && !err->hint[0])
		hint(err,
		     "secrets are kept below COVE_HOME, which must be a directory that "
		     "you can write to");
	return r;
}

int cove_secret_set(const struct cove_secret_options *opt, struct cove_error *err)
{
	struct cove_secret_options o;
	struct secret s = {0};
	struct store st;
	int r;

	err = ERR(err);
	if (!opt || options_import(&o, sizeof(o), 8, opt, "secret options", err) < 0)
		return opt ? err->code : fail(err, COVE_EINVAL, 0, "no options");
	if (!o.name)
		return fail(err, COVE_EINVAL, 0, "no name");
	if (o.hosts && check_hosts(o.hosts, err) < 0)
		return wrap(err, "secret %.60s", o.name);
	if (read_value(&o, &s, err) < 0)
		return wrap(err, "secret %.60s", o.name);
	r = open_store(&st, err);
	if (r == 0) {
		r = secret_store_set(&st, o.name, s.value, s.n, o.hosts ? o.hosts : "",
				     err);
		store_close(&st);
	}
	secret_clear(&s);
	return r;
}

int cove_secret_list_json(char **ret, struct cove_error *err)
{
	struct store st;
	json_t *list;

	err = ERR(err);
	if (open_store(&st, err) < 0)
		return err->code;
	list = secret_store_list(&st, err);
	store_close(&st);
	return list ? json_out(list, ret, err) : err->code;
}

int cove_secret_remove(const char *name, struct cove_error *err)
{
	struct store st;
	int r;

	err = ERR(err);
	if (!name)
		return fail(err, COVE_EINVAL, 0, "no name");
	if (open_store(&st, err) < 0)
		return err->code;
	r = secret_store_remove(&st, name, err);
	store_close(&st);
	return r;
}
