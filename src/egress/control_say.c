/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_say - what the role says to the host, and asks it.
 *
 * Nothing here waits: what the host has no room for is lost and counted (events), kept
 * for later (what it waits for), or unanswered (questions).
 */
#include "egress/conn.h"
#include "egress/control_impl.h"
#include "egress/mux.h"

#include "base/util.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/epoll.h>

#define QUEUE_MAX 64 /* packets that the host must get, and has no room for yet */
#define LOST_MS 1000 /* how often it is told what it did not hear of */
#define STALE_MS 1000

struct packet {
	struct packet *next;
	int fd; /* -1 */
	size_t n;
	char text[];
};

/* ---- packets ---------------------------------------------------------------------- */

static int send_packet(struct control *k, const char *text, size_t n, int fd)
{
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec iov = {(void *)(uintptr_t)text, n};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;

	if (fd >= 0) {
		m.msg_control = &control;
		m.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	return sendmsg(k->watch.fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* The host has no room now: this is sent as soon as it has. */
static int keep_packet(struct control *k, const char *text, size_t n, int fd)
{
	struct packet *p = k->n_queue < QUEUE_MAX ? malloc(sizeof(*p) + n) : NULL;
	int copy = -1;

	if (p && fd >= 0)
		copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (!p || (fd >= 0 && copy < 0) ||
	    watch_change(k->egress->loop, &k->watch, EPOLLIN | EPOLLOUT) < 0) {
		close_fd(&copy);
		free(p);
		return -ENOBUFS;
	}
	*p = (struct packet){.fd = copy, .n = n};
	memcpy(p->text, text, n);
	*(k->queue ? k->queue_end : &k->queue) = p;
	k->queue_end = &p->next;
	k->n_queue++;
	return 0;
}

void control_send_kept(struct control *k)
{
	while (k->queue) {
		struct packet *p = k->queue;

		if (send_packet(k, p->text, p->n, p->fd) == -EAGAIN)
			return;
		k->queue = p->next;
		k->n_queue--;
		close_fd(&p->fd);
		free(p);
	}
	watch_change(k->egress->loop, &k->watch, EPOLLIN);
}

int control_say(struct control *k, json_t *o, int fd, bool must)
{
	cleanup_free char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
	size_t n = text ? strlen(text) : 0;
	int r = -ENOMEM;

	json_decref(o);
	if (n > CONTROL_PACKET)
		r = -EMSGSIZE;
	else if (text)
		r = k->queue ? -EAGAIN : send_packet(k, text, n, fd);
	return r == -EAGAIN && must ? keep_packet(k, text, n, fd) : r;
}

static void on_tell_lost(struct timer *t)
{
	struct control *k = container_of(t, struct control, tell_lost);

	if (control_say(k, json_pack("{s:s, s:I}", "t", "lost", "n", (json_int_t)k->lost),
			-1, false) == 0)
		k->lost = 0;
	else
		timer_start(k->egress->loop, t, LOST_MS, on_tell_lost);
}

void control_lost(struct egress *e)
{
	struct control *k = e->control;

	if (!k)
		return;
	k->lost++;
	if (!k->tell_lost.slot)
		timer_start(e->loop, &k->tell_lost, LOST_MS, on_tell_lost);
}

void control_event(struct egress *e, json_t *event)
{
	json_object_set_new(event, "t", json_string("event"));
	if (!e->control)
		json_decref(event);
	else if (control_say(e->control, event, -1, false) < 0)
		control_lost(e);
}

void control_stale(struct egress *e)
{
	struct control *k = e->control;
	int64_t now = loop_now(e->loop);

	if (!k || (k->stale_ms && now - k->stale_ms < STALE_MS))
		return;
	k->stale_ms = now;
	control_say(k, json_pack("{s:s}", "t", "stale"), -1, false);
}

void control_violation(struct egress *e, const struct conn *c, const char *secret)
{
	char text[ADDR_TEXT];

	if (e->control)
		control_say(e->control,
			    json_pack("{s:s, s:s, s:s, s:i}", "t", "violation", "secret",
				      secret, "host", conn_host(c, text), "port",
				      (int)c->port),
			    -1, true);
}

/* ---- questions -------------------------------------------------------------------- */

static struct question **find(struct control *k, uint64_t id)
{
	struct question **p = &k->waiting;

	while (*p && (*p)->id != id)
		p = &(*p)->next;
	return p;
}

void control_forget(struct egress *e, struct question *q)
{
	struct question **p = e->control && q->id ? find(e->control, q->id) : NULL;

	if (p && *p == q)
		*p = q->next;
	timer_stop(e->loop, &q->timer);
	q->id = 0;
}

static void no_answer(struct timer *t)
{
	struct question *q = container_of(t, struct question, timer);

	control_forget(q->egress, q);
	q->fn(q, NULL);
}

static void enlist(struct egress *e, struct question *q,
		   void (*fn)(struct question *, const json_t *))
{
	struct control *k = e->control;

	*q = (struct question){.egress = e, .fn = fn, .id = k ? ++k->next_question : 0};
	if (!k)
		return;
	q->next = k->waiting;
	k->waiting = q;
}

static void put_question(struct egress *e, struct question *q, json_t *o, int64_t ms,
			 void (*fn)(struct question *, const json_t *))
{
	struct control *k = e->control;

	enlist(e, q, fn);
	if (k && o) {
		json_object_set_new(o, "id", json_integer((json_int_t)q->id));
		if (control_say(k, o, -1, false) < 0)
			ms = 0;
	} else {
		json_decref(o);
		ms = 0;
	}
	/* Also "nobody heard it" comes later: the caller is not ready for it now. */
	timer_start(e->loop, &q->timer, ms, no_answer);
}

static size_t end_size(const struct sockaddr *sa)
{
	return sa->sa_family == AF_INET ? sizeof(struct sockaddr_in)
					: sizeof(struct sockaddr_in6);
}

static json_t *end_json(const struct sockaddr *sa, uint16_t *port)
{
	struct addr a;
	char text[ADDR_TEXT];

	*port = 0;
	if (addr_from_sockaddr(sa, &a, port) < 0)
		return NULL;
	return json_string(addr_text(&a, text));
}

/* The host cannot look into a machine: the guest says which process it is, and then the
 * host which exec. */
static void ask_guest(struct egress *e, struct question *q, bool udp,
		      const struct sockaddr *from, const struct sockaddr *to, int64_t ms,
		      void (*fn)(struct question *, const json_t *))
{
	struct netmux_ends ends = {.udp = udp};

	memcpy(&ends.from, from, end_size(from));
	memcpy(&ends.to, to, end_size(to));
	enlist(e, q, fn);
	q->at_guest = true;
	if (!e->control || mux_who(e, (uint32_t)q->id, &ends) < 0)
		ms = 0;
	timer_start(e->loop, &q->timer, ms, no_answer);
}

void control_guest_says(struct egress *e, uint32_t id, const struct netmux_who *w)
{
	struct question *q = e->control ? e->control->waiting : NULL;
	json_t *o;

	while (q && !(q->at_guest && (uint32_t)q->id == id))
		q = q->next;
	if (!q)
		return; /* too late, or nobody asked */
	q->at_guest = false;
	o = json_pack("{s:s, s:I, s:{s:I, s:I, s:I}}", "t", "who", "id",
		      (json_int_t)q->id, "guest", "pid", (json_int_t)w->pid, "root",
		      (json_int_t)w->root, "started", (json_int_t)w->started);
	/* Hostile text: if it is not UTF-8 it is left out. */
	json_object_set_new(json_object_get(o, "guest"), "program",
			    json_string(w->program));
	control_say(e->control, o, -1,
		    false); /* if not, the question's time is over soon */
}

void control_who(struct egress *e, struct question *q, const char *proto,
		 const struct sockaddr *from, const struct sockaddr *to, int64_t ms,
		 void (*fn)(struct question *, const json_t *))
{
	uint16_t from_port, to_port;
	json_t *a, *b;

	if (e->mux) {
		ask_guest(e, q, strcmp(proto, "udp") == 0, from, to, ms, fn);
		return;
	}
	a = end_json(from, &from_port);
	b = end_json(to, &to_port);
	put_question(e, q,
		     json_pack("{s:s, s:s, s:o, s:i, s:o, s:i}", "t", "who", "proto",
			       proto, "from", a, "from_port", (int)from_port, "to", b,
			       "to_port", (int)to_port),
		     ms, fn);
}

void control_ask(struct egress *e, struct question *q, const struct conn *c,
		 const char *method, const char *path,
		 void (*fn)(struct question *, const json_t *))
{
	char text[ADDR_TEXT];

	put_question(e, q,
		     json_pack("{s:s, s:s, s:i, s:s*, s:s*, s:s, s:s}", "t", "ask",
			       "host", conn_host(c, text), "port", (int)c->port, "method",
			       method, "path", path, "exec", c->exec, "program",
			       c->program),
		     e->limits.ask_ms, fn);
}

int control_answered(struct control *k, const json_t *o)
{
	uint64_t id = (uint64_t)json_integer_value(json_object_get(o, "id"));
	struct question **p = find(k, id), *q = *p;

	if (!q)
		return 0; /* it came too late */
	*p = q->next;
	timer_stop(k->egress->loop, &q->timer);
	q->id = 0;
	q->fn(q, o);
	return 0;
}
