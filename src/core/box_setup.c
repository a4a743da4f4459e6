/* SPDX-License-Identifier: Apache-2.0 */
/*
 * box_setup - what a guest is told before its first command: the environment that every
 * command begins with (where certificates are, what stands for the secrets), and the
 * secrets that are to be files inside.
 */
#include "core/box_impl.h"

#include "base/util.h"
#include "core/files.h"
#include "core/secret.h"
#include "core/session.h"
#include "core/trustfiles.h"
#include "ipc/wire.h"

#include <sodium/utils.h>
#include <stdio.h>

static bool has_files(const struct box *b)
{
	for (size_t i = 0; b->secrets && i < b->secrets->n; i++)
		if (b->secrets->v[i].inject == INJECT_FILE)
			return true;
	return false;
}

void box_secret_path(const struct secret *s, char *out, size_t size)
{
	snprintf(out, size, "%s/%s", SECRET_DIR, s->name);
}

static int put_secret(struct wire_out *o, const struct secret *s)
{
	char path[sizeof(SECRET_DIR) + 256];
	const char *value = s->placeholder;
	size_t n_name = strlen(s->name), n;
	bool file = s->inject == INJECT_FILE;
	char *kv;

	if (file) {
		box_secret_path(s, path, sizeof(path));
		value = path;
	} else if (s->inject == INJECT_ENV) {
		value = s->value;
	}
	n = value ? strlen(value) : 0;
	kv = secret_alloc(n_name + 6 + n);
	if (!kv)
		return -ENOMEM;
	memcpy(kv, s->name, n_name);
	memcpy(kv + n_name, file ? "_FILE=" : "=", file ? 6 : 1);
	n_name += file ? 6 : 1;
	if (n)
		memcpy(kv + n_name, value, n);
	wire_put_attr(o, WIRE_A_ENV, kv, n_name + n);
	sodium_free(kv);
	return 0;
}

/* For a guest that has been set up in another life. */
static int resume_payload(const struct box *b, struct wire_out *o, size_t *ret_n,
			  struct cove_error *err)
{
	if (b->place.backend->saver->resume(&b->place, &b->config, o, err) < 0)
		return err->code;
	wire_put_u32(o, WIRE_A_STREAM, b->state_stream);
	*ret_n = o->len;
	return o->overflow ? fail(err, COVE_EINVAL, 0, "resume: too large") : 0;
}

int box_setup_payload(const struct box *b, uint8_t *payload, size_t *ret_n,
		      struct cove_error *err)
{
	struct wire_out o;
	size_t n;
	const char *const *env = trustfiles_env(b, &n);

	wire_out_init(&o, payload, WIRE_PAYLOAD_MAX);
	for (size_t i = 0; i < n; i++)
		wire_put_str(&o, WIRE_A_ENV, env[i]);
	for (size_t i = 0; b->secrets && i < b->secrets->n; i++)
		if (put_secret(&o, &b->secrets->v[i]) < 0)
			return fail_nomem(err);
	if (b->state)
		return resume_payload(b, &o, ret_n, err);
	if (has_files(b))
		wire_put_str(&o, WIRE_A_PATH, SECRET_DIR);
	if (b->place.backend->setup &&
	    b->place.backend->setup(&b->place, &b->config, &o, err) < 0)
		return err->code;
	if (o.overflow) {
		fail(err, COVE_EINVAL, 0,
		     "secrets: together too large for an environment");
		return hint(err, "inject: file takes larger ones");
	}
	*ret_n = o.len;
	return 0;
}

uint8_t box_setup_frame(const struct box *b)
{
	return b->state || b->place.resumes ? WIRE_RESUME : WIRE_SETUP;
}

bool box_setup_needed(const struct box *b)
{
	size_t n;

	trustfiles_env(b, &n);
	return b->secrets || n || b->place.backend->setup;
}

int box_setup(const struct box *b, struct session *s, struct cove_error *err)
{
	uint8_t *payload;
	size_t n = 0;
	int r;

	if (!box_setup_needed(b))
		return 0;
	payload = malloc(WIRE_PAYLOAD_MAX);
	if (!payload)
		return fail_nomem(err);
	r = box_setup_payload(b, payload, &n, err);
	if (r == 0 && n)
		r = link_send(session_link(s), box_setup_frame(b), 0, 0, payload, n);
	sodium_memzero(payload, WIRE_PAYLOAD_MAX);
	free(payload);
	if (r < 0)
		return err->code ? err->code : fail(err, COVE_EIO, -r, "set-up");
	for (size_t i = 0; b->secrets && i < b->secrets->n; i++) {
		const struct secret *v = &b->secrets->v[i];
		char path[sizeof(SECRET_DIR) + 256];

		if (v->inject != INJECT_FILE)
			continue;
		box_secret_path(v, path, sizeof(path));
		if (file_write(s, path, 0600, v->value, v->n, err) < 0)
			return wrap(err, "secret %s", v->name);
	}
	return 0;
}
