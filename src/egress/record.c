/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record - what is told about a connection: a line in the log, and for what matters to
 * the host an event too.
 *
 * Lines are collected and written at most LOG_DELAY_MS later, so that fifteen thousand
 * connections a second do not cost as many writes. Every text comes from a sandbox or
 * the network: it is cut at TEXT_MAX bytes and escaped.
 */
#include "egress/conn.h"
#include "egress/swap.h"

#include "base/io.h"
#include "base/util.h"

#include <stdio.h>
#include <time.h>

#define TEXT_MAX 512
#define LOG_BUFFER (256u << 10)
#define LOG_FULL (64u << 10) /* then at once */
#define LOG_DELAY_MS 20
#define EVENTS_A_SECOND 100

/* ---- a line ----------------------------------------------------------------------- */

static int put_escape(struct buf *b, unsigned char c)
{
	if (c == '"' || c == '\\')
		return buf_printf(b, "\\%c", c);
	return buf_printf(b, "\\u%04x", c);
}

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static int put_escaped(struct buf *b, const char *text)
{
	size_t n = strnlen(text, TEXT_MAX);
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		size_t run = i;

		while (i < n && is_plain((unsigned char)text[i]))
			i++;
		r = buf_append(b, text + run, i - run);
		if (r == 0 && i < n)
			r = put_escape(b, (unsigned char)text[i]);
	}
	return r;
}

static void put_key(struct buf *b, const char *key)
{
	buf_append(b, ",\"", 2);
	buf_puts(b, key);
	buf_append(b, "\":", 2);
}

static void put_text(struct buf *b, const char *key, const char *text)
{
	if (!text || !*text)
		return;
	put_key(b, key);
	buf_append(b, "\"", 1);
	put_escaped(b, text);
	buf_append(b, "\"", 1);
}

static void put_number(struct buf *b, const char *key, uint64_t n)
{
	char digits[20];
	size_t at = sizeof(digits);

	if (!n)
		return;
	for (; n; n /= 10)
		digits[--at] = (char)('0' + n % 10);
	put_key(b, key);
	buf_append(b, digits + at, sizeof(digits) - at);
}

static uint64_t wall_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void put_conn(struct buf *b, const struct conn *c)
{
	char text[ADDR_TEXT];

	put_number(b, "id", c->id);
	put_text(b, "exec", c->exec);
	put_text(b, "agent", c->who.agent);
	put_text(b, "tool", c->who.tool);
	put_number(b, "pid", c->pid);
	put_text(b, "program", c->program);
	if (c->dialled.b[0] || memcmp(c->dialled.b, c->dialled.b + 1, 15) != 0)
		put_text(b, "ip", addr_text(&c->dialled, text));
	if (c->decision.learn)
		buf_puts(b, ",\"learn\":true");
}

static void put_record(struct buf *b, const struct egress *e, const struct record *r)
{
	const struct conn *c = r->conn;
	char text[ADDR_TEXT];
	const char *host = r->name ? r->name : c ? conn_host(c, text) : NULL;

	buf_printf(b, "{\"time_ms\":%llu", (unsigned long long)wall_ms());
	put_text(b, "kind", r->kind);
	put_text(b, "host", host);
	put_number(b, "port", r->port ? r->port : c ? c->port : 0);
	put_text(b, "verdict", r->verdict);
	put_text(b, "rule", r->rule);
	put_text(b, "reason", r->reason);
	put_text(b, "method", r->method);
	put_text(b, "path", r->path);
	put_number(b, "status", r->status > 0 ? (uint64_t)r->status : 0);
	put_text(b, "secret", r->secret);
	put_number(b, "sent", r->sent);
	put_number(b, "received", r->received);
	if (c)
		put_conn(b, c);
	put_number(b, "gen", policy_generation(e->policy));
	buf_puts(b, "}");
}

/* ---- the log ---------------------------------------------------------------------- */

