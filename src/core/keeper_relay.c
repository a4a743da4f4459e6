/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper_relay - streams between clients and the guest.
 *
 * Clients are this user's own programs, the guest is not trusted: what it sends is
 * checked against the credit that the client gave, so that a client's queue stays
 * bounded.
 */
#include "core/keeper_impl.h"

#include "base/util.h"

#include <stdio.h>

/* ---- routes --------------------------------------------------------------------- */

uint32_t route_new(struct keeper *k, struct client *c, uint32_t cid)
{
	for (uint32_t i = 1; i < WIRE_STREAMS_MAX; i++) {
		struct route *r = &k->routes[i];

		if (r->used)
			continue;
		*r = (struct route){.used = true, .client = c, .cid = cid};
		flow_init(&r->from_guest[0]);
		flow_init(&r->from_guest[1]);
		return i;
	}
	return 0;
}

void route_free(struct keeper *k, uint32_t slot)
{
	k->routes[slot].used = false;
}

static uint32_t route_find(const struct keeper *k, const struct client *c, uint32_t cid)
{
	for (uint32_t i = 1; i < WIRE_STREAMS_MAX; i++)
		if (k->routes[i].used && k->routes[i].client == c &&
		    k->routes[i].cid == cid)
			return i;
	return 0;
}

unsigned routes_running(const struct keeper *k)
{
	unsigned n = 0;

	for (uint32_t i = 1; i < WIRE_STREAMS_MAX; i++)
		n += k->routes[i].used && !k->routes[i].closed_by_guest;
	return n;
}

void client_fail(struct client *c, uint32_t cid, int code, int sys, const char *text,
		 const char *tip)
{
	uint8_t payload[1200];
	struct wire_out o;

	wire_out_init(&o, payload, sizeof(payload));
	wire_put_u32(&o, WIRE_A_CODE, (uint32_t)-code);
	wire_put_u32(&o, WIRE_A_ERRNO, (uint32_t)sys);
	wire_put_str(&o, WIRE_A_TEXT, text);
	if (tip && *tip)
		wire_put_str(&o, WIRE_A_HINT, tip);
	if (conn_send(&c->conn, WIRE_FAILED, 0, cid, payload, o.len) < 0 ||
	    conn_send(&c->conn, WIRE_CLOSE, 0, cid, NULL, 0) < 0)
		client_drop(c);
}

static void send_guest(struct keeper *k, const struct wire_frame *f, uint32_t slot)
{
	if (conn_send(&k->guest, f->type, f->sub, slot, f->payload, f->len) < 0) {
		snprintf(k->reason, sizeof(k->reason), "the guest does not read");
		k->ending = true;
	}
}

/* ---- from a client -------------------------------------------------------------- */

static uint32_t exec_flags(const struct wire_frame *f)
{
	struct wire_attr a;
	size_t pos = 0;
	uint32_t v = 0;

	while (wire_next_attr(f->payload, f->len, &pos, &a) > 0)
		if (a.tag == WIRE_A_FLAGS && wire_attr_u32(&a, &v) == 0)
			return v;
	return 0;
}

static void open_stream(struct keeper *k, struct client *c, const struct wire_frame *f)
{
	struct cove_error err = {0};
	uint32_t slot;

	if (route_find(k, c, f->stream)) {
		client_drop(c); /* an id in use: a broken client */
		return;
	}
	if (k->stopping) {
		client_fail(c, f->stream, COVE_ESTATE, 0, "the sandbox is stopping",
			    NULL);
		return;
	}
	if (k->paused) {
		client_fail(c, f->stream, COVE_ESTATE, 0, "the sandbox is paused",
			    "'cove resume NAME' lets it go on");
		return;
	}
	if (f->type == WIRE_EXEC && !keeper_audit_exec(k, c, f))
		return;
	if (f->type == WIRE_EXEC && (exec_flags(f) & WIRE_EXEC_MAIN) && main_accepts(k)) {
		main_start(k, c, f, exec_flags(f) & WIRE_EXEC_PTY);
		return;
	}
	slot = route_new(k, c, f->stream);
	if (!slot) {
		client_fail(c, f->stream, COVE_ESTATE, EAGAIN, "too many streams", NULL);
		return;
	}
	k->routes[slot].exec = f->type == WIRE_EXEC;
	if (f->type == WIRE_EXEC &&
	    box_exec(&k->box, slot, f->payload, f->len, &err) < 0) {
		route_free(k, slot);
		client_fail(c, f->stream, err.code, err.sys, err.msg, err.hint);
		return;
	}
	if (f->type == WIRE_EXEC)
		keeper_audit_runs(k, slot);
	send_guest(k, f, slot);
}

/* The client's WINDOW_ADD is what lets the guest send on: note it, then pass it on. */
static bool note_credit(struct route *r, const struct wire_frame *f)
{
	if (f->type != WIRE_WINDOW_ADD)
		return true;
	return f->len == 4 && f->sub >= 1 && f->sub <= 2 &&
	       flow_granted(&r->from_guest[f->sub - 1], wire_get32(f->payload)) == 0;
}

