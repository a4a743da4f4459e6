/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper_main - the main session: one process that belongs to the keeper, watched by any
 * number of clients.
 *
 * Output is a list of chunks. The list keeps RING_MAX bytes for those who join later, and
 * beyond that whatever the primary viewer (who started the session) has not been sent
 * yet: it gets every byte, and the guest gets credit back only as the primary is served.
 * Others who fall behind the list skip forward. Without a primary the guest is never held
 * back.
 */
#include "core/keeper_impl.h"

#include "base/io.h"
#include "base/redact.h"
#include "base/util.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

bool main_accepts(const struct keeper *k)
{
	return !k->main.running;
}

static struct viewer *primary(const struct keeper *k)
{
	for (struct viewer *v = k->main.viewers; v; v = v->next)
		if (v->primary)
			return v;
	return NULL;
}

static void to_guest(struct keeper *k, uint8_t type, uint8_t sub, const void *p, size_t n)
{
	if (k->main.slot && conn_send(&k->guest, type, sub, k->main.slot, p, n) < 0)
		k->ending = true;
}

/* ---- beginning and end ---------------------------------------------------------- */

static void drop_chunks(struct main_session *m)
{
	while (m->first) {
		struct chunk *c = m->first;

		m->first = c->next;
		free(c);
	}
	m->last = NULL;
	m->bytes = 0;
}

