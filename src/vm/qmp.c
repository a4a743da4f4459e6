/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/qmp.h"

#include "base/util.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES (1u << 20)
#define CALL_MS 20000
#define LEFT_MAX 1000 /* events that nobody has read yet */

void qmp_init(struct qmp *q, int fd)
{
	*q = (struct qmp){.fd = fd};
	buf_init(&q->in, 2 * LINE_MAX_BYTES);
}

void qmp_clear(struct qmp *q)
{
	close_fd(&q->fd);
	buf_clear(&q->in);
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- sending -------------------------------------------------------------------- */

/* Never waits: what we say is short, and a QEMU that leaves so much of it unread that
 * there is no room is past talking to. */
static int send_text(int fd, const char *text, size_t n, int pass)
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {
		.h = {.cmsg_len = CMSG_LEN(sizeof(int)),
		      .cmsg_level = SOL_SOCKET,
		      .cmsg_type = SCM_RIGHTS}
        };
	struct iovec iov = {(void *)(uintptr_t)text, n};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (pass >= 0) {
		memcpy(CMSG_DATA(&control.h), &pass, sizeof(pass));
		m.msg_control = &control;
		m.msg_controllen = sizeof(control.room);
	}
	while (iov.iov_len) {
		ssize_t done = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		iov.iov_base = (char *)iov.iov_base + done;
		iov.iov_len -= (size_t)done;
		m.msg_control = NULL;
		m.msg_controllen = 0;
	}
	return 0;
}

static int send_command(struct qmp *q, const char *command, json_t *args, int pass,
			struct cove_error *err)
{
	json_t *o = json_pack("{s:s, s:o*, s:I}", "execute", command, "arguments", args,
			      "id", (json_int_t)(q->sent + 1));
	cleanup_free char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
	int r;

	json_decref(o);
	if (!text)
		return fail_nomem(err);
	r = send_text(q->fd, text, strlen(text), pass);
	if (r < 0)
		return fail(err, COVE_EGONE, -r, "QEMU: %s", command);
	q->sent++;
	return 0;
}

int qmp_send(struct qmp *q, const char *command, json_t *args, int pass,
	     struct cove_error *err)
{
	if (!q->greeted && send_command(q, "qmp_capabilities", NULL, -1, err) < 0) {
		json_decref(args);
		return err->code;
	}
	q->greeted = true;
	return send_command(q, command, args, pass, err);
}

/* ---- receiving ------------------------------------------------------------------ */

/* Why it ends is kept, whatever was being waited for when it said so. */
static json_t *parse(struct qmp *q, size_t n)
{
	json_t *o = json_loadb(q->in.data, n, 0, NULL);
	const char *event = json_string_value(json_object_get(o, "event"));
	const char *why =
		json_string_value(json_object_get(json_object_get(o, "data"), "reason"));

	if (event && strcmp(event, "SHUTDOWN") == 0 && why)
		snprintf(q->reason, sizeof(q->reason), "%s", why);
	buf_consume(&q->in, n);
	return o;
}

/* The next line as an object; NULL with err set, or NULL without: time is up. */
static json_t *next(struct qmp *q, int64_t until, struct cove_error *err)
{
	for (;;) {
		char *end = q->in.len ? memchr(q->in.data, '\n', q->in.len) : NULL;
		struct pollfd p = {.fd = q->fd, .events = POLLIN};
		int64_t left = until - now_ms();
		char room[4096];
		ssize_t n;

		if (end) {
			size_t used = (size_t)(end - q->in.data) + 1;
			json_t *o = parse(q, used);

			if (!o)
				fail(err, COVE_EIO, 0, "QEMU: says what is no JSON");
			return o;
		}
		if (q->in.len > LINE_MAX_BYTES) {
			fail(err, COVE_EIO, 0, "QEMU: says too much");
			return NULL;
		}
		if (poll(&p, 1, left > 0 ? (int)left : 0) == 0)
			return NULL;
		n = recv(q->fd, room, sizeof(room), 0);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0) {
			fail(err, COVE_EGONE, n < 0 ? errno : 0, "QEMU: it has ended");
			return NULL;
		}
		if (buf_append(&q->in, room, (size_t)n) < 0) {
			fail_nomem(err);
			return NULL;
		}
	}
}

