/* SPDX-License-Identifier: Apache-2.0 */
/*
 * box_net - a box and its network: the egress role, the sockets inside that it listens
 * on, what programs need in order to trust it, and whose connection is whose.
 *
 * The owner polls one descriptor for all of it (box_net_fd) and calls box_net_turn().
 */
#include "core/box_impl.h"

#include "base/log.h"
#include "base/util.h"
#include "core/egress.h"
#include "core/net.h"
#include "core/secret.h"
#include "core/trustfiles.h"
#include "ipc/wire.h"
#include "os/who.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>

#define WHO_RETRIES 3
#define WHO_WAITS_A_SECOND 50

/* ---- whose connection ------------------------------------------------------------- */

/* A command may connect before its guest has said that it started: a short wait helps, if
 * there were not many of them lately. */
static bool may_wait(struct box *b)
{
	time_t now = time(NULL);

	if (b->who_second != now) {
		b->who_second = now;
		b->who_waits = 0;
	}
	return b->who_waits++ < WHO_WAITS_A_SECOND;
}

static const struct exec_info *find_exec(struct box *b, const struct who *w)
{
	const struct exec_info *e;

	for (int i = 0;; i++) {
		struct timespec ms = {.tv_nsec = 1000000};

		if (b->owner_reads)
			b->owner_reads(b->owner);
		e = execs_find(&b->execs, w->root, w->started);
		if (e || i == WHO_RETRIES || !may_wait(b))
			return e;
		nanosleep(&ms, NULL);
	}
}

static bool is_machine(const struct box *b)
{
	return b->place.vm != NULL;
}

/* Into a machine the host cannot look: there it is as the guest tells, which is true
 * unless its kernel or its first process is in somebody else's hands (root inside may see
 * to that). Who is not known is nobody, and refused where it matters. */
static int find_who(const struct box *b, const struct egress_who *q, struct who *ret)
{
	struct sockaddr_storage from, to;

	if (is_machine(b) != q->told)
		return -ESRCH;
	if (q->told) {
		*ret = q->guest;
		return ret->pid && ret->root ? 0 : -ESRCH;
	}
	addr_to_sockaddr(&q->from, q->from_port, &from);
	addr_to_sockaddr(&q->to, q->to_port, &to);
	return who_has(b->place.capture[CAPTURE_DIAG], b->place.pid, q->udp,
		       (struct sockaddr *)&from, (struct sockaddr *)&to, ret);
}

static void on_who(void *arg, const struct egress_who *q, json_t *answer)
{
	struct box *b = arg;
	const struct exec_info *e;
	struct who w;
	char number[24];

	if (find_who(b, q, &w) < 0) {
		json_object_set_new(answer, "unknown", json_true());
		return;
	}
	json_object_set_new(answer, "pid", json_integer(w.pid));
	/* Hostile text: if it is not UTF-8 it is left out. */
	json_object_set_new(answer, "program", json_string(w.program));
	e = find_exec(b, &w);
	if (!e) {
		json_object_set_new(answer, "unknown", json_true());
		return;
	}
	snprintf(number, sizeof(number), "%llu", (unsigned long long)e->number);
	json_object_set_new(answer, "exec", json_string(number));
	if (e->agent[0])
		json_object_set_new(answer, "agent", json_string(e->agent));
	if (e->tool[0])
		json_object_set_new(answer, "tool", json_string(e->tool));
	if (e->offline)
		json_object_set_new(answer, "offline", json_true());
}

int box_need_who(struct box *b, struct cove_error *err)
{
	if (!b->egress || b->who_always)
		return 0;
	if (egress_who_always(b->egress, err) < 0)
		return err->code;
	b->who_always = true;
	return 0;
}

int box_exec(struct box *b, uint32_t stream, const uint8_t *payload, size_t n,
	     struct cove_error *err)
{
	int r;

	if (!b->egress)
		return 0;
	r = execs_sent(&b->execs, stream, payload, n);
	if (r < 0)
		return fail(err, r == -ENOMEM ? COVE_ENOMEM : COVE_EINVAL, -r,
			    "exec: agent or tool");
	return execs_offline(&b->execs, stream) ? box_need_who(b, err) : 0;
}

/* A machine has a clock of its own, which also stands still while it is paused: what it
 * says of its processes is compared with what it said of its commands. */
void box_started(struct box *b, uint32_t stream, uint32_t pid, uint64_t since)
{
	execs_started(&b->execs, stream, pid, is_machine(b) ? since : who_now());
}

static void command_started(struct box *b, const struct wire_frame *f)
{
	struct wire_attr a;
	uint32_t pid = 0;
	uint64_t since = 0;
	size_t pos = 0;

	while (wire_next_attr(f->payload, f->len, &pos, &a) > 0) {
		if (a.tag == WIRE_A_PID && wire_attr_u32(&a, &pid) < 0)
			return;
		if (a.tag == WIRE_A_SINCE && wire_attr_u64(&a, &since) < 0)
			return;
	}
	if (pid)
		box_started(b, f->stream, pid, since);
}

void box_guest_frame(struct box *b, const struct wire_frame *f)
{
	if (f->type == WIRE_CLOSE)
		execs_ended(&b->execs, f->stream);
	if (f->type == WIRE_STARTED)
		command_started(b, f);
}

/* ---- what the role reports -------------------------------------------------------- */

static void on_event(void *arg, const json_t *event)
{
	net_event(arg, event);
}

static void on_ask(void *arg, uint64_t id, const json_t *question)
{
	net_ask(arg, id, question);
}