static uint64_t count_lines(const struct buf *b)
{
	uint64_t lines = 0;

	for (size_t i = 0; i < b->len; i++)
		lines += b->data[i] == '\n';
	return lines;
}

/* What could not be written is gone, but not in silence; and what part of a line was
 * written must not become part of the next one. */
static int tell_missing(struct egress *e)
{
	cleanup_buf struct buf line = BUF_INIT(512);
	char why[64];

	snprintf(why, sizeof(why), "up to %llu lines could not be written",
		 (unsigned long long)e->log_lost);
	buf_puts(&line, "\n");
	put_record(&line, e,
		   &(struct record){.kind = "log", .verdict = "error", .reason = why});
	buf_puts(&line, "\n");
	return write_all(e->log_fd, line.data ? line.data : "\n", line.len);
}

void egress_log_flush(struct egress *e)
{
	int r = 0;

	timer_stop(e->loop, &e->log_timer);
	if (!e->log.len)
		return;
	if (e->log_fd >= 0 && e->log_lost)
		r = tell_missing(e);
	if (r == 0)
		e->log_lost = 0;
	if (e->log_fd >= 0 && r == 0)
		r = write_all(e->log_fd, e->log.data, e->log.len);
	if (r < 0)
		e->log_lost += count_lines(&e->log);
	buf_consume(&e->log, e->log.len);
}

static void flush_later(struct timer *t)
{
	egress_log_flush(container_of(t, struct egress, log_timer));
}

static void log_line(struct egress *e, const struct buf *line)
{
	if (e->log_fd < 0)
		return;
	if (!e->log.max)
		buf_init(&e->log, LOG_BUFFER);
	if (buf_append(&e->log, line->data, line->len) < 0 || buf_puts(&e->log, "\n") < 0)
		e->log_lost++;
	if (e->log.len > LOG_FULL)
		egress_log_flush(e);
	else if (!e->log_timer.slot)
		timer_start(e->loop, &e->log_timer, LOG_DELAY_MS, flush_later);
}

/* ---- events ----------------------------------------------------------------------- */

/* Was this allowed before, as far as we remember? A collision costs one event more. */
static bool is_new(struct egress *e, const struct record *r)
{
	char text[HOST_MAX + 128], addr[ADDR_TEXT];
	uint64_t h = 1469598103934665603u;
	uint64_t *slot;

	snprintf(text, sizeof(text), "%s:%u:%s:%s:%s",
		 r->conn   ? conn_host(r->conn, addr)
		 : r->name ? r->name
			   : "",
		 (unsigned)(r->conn ? r->conn->port : r->port), r->rule ? r->rule : "",
		 r->conn ? r->conn->exec : "", r->kind);
	for (const char *p = text; *p; p++)
		h = (h ^ (unsigned char)*p) * 1099511628211u;
	slot = &e->seen[h % ARRAY_LEN(e->seen)];
	if (*slot == h)
		return false;
	*slot = h;
	return true;
}

static bool is_event(struct egress *e, const struct record *r)
{
	if (strcmp(r->kind, "secret") == 0 || strcmp(r->verdict, "deny") == 0)
		return true;
	return strcmp(r->verdict, "allow") == 0 && is_new(e, r);
}

static bool within_rate(struct egress *e)
{
	int64_t now = loop_now(e->loop);

	if (now >= e->events_until_ms) {
		e->events_until_ms = now + 1000;
		e->events_left = EVENTS_A_SECOND;
	}
	return e->events_left && e->events_left--;
}

void egress_record(struct egress *e, const struct record *r)
{
	cleanup_buf struct buf line = BUF_INIT(32768);
	json_t *event;

	put_record(&line, e, r);
	if (!line.data || (e->secrets && swap_redact(e->secrets, &line) < 0)) {
		e->log_lost++;
		return;
	}
	log_line(e, &line);
	if (!is_event(e, r))
		return;
	if (!within_rate(e)) {
		control_lost(e);
		return;
	}
	event = json_loadb(line.data, line.len, 0, NULL);
	if (event)
		control_event(e, event);
}