static int timed_out(struct cove_error *err)
{
	return fail(err, COVE_ETIMEDOUT, 0, "QEMU: no answer");
}

static int refused(const json_t *error, struct cove_error *err)
{
	const char *why = json_string_value(json_object_get(error, "desc"));

	return fail(err, COVE_EIO, 0, "QEMU: %.300s",
		    why ? why : "an error without text");
}

/* Whose answer is it? 0: nobody's that is waited for: an event, or a late one. An error
 * without a number is about what we said last. */
static uint64_t answers(const json_t *o, uint64_t from, uint64_t to)
{
	const json_t *id = json_object_get(o, "id");
	json_int_t n = json_integer_value(id);

	if (!id && json_object_get(o, "error"))
		return to;
	return n > 0 && (uint64_t)n >= from && (uint64_t)n <= to ? (uint64_t)n : 0;
}

/* 1: the last of these commands is answered, all before it too, and well; 0: not yet. */
static int answered(struct qmp *q, uint64_t from, uint64_t to, int64_t until,
		    json_t **ret, struct cove_error *err)
{
	for (int i = 0; i < LEFT_MAX; i++) {
		struct cove_error why = {0}; /* the caller's may hold an older one */
		json_t *o = next(q, until, &why), *value;
		uint64_t id = o ? answers(o, from, to) : 0;
		int r = 0;

		if (!o && why.code)
			*err = why;
		if (!o)
			return why.code;
		value = json_object_get(o, "error");
		if (id && value)
			r = refused(value, err);
		value = json_object_get(o, "return");
		if (r == 0 && id == to && value) {
			r = 1;
			if (ret)
				*ret = json_incref(value);
		}
		json_decref(o);
		if (r)
			return r;
	}
	return 0;
}

int qmp_poll(struct qmp *q, uint64_t from, uint64_t to, json_t **ret,
	     struct cove_error *err)
{
	return answered(q, from, to, 0, ret, err);
}

int qmp_wait(struct qmp *q, unsigned n, json_t **ret, int timeout_ms,
	     struct cove_error *err)
{
	int64_t until = now_ms() + timeout_ms;
	int r;

	do
		r = answered(q, q->sent - n + 1, q->sent, until, ret, err);
	while (r == 0 && now_ms() < until);
	return r < 0 ? r : r > 0 ? 0 : timed_out(err);
}

int qmp_call(struct qmp *q, const char *command, json_t *args, json_t **ret,
	     struct cove_error *err)
{
	if (qmp_send(q, command, args, -1, err) < 0)
		return err->code;
	return qmp_wait(q, 1, ret, CALL_MS, err);
}

int qmp_event(struct qmp *q, const char *name, int timeout_ms, struct cove_error *err)
{
	int64_t until = now_ms() + timeout_ms;

	for (;;) {
		struct cove_error why = {0};
		json_t *o = now_ms() < until ? next(q, until, &why) : NULL;
		const char *event;
		bool found;

		if (!o && why.code)
			*err = why;
		if (!o)
			return why.code ? why.code : timed_out(err);
		event = json_string_value(json_object_get(o, "event"));
		found = event && strcmp(event, name) == 0;
		if (json_object_get(o, "error")) {
			refused(json_object_get(o, "error"), err);
			json_decref(o);
			return err->code;
		}
		json_decref(o);
		if (found)
			return 0;
	}
}

/* What is there, and no more: the other end may be gone, or talk for ever. */
void qmp_shutdown_reason(struct qmp *q, char *ret, size_t size)
{
	struct cove_error ignored = {0};
	json_t *o;

	for (int i = 0; i < LEFT_MAX && (o = next(q, now_ms() + 1, &ignored)); i++)
		json_decref(o);
	snprintf(ret, size, "%s", q->reason);
}