static bool stops(const struct spec *s, const char *secret)
{
	for (size_t i = 0; i < json_array_size(s->secrets); i++) {
		const json_t *o = json_array_get(s->secrets, i);
		const char *name = json_string_value(json_object_get(o, "name"));
		const char *what = json_string_value(json_object_get(o, "onViolation"));

		if (name && secret && strcmp(name, secret) == 0)
			return what && strcmp(what, "stop") == 0;
	}
	return false;
}

static void on_violation(void *arg, const json_t *event)
{
	struct box *b = arg;
	const char *secret = json_string_value(json_object_get(event, "secret"));

	net_event(b, event);
	if (!stops(&b->spec, secret))
		return;
	snprintf(b->stopped_for, sizeof(b->stopped_for),
		 "the placeholder of secret %.63s was sent where it may not go", secret);
	b->place.backend->kill(&b->place);
}

/* ---- start and end ---------------------------------------------------------------- */

static bool opens(struct box *b)
{
	return egress_opens(net_spec(b), net_live(b), net_file(b));
}

/* The authority is made while the sandbox starts. A one-shot's rules do not change, so
 * that one whose connections are never opened needs none of this. */
static int trust(struct box *b, struct cove_error *err)
{
	bool now = opens(b);

	if (trustfiles_prepare(b, now || !b->oneshot, err) < 0)
		return err->code;
	return now ? egress_authority_ask(b->egress, trustfiles_java(b), err) : 0;
}

int box_net_trust(struct box *b, struct cove_error *err)
{
	cleanup_buf struct buf pem = BUF_INIT(65536);
	cleanup_fd int jks = -1;

	if (!b->egress || !trustfiles_unfilled(b) || !opens(b))
		return 0;
	if (egress_authority(b->egress, trustfiles_java(b), &pem, &jks, err) < 0)
		return err->code;
	return trustfiles_fill(b, pem.data ? pem.data : "", jks, err);
}

static int watch_fd(struct box *b, int fd)
{
	struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};

	return fd < 0 || epoll_ctl(b->net_events, EPOLL_CTL_ADD, fd, &e) == 0 ? 0
									      : -errno;
}

static int watch_all(struct box *b, struct cove_error *err)
{
	b->net_events = epoll_create1(EPOLL_CLOEXEC);
	b->net_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (b->net_events < 0 || b->net_timer < 0 ||
	    watch_fd(b, egress_fd(b->egress)) < 0 ||
	    watch_fd(b, egress_address_fd(b->egress)) < 0 || watch_fd(b, net_fd(b)) < 0 ||
	    watch_fd(b, b->net_timer) < 0)
		return fail(err, COVE_EIO, errno, "network: events");
	return 0;
}

int box_net_start(struct box *b, struct cove_error *err)
{
	struct egress_config c = {
		.name = b->name, .named = !b->oneshot, .values = b->secrets};

	/* The policy file may say more than the spec. */
	if (!egress_needed(&b->spec) && !b->spec.network.file)
		return 0;
	if (net_open(b, !b->oneshot, err) < 0)
		return err->code;
	if (!egress_needed(net_spec(b)))
		return 0;
	c.spec = net_spec(b);
	c.live = net_live(b);
	c.file = net_file(b);
	c.log = net_log_fd(b);
	c.owner = (struct egress_owner){on_who, on_ask, on_event, on_violation, b};
	if (egress_start(&b->egress, &c, err) < 0 || trust(b, err) < 0)
		return err->code;
	b->config.capture = true;
	return watch_all(b, err);
}

int box_net_listen(struct box *b, struct cove_error *err)
{
	int r = 0;

	if (b->egress && b->place.net >= 0)
		r = egress_take_stream_anew(b->egress, &b->place.net, b->place.net_nonce,
					    sizeof(b->place.net_nonce), err);
	else if (b->egress)
		r = egress_take_sockets(b->egress, b->place.capture, err);
	if (r < 0)
		return err->code;
	return box_net_trust(b, err);
}

void box_net_stop(struct box *b)
{
	egress_stop(take_ptr(b->egress));
	net_close(b);
	trustfiles_clear(b);
	close_fd(&b->net_events);
	close_fd(&b->net_timer);
	execs_clear(&b->execs);
}

/* ---- turns ------------------------------------------------------------------------ */

int box_net_fd(const struct box *b)
{
	return b->net_events;
}

static void arm(struct box *b)
{
	int64_t due = net_due(b);
	struct itimerspec t = {
		.it_value = {.tv_sec = due / 1000, .tv_nsec = due % 1000 * 1000000}
        };

	timerfd_settime(b->net_timer, TFD_TIMER_ABSTIME, &t, NULL);
}

/* The role is gone, and with it every way out; the sandbox goes on without one. */
static void role_gone(struct box *b, const struct cove_error *err)
{
	epoll_ctl(b->net_events, EPOLL_CTL_DEL, egress_fd(b->egress), NULL);
	net_problem(b, err->msg);
	log_line(LOG_WARNING, "%s; the sandbox goes on without a network", err->msg);
}

void box_net_turn(struct box *b)
{
	struct epoll_event ev[4];
	struct cove_error err = {0};
	int n = b->net_events < 0 ? 0 : epoll_wait(b->net_events, ev, 4, 0);

	for (int i = 0; i < n; i++) {
		uint64_t ticks;

		if (ev[i].data.fd == egress_fd(b->egress)) {
			if (egress_turn(b->egress, &err) < 0)
				role_gone(b, &err);
			continue;
		}
		if (ev[i].data.fd == egress_address_fd(b->egress)) {
			egress_address_turn(b->egress);
			continue;
		}
		if (ev[i].data.fd == b->net_timer &&
		    read(b->net_timer, &ticks, sizeof(ticks)) < 0)
			continue;
		net_turn(b);
	}
	if (b->net_events >= 0)
		arm(b);
}
