/* SPDX-License-Identifier: Apache-2.0 */
#include "core/request.h"

#include "base/util.h"
#include "core/box.h"

#include <stdio.h>

#define ENV_MAX 1024

struct env {
	const char *v[ENV_MAX];
	size_t n;
};

static size_t name_len(const char *kv)
{
	return strcspn(kv, "=");
}

/* A later value of the same name wins. */
static int env_put(struct env *e, const char *kv, struct cove_error *err)
{
	size_t len = name_len(kv);

	if (kv[len] != '=' || len == 0)
		return fail(err, COVE_EINVAL, 0, "environment: '%.60s' is not NAME=VALUE",
			    kv);
	for (size_t i = 0; i < e->n; i++)
		if (name_len(e->v[i]) == len && memcmp(e->v[i], kv, len) == 0) {
			e->v[i] = kv;
			return 0;
		}
	if (e->n == ENV_MAX)
		return fail(err, COVE_EINVAL, 0, "environment: more than %d names",
			    ENV_MAX);
	e->v[e->n++] = kv;
	return 0;
}

int request_exec(struct wire_out *out, const struct spec *spec, const char *name,
		 const struct cove_exec_options *o, uint32_t flags,
		 struct cove_error *err)
{
	char home_kv[256], user_kv[128], log_kv[128], name_kv[128], term_kv[128];
	const char *home, *user, *cwd = o->cwd ? o->cwd : spec->exec.workdir;
	struct env e = {.n = 0};
	uid_t uid;
	gid_t gid;
	int r = 0;

	if (box_user(spec, &uid, &gid, &home, &user, err) < 0)
		return err->code;
	snprintf(home_kv, sizeof(home_kv), "HOME=%s", home);
	snprintf(user_kv, sizeof(user_kv), "USER=%s", user);
	snprintf(log_kv, sizeof(log_kv), "LOGNAME=%s", user);
	snprintf(name_kv, sizeof(name_kv), "COVE_SANDBOX=%s", name);
	const char *const base[] = {
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		home_kv,
		user_kv,
		log_kv,
		"SHELL=/bin/sh",
		name_kv,
	};
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(base); i++)
		r = env_put(&e, base[i], err);
	if (r == 0 && o->term && *o->term) {
		snprintf(term_kv, sizeof(term_kv), "TERM=%s", o->term);
		r = env_put(&e, term_kv, err);
	}
	for (size_t i = 0; r == 0 && i < spec->exec.env.n; i++)
		r = env_put(&e, spec->exec.env.v[i], err);
	for (size_t i = 0; r == 0 && o->env && o->env[i]; i++)
		r = env_put(&e, o->env[i], err);
	if (r < 0)
		return r;
	wire_put_u32(out, WIRE_A_FLAGS, flags);
	if (o->agent)
		wire_put_str(out, WIRE_A_AGENT, o->agent);
	if (o->tool)
		wire_put_str(out, WIRE_A_TOOL, o->tool);
	for (size_t i = 0; o->argv[i]; i++)
		wire_put_str(out, WIRE_A_ARG, o->argv[i]);
	for (size_t i = 0; i < e.n; i++)
		wire_put_str(out, WIRE_A_ENV, e.v[i]);
	wire_put_str(out, WIRE_A_CWD, cwd ? cwd : home);
	if (flags & WIRE_EXEC_PTY) {
		wire_put_u32(out, WIRE_A_ROWS, o->rows ? o->rows : 24);
		wire_put_u32(out, WIRE_A_COLS, o->cols ? o->cols : 80);
	}
	if (out->overflow) {
		fail(err, COVE_EINVAL, E2BIG, "arguments and environment");
		return hint(err, "together they may have %u bytes", WIRE_PAYLOAD_MAX);
	}
	return 0;
}
