/* SPDX-License-Identifier: Apache-2.0 */
/* keeper_setup - a keeper's guest is set up before anybody can ask it for a command. */
#include "core/keeper_impl.h"

#include "base/util.h"
#include "core/box_impl.h"
#include "core/secret.h"

#include <poll.h>
#include <sodium/utils.h>
#include <stdio.h>

/* No client's stream has this id, as they begin at the other end; it is closed before the
 * first of them comes. */
#define OWN_STREAM (WIRE_STREAMS_MAX - 1u)
#define WRITE_MS 10000

int keeper_send_setup(struct keeper *k, struct cove_error *err)
{
	uint8_t *payload;
	size_t n = 0;
	int r;

	if (!box_setup_needed(&k->box))
		return 0;
	payload = malloc(WIRE_PAYLOAD_MAX);
	if (!payload)
		return fail_nomem(err);
	r = box_setup_payload(&k->box, payload, &n, err);
	if (r == 0 && n)
		r = conn_send(&k->guest, box_setup_frame(&k->box), 0, 0, payload, n);
	sodium_memzero(payload, WIRE_PAYLOAD_MAX);
	free(payload);
	if (r < 0)
		return err->code ? err->code : fail(err, COVE_EIO, -r, "set-up");
	return 0;
}

static void note_failure(const struct wire_frame *f, const char *name,
			 struct cove_error *err)
{
	struct wire_attr a;
	uint32_t sys = 0;
	size_t pos = 0;

	while (wire_next_attr(f->payload, f->len, &pos, &a) > 0)
		if (a.tag == WIRE_A_ERRNO)
			wire_attr_u32(&a, &sys);
	fail(err, COVE_EIO, (int)sys, "secret %s: its file inside", name);
}

/* The answers to one WRITE: RESULT twice, or FAILED, then CLOSE. */
static int wait_written(struct keeper *k, const char *name, struct cove_error *err)
{
	int64_t until = keeper_now() + WRITE_MS;
	bool failed = false;

	for (;;) {
		struct pollfd p = {.fd = k->guest.fd, .events = POLLIN};
		struct wire_frame f;
		int r = 0;

		if (conn_flush(&k->guest) < 0 || keeper_now() > until)
			return fail(err, COVE_EGONE, 0, "the guest does not answer");
		while ((r = link_next(&k->guest.link, &f)) > 0) {
			if (f.stream != OWN_STREAM)
				continue;
			if (f.type == WIRE_FAILED) {
				note_failure(&f, name, err);
				failed = true;
			}
			if (f.type == WIRE_CLOSE)
				return failed ? err->code : 0;
		}
		if (r < 0 || (poll(&p, 1, 100) > 0 && link_fill(&k->guest.link) < 0))
			return fail(err, COVE_EGONE, 0, "the guest ended at once");
	}
}

static int write_secret(struct keeper *k, const struct secret *s, struct cove_error *err)
{
	char path[sizeof(SECRET_DIR) + 256];
	uint8_t request[512];
	struct wire_out o;
	int r;

	box_secret_path(s, path, sizeof(path));
	wire_out_init(&o, request, sizeof(request));
	wire_put_str(&o, WIRE_A_PATH, path);
	wire_put_u32(&o, WIRE_A_MODE, 0600);
	r = o.overflow ? -EMSGSIZE
		       : conn_send(&k->guest, WIRE_FILE, WIRE_FILE_WRITE, OWN_STREAM,
				   request, o.len);
	if (r == 0) /* within the window that every stream begins with */
		r = conn_send(&k->guest, WIRE_DATA, 0, OWN_STREAM, s->value, s->n);
	if (r == 0)
		r = conn_send(&k->guest, WIRE_EOF, 0, OWN_STREAM, NULL, 0);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "secret %s: its file inside", s->name);
	if (wait_written(k, s->name, err) < 0)
		return err->code;
	r = conn_send(&k->guest, WIRE_CLOSE, 0, OWN_STREAM, NULL, 0);
	return r < 0 ? fail(err, COVE_EIO, -r, "link") : 0;
}

int keeper_write_secrets(struct keeper *k, struct cove_error *err)
{
	const struct secrets *all = k->box.secrets;

	for (size_t i = 0; all && i < all->n; i++)
		if (all->v[i].inject == INJECT_FILE &&
		    write_secret(k, &all->v[i], err) < 0)
			return err->code;
	if (all && conn_flush(&k->guest) == 0)
		link_trim(&k->guest.link); /* injected values went through its buffer */
	return 0;
}