static void open_log(struct keeper *k)
{
	char path[SPEC_NAME_MAX + 16];
	struct stat st;

	snprintf(path, sizeof(path), "%s/log", k->box.name);
	close_fd(&k->main.log);
	k->main.log =
		openat(k->store.boxes, path,
		       O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	k->main.log_bytes = k->main.log >= 0 && fstat(k->main.log, &st) == 0
				    ? (uint64_t)st.st_size
				    : 0;
}

static void log_output(struct keeper *k, const void *data, size_t n)
{
	char from[SPEC_NAME_MAX + 16], to[SPEC_NAME_MAX + 16];

	if (k->main.log < 0)
		return;
	if (k->main.log_bytes > LOG_MAX) {
		snprintf(from, sizeof(from), "%s/log", k->box.name);
		snprintf(to, sizeof(to), "%s/log.old", k->box.name);
		if (renameat(k->store.boxes, from, k->store.boxes, to) == 0)
			open_log(k);
	}
	/* A full disk must not stop the session: the log is cut short then. */
	if (k->main.log >= 0 && write_all(k->main.log, data, n) == 0)
		k->main.log_bytes += n;
}

/* What is kept on disk has no value that we know. What may be the beginning of one waits
 * for the rest of it; out of memory, the log has a gap. */
static void log_redacted(struct keeper *k, const void *data, size_t n, bool last)
{
	struct buf *held = &k->main.log_held;
	cleanup_buf struct buf clean = BUF_INIT(4u << 20);
	size_t safe;

	if (redact_empty()) {
		if (n)
			log_output(k, data, n);
		return;
	}
	held->max = 2u << 20;
	if (buf_append(held, data, n) < 0 || held->len == 0)
		return;
	safe = last ? held->len : redact_safe(held->data, held->len);
	if (redact_bytes(held->data, safe, &clean) == 0 && clean.len)
		log_output(k, clean.data, clean.len);
	buf_consume(held, safe);
}

static struct viewer *add_viewer(struct keeper *k, struct client *c, uint32_t cid,
				 bool first)
{
	struct viewer *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	v->client = c;
	v->cid = cid;
	v->primary = first;
	v->credit[0] = v->credit[1] = WIRE_WINDOW;
	v->seq = k->main.first ? k->main.first->seq : k->main.next_seq;
	v->next = k->main.viewers;
	k->main.viewers = v;
	return v;
}

static void free_viewer(struct keeper *k, struct viewer *v)
{
	struct viewer **p = &k->main.viewers;

	while (*p && *p != v)
		p = &(*p)->next;
	if (*p)
		*p = v->next;
	free(v);
}

static void begin(struct keeper *k, uint32_t slot, bool pty)
{
	struct main_session *m = &k->main;

	k->routes[slot].is_main = true;
	buf_clear(&m->in);
	buf_clear(&m->exit_payload);
	m->slot = slot;
	m->running = true;
	m->exited = m->in_eof = false;
	m->pty = pty;
	m->pid = 0;
	m->in_credit = WIRE_WINDOW;
	m->uncredited[0] = m->uncredited[1] = 0;
	flow_init(&m->flow[0]);
	flow_init(&m->flow[1]);
	if (m->log < 0)
		open_log(k);
}

void main_adopt(struct keeper *k, uint32_t slot, uint32_t pid, bool pty)
{
	k->routes[slot] = (struct route){.used = true, .exec = true};
	begin(k, slot, pty);
	k->main.pid = pid;
}

void main_start(struct keeper *k, struct client *c, const struct wire_frame *f, bool pty)
{
	struct main_session *m = &k->main;
	struct cove_error err = {0};
	uint32_t slot = route_new(k, NULL, 0);

	if (slot && box_exec(&k->box, slot, f->payload, f->len, &err) < 0) {
		route_free(k, slot);
		client_fail(c, f->stream, err.code, err.sys, err.msg, err.hint);
		return;
	}
	drop_chunks(m); /* first: a viewer begins at what the ring holds */
	if (!slot || !add_viewer(k, c, f->stream, true)) {
		if (slot)
			route_free(k, slot);
		client_fail(c, f->stream, COVE_ENOMEM, ENOMEM, "main session", NULL);
		return;
	}
	keeper_audit_runs(k, slot);
	begin(k, slot, pty);
	to_guest(k, WIRE_EXEC, 0, f->payload, f->len);
}

void main_attach(struct keeper *k, struct client *c, const struct wire_frame *f)
{
	struct viewer *v;

	if (!k->main.running && !k->main.exited) {
		client_fail(c, f->stream, COVE_ESTATE, 0, "there is no main session",
			    "'cove run NAME -- COMMAND' starts one");
		return;
	}
	if (!keeper_audit_attach(k, c, f))
		return;
	v = add_viewer(k, c, f->stream, false);
	if (!v) {
		client_fail(c, f->stream, COVE_ENOMEM, ENOMEM, "attach", NULL);
		return;
	}
	main_pump(k);
}

void main_clear(struct keeper *k)
{
	struct main_session *m = &k->main;

	while (m->viewers)
		free_viewer(k, m->viewers);
	drop_chunks(m);
	buf_clear(&m->in);
	buf_clear(&m->exit_payload);
	buf_clear(&m->log_held);
	close_fd(&m->log);
}

/* ---- output --------------------------------------------------------------------- */

/* Gives the guest credit for n bytes of descriptor fd. */
static void credit_guest(struct keeper *k, int fd, size_t n)
{
	struct main_session *m = &k->main;
	uint32_t credit;
	uint8_t le[4];

	n = min_size(n, m->uncredited[fd]);
	m->uncredited[fd] -= (uint32_t)n;
	credit = flow_consumed(&m->flow[fd], n);
	if (credit && m->running) {
		wire_set32(le, credit);
		to_guest(k, WIRE_WINDOW_ADD, (uint8_t)(fd + 1), le, sizeof(le));
	}
}

static void credit_all(struct keeper *k)
{
	for (int fd = 0; fd < 2; fd++)
		credit_guest(k, fd, k->main.uncredited[fd]);
}

static void trim(struct keeper *k)
{
	struct main_session *m = &k->main;
	struct viewer *p = primary(k);

	while (m->first && m->bytes > RING_MAX && (!p || m->first->seq < p->seq)) {
		struct chunk *c = m->first;

		m->first = c->next;
		if (!m->first)
			m->last = NULL;
		m->bytes -= c->len;
		free(c);
	}
}

static const struct chunk *chunk_at(const struct main_session *m, struct viewer *v)
{
	const struct chunk *c = m->first;

	if (c && v->seq < c->seq) { /* fell behind the ring */
		v->seq = c->seq;
		v->offset = 0;
	}
	while (c && c->seq < v->seq)
		c = c->next;
	return c;
}

static int send_viewer(struct viewer *v, uint8_t type, uint8_t sub, const void *p,
		       size_t n)
{
	return conn_send(&v->client->conn, type, sub, v->cid, p, n);
}

static int begin_viewer(struct keeper *k, struct viewer *v)
{
	uint8_t payload[16];
	struct wire_out o;

	if (v->started_sent || !k->main.pid)
		return 0;
	wire_out_init(&o, payload, sizeof(payload));
	wire_put_u32(&o, WIRE_A_PID, k->main.pid);
	v->started_sent = true;
	return send_viewer(v, WIRE_STARTED, 0, payload, o.len);
}

static int serve_output(struct keeper *k, struct viewer *v)
{
	const struct chunk *c;
	int r = 0;

	while (r == 0 && (c = chunk_at(&k->main, v))) {
		size_t n = min_size(c->len - v->offset, v->credit[c->fd]);

		if (n == 0)
			break;
		r = send_viewer(v, WIRE_DATA, (uint8_t)(c->fd + 1), c->data + v->offset,
				n);
		v->credit[c->fd] -= (uint32_t)n;
		v->offset += n;
		if (v->primary)
			credit_guest(k, c->fd, n);
		if (v->offset == c->len) {
			v->seq++;
			v->offset = 0;
		}
	}
	return r;
}

static int end_viewer(struct keeper *k, struct viewer *v)
{
	struct main_session *m = &k->main;
	int r;

	if (!m->exited || v->exit_sent || v->seq < m->next_seq)
		return 0;
	v->exit_sent = true;
	r = send_viewer(v, m->exit_type, 0, m->exit_payload.data, m->exit_payload.len);
	return r < 0 ? r : send_viewer(v, WIRE_CLOSE, 0, NULL, 0);
}

void main_pump(struct keeper *k)
{
	for (struct viewer *v = k->main.viewers, *next; v; v = next) {
		next = v->next;
		if (v->client->dead)
			continue;
		if (begin_viewer(k, v) < 0 || serve_output(k, v) < 0 ||
		    end_viewer(k, v) < 0)
			client_drop(v->client);
	}
	trim(k);
}

static int take_output(struct keeper *k, const struct wire_frame *f)
{
	struct main_session *m = &k->main;
	struct chunk *c;

	if (f->len == 0 || f->sub < 1 || f->sub > 2 || m->exited ||
	    flow_received(&m->flow[f->sub - 1], f->len) < 0)
		return -EPROTO;
	c = malloc(sizeof(*c) + f->len);
	if (!c)
		return -ENOMEM;
	*c = (struct chunk){
		.seq = m->next_seq++, .fd = (uint8_t)(f->sub - 1), .len = f->len};
	memcpy(c->data, f->payload, f->len);
	if (m->last)
		m->last->next = c;
	else
		m->first = c;
	m->last = c;
	m->bytes += c->len;
	m->uncredited[c->fd] += (uint32_t)c->len;
	log_redacted(k, c->data, c->len, false);
	if (!primary(k))
		credit_all(k);
	return 0;
}

/* ---- input ---------------------------------------------------------------------- */

static void pump_stdin(struct keeper *k)
{
	struct main_session *m = &k->main;

	while (m->in.len && m->in_credit && m->running) {
		size_t n = min_size(min_size(m->in.len, m->in_credit), WIRE_PAYLOAD_MAX);

		to_guest(k, WIRE_DATA, 0, m->in.data, n);
		m->in_credit -= (uint32_t)n;
		buf_consume(&m->in, n);
	}
	if (m->in.len == 0 && m->in_eof && m->running) {
		to_guest(k, WIRE_EOF, 0, NULL, 0);
		m->in_eof = false;
	}
	for (struct viewer *v = m->viewers; m->in.len < WIRE_WINDOW / 2 && v;
	     v = v->next) {
		uint8_t le[4];

		if (!v->owed)
			continue;
		wire_set32(le, v->owed);
		v->owed = 0;
		if (send_viewer(v, WIRE_WINDOW_ADD, 0, le, sizeof(le)) < 0)
			client_drop(v->client);
	}
}

static void take_input(struct keeper *k, struct viewer *v, const struct wire_frame *f)
{
	if (f->sub != 0)
		return;
	if (buf_append(&k->main.in, f->payload, f->len) < 0) {
		client_drop(v->client);
		return;
	}
	v->owed += f->len;
	pump_stdin(k);
}

/* ---- frames --------------------------------------------------------------------- */

static int guest_ended(struct keeper *k, const struct wire_frame *f)
{
	struct main_session *m = &k->main;

	if (m->exited)
		return -EPROTO;
	m->exited = true;
	log_redacted(k, NULL, 0, true);
	m->exit_type = f->type;
	buf_clear(&m->exit_payload);
	return buf_append(&m->exit_payload, f->payload, f->len);
}

int main_from_guest(struct keeper *k, const struct wire_frame *f)
{
	struct main_session *m = &k->main;
	struct wire_attr a;
	size_t pos = 0;
	int r = 0;

	switch (f->type) {
	case WIRE_STARTED:
		if (wire_next_attr(f->payload, f->len, &pos, &a) <= 0 ||
		    a.tag != WIRE_A_PID || wire_attr_u32(&a, &m->pid) < 0)
			return -EPROTO;
		break;
	case WIRE_DATA:
		r = take_output(k, f);
		break;
	case WIRE_EOF:
		break;
	case WIRE_WINDOW_ADD:
		if (f->len != 4 || wire_get32(f->payload) > WIRE_WINDOW)
			return -EPROTO;
		m->in_credit += wire_get32(f->payload);
		pump_stdin(k);
		break;
	case WIRE_EXIT:
	case WIRE_FAILED:
		r = guest_ended(k, f);
		break;
	case WIRE_CLOSE:
		to_guest(k, WIRE_CLOSE, 0, NULL, 0);
		route_free(k, m->slot);
		m->slot = 0;
		m->running = false;
		break;
	default:
		return -EPROTO;
	}
	if (r == 0)
		main_pump(k);
	return r;
}

static void viewer_leaves(struct keeper *k, struct viewer *v)
{
	bool was_primary = v->primary;

	free_viewer(k, v);
	if (was_primary)
		credit_all(k); /* nobody holds the session back now */
	trim(k);
}

static void from_viewer(struct keeper *k, struct viewer *v, const struct wire_frame *f)
{
	struct main_session *m = &k->main;

	switch (f->type) {
	case WIRE_DATA:
		take_input(k, v, f);
		break;
	case WIRE_EOF:
		/* 0: stdin ends with whoever started it; a visitor's end means nothing.
		 */
		if (f->sub == 0 && v->primary) {
			m->in_eof = true;
			pump_stdin(k);
		}
		break;
	case WIRE_WINDOW_ADD:
		if (f->len == 4 && f->sub >= 1 && f->sub <= 2) {
			v->credit[f->sub - 1] += wire_get32(f->payload);
			main_pump(k);
		}
		break;
	case WIRE_SIGNAL:
	case WIRE_RESIZE:
		if (m->running)
			to_guest(k, f->type, f->sub, f->payload, f->len);
		break;
	case WIRE_CLOSE:
		if (!v->exit_sent) /* leaves early: the session lives on */
			send_viewer(v, WIRE_CLOSE, 0, NULL, 0);
		viewer_leaves(k, v);
		break;
	default:
		break;
	}
}

bool main_from_client(struct keeper *k, struct client *c, const struct wire_frame *f)
{
	for (struct viewer *v = k->main.viewers; v; v = v->next)
		if (v->client == c && v->cid == f->stream) {
			from_viewer(k, v, f);
			return true;
		}
	return false;
}

void main_client_gone(struct keeper *k, struct client *c)
{
	for (struct viewer *v = k->main.viewers, *next; v; v = next) {
		next = v->next;
		if (v->client == c)
			viewer_leaves(k, v);
	}
}