static void forward(struct keeper *k, struct client *c, const struct wire_frame *f)
{
	uint32_t slot = route_find(k, c, f->stream);
	struct route *r = &k->routes[slot];

	if (!slot)
		return; /* it crossed a CLOSE on the way */
	if (!note_credit(r, f)) {
		client_drop(c);
		return;
	}
	if (f->type == WIRE_CLOSE) {
		r->closed_by_client = true;
		if (r->closed_by_guest) {
			send_guest(k, f, slot);
			route_free(k, slot);
			return;
		}
	}
	if (!r->closed_by_guest)
		send_guest(k, f, slot);
}

void relay_from_client(struct keeper *k, struct client *c, const struct wire_frame *f)
{
	switch (f->type) {
	case WIRE_HELLO:
	case WIRE_PONG:
		return;
	case WIRE_PING:
		conn_send(&c->conn, WIRE_PONG, 0, 0, f->payload, min_size(f->len, 64));
		return;
	case WIRE_KEEPER:
		verb_from_client(k, c, f);
		return;
	case WIRE_ATTACH:
		main_attach(k, c, f);
		return;
	case WIRE_EXEC:
	case WIRE_FILE:
	case WIRE_PORT:
	case WIRE_INFO:
		open_stream(k, c, f);
		return;
	case WIRE_DATA:
	case WIRE_EOF:
	case WIRE_WINDOW_ADD:
	case WIRE_SIGNAL:
	case WIRE_RESIZE:
	case WIRE_CLOSE:
		if (f->type == WIRE_CLOSE && keeper_net_closed(k, c, f->stream))
			return;
		if (!main_from_client(k, c, f))
			forward(k, c, f);
		return;
	default:
		client_drop(c);
	}
}

void relay_client_gone(struct keeper *k, struct client *c)
{
	main_client_gone(k, c);
	freeze_client_gone(k, c);
	keeper_net_client_gone(k, c);
	for (uint32_t i = 1; i < WIRE_STREAMS_MAX; i++) {
		struct route *r = &k->routes[i];
		struct wire_frame close = {.type = WIRE_CLOSE};

		if (!r->used || r->client != c || r->is_main)
			continue;
		r->client = NULL;
		if (!r->closed_by_client)
			send_guest(k, &close, i);
		r->closed_by_client = true;
		if (r->closed_by_guest)
			route_free(k, i);
	}
}

/* ---- from the guest ------------------------------------------------------------- */

static bool is_answer(uint8_t type)
{
	static const uint8_t types[] = {WIRE_STARTED,    WIRE_FAILED, WIRE_EXIT,
					WIRE_RESULT,     WIRE_DATA,   WIRE_EOF,
					WIRE_WINDOW_ADD, WIRE_CLOSE};

	return memchr(types, type, sizeof(types)) != NULL;
}

static int guest_connection(struct keeper *k, const struct wire_frame *f)
{
	switch (f->type) {
	case WIRE_HELLO:
	case WIRE_PONG:
		return 0;
	case WIRE_PING:
		return f->len > 64 ? -EPROTO
				   : conn_send(&k->guest, WIRE_PONG, 0, 0, f->payload,
					       f->len);
	case WIRE_QUIET:
		return save_quiet(k, f);
	case WIRE_BYE:
		for (uint32_t i = 0; i < f->len && i < sizeof(k->reason) - 1; i++) {
			uint8_t ch = f->payload[i];

			k->reason[i] = ch < 0x20 || ch >= 0x7f ? '?' : (char)ch;
			k->reason[i + 1] = '\0';
		}
		return 0;
	default:
		return -EPROTO;
	}
}

int relay_from_guest(struct keeper *k, const struct wire_frame *f)
{
	struct route *r;

	if (f->stream == 0)
		return guest_connection(k, f);
	if (!is_answer(f->type))
		return -EPROTO;
	r = f->stream < WIRE_STREAMS_MAX ? &k->routes[f->stream] : NULL;
	if (!r || !r->used || r->closed_by_guest)
		return f->type >= WIRE_DATA && f->type <= WIRE_CLOSE ? 0 : -EPROTO;
	if (f->type == WIRE_EXIT)
		box_check_guards(&k->box); /* before its client goes on */
	box_guest_frame(&k->box, f);
	keeper_audit_frame(k, f);
	if (r->is_main)
		return main_from_guest(k, f);
	if (f->type == WIRE_DATA &&
	    (f->sub < 1 || f->sub > 2 ||
	     flow_received(&r->from_guest[f->sub - 1], f->len) < 0))
		return -EPROTO;
	if (f->type == WIRE_CLOSE)
		r->closed_by_guest = true;
	if (r->client && !r->closed_by_client &&
	    conn_send(&r->client->conn, f->type, f->sub, r->cid, f->payload, f->len) < 0)
		client_drop(r->client);
	if (f->type == WIRE_CLOSE && r->closed_by_client) {
		/* our CLOSE went before; the client still waits for the answer to its own
		 */
		if (r->client)
			conn_send(&r->client->conn, WIRE_CLOSE, 0, r->cid, NULL, 0);
		route_free(k, f->stream);
	}
	return 0;
}
