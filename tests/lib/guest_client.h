/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest_client.h - the smallest client of the link: starts `cove-guest --stdio` on a
 * socketpair and keeps, for each stream, everything that came back.
 */
#ifndef COVE_GUEST_CLIENT_H
#define COVE_GUEST_CLIENT_H

#include "base/util.h"
#include "ipc/link.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#define CLIENT_STREAMS 64
#define CLIENT_KEEP 65536u

struct reply {
	uint8_t out[2][CLIENT_KEEP];
	uint64_t got[2]; /* bytes in all; the first CLIENT_KEEP are kept */
	bool eof[2], started, closed, failed;
	int results, code, signal, error; /* -1: not told */
	uint32_t pid, mode;
	uint64_t size;
	char text[256], target[256];
	struct flow in[2]; /* receiving 1 and 2 */
	struct flow to;    /* sending 0 */
	bool stop_credit;  /* play the slow reader */
};

struct client {
	pid_t pid;
	int fd;
	struct link link;
	struct reply *reply[CLIENT_STREAMS];
	char bye[256];
	bool over; /* the guest closed the link */
};

static inline int64_t client_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* cove-guest lies beside the directory of the unit tests. */
static inline bool client_guest_path(char *out, size_t size)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	self[n > 0 ? n : 0] = '\0';
	for (int i = 0; i < 2; i++) {
		slash = strrchr(self, '/');
		if (!slash)
			return false;
		*slash = '\0';
	}
	snprintf(out, size, "%.*s/cove-guest", (int)size - 16, self);
	return access(out, X_OK) == 0;
}

static inline void client_open(struct client *c, const char *guest)
{
	int sv[2];

	*c = (struct client){0};
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0)
		abort();
	c->pid = fork();
	if (c->pid == 0) {
		dup2(sv[1], 0);
		dup2(sv[1], 1);
		execl(guest, "cove-guest", "--stdio", NULL);
		_exit(127);
	}
	close(sv[1]);
	c->fd = sv[0];
	fcntl(c->fd, F_SETFL, O_NONBLOCK);
	link_init(&c->link, c->fd, c->fd);
}

static inline void client_hello(struct client *c)
{
	link_hello(&c->link);
}

static inline struct reply *client_stream(struct client *c, uint32_t id)
{
	struct reply *r;

	if (id >= CLIENT_STREAMS)
		abort();
	if (c->reply[id])
		return c->reply[id];
	r = calloc(1, sizeof(*r));
	if (!r)
		abort();
	r->code = r->signal = r->error = -1;
	flow_init(&r->in[0]);
	flow_init(&r->in[1]);
	flow_init(&r->to);
	return c->reply[id] = r;
}

static inline void client_attrs(struct reply *r, const struct wire_frame *f)
{
	struct wire_attr a;
	uint32_t v;
	size_t pos = 0;

	while (wire_next_attr(f->payload, f->len, &pos, &a) == 1) {
		v = a.len == 4 ? wire_get32(a.data) : 0;
		if (a.tag == WIRE_A_PID)
			r->pid = v;
		else if (a.tag == WIRE_A_CODE)
			r->code = (int)v;
		else if (a.tag == WIRE_A_SIGNAL)
			r->signal = (int)v;
		else if (a.tag == WIRE_A_ERRNO)
			r->error = (int)v;
		else if (a.tag == WIRE_A_MODE)
			r->mode = v;
		else if (a.tag == WIRE_A_SIZE)
			wire_attr_u64(&a, &r->size);
		else if (a.tag == WIRE_A_TEXT)
			wire_attr_str(&a, r->text, sizeof(r->text));
		else if (a.tag == WIRE_A_TARGET)
			wire_attr_str(&a, r->target, sizeof(r->target));
	}
}

static inline void client_data(struct client *c, struct reply *r,
			       const struct wire_frame *f)
{
	int i = f->sub - 1;
	uint32_t grant;
	uint8_t p[4];

	if (i < 0 || flow_received(&r->in[i], f->len) < 0)
		abort(); /* the guest broke flow control */
	if (r->got[i] < CLIENT_KEEP)
		memcpy(r->out[i] + r->got[i], f->payload,
		       min_size(f->len, CLIENT_KEEP - (size_t)r->got[i]));
	r->got[i] += f->len;
	grant = r->stop_credit ? 0 : flow_consumed(&r->in[i], f->len);
	if (grant) {
		wire_set32(p, grant);
		link_send(&c->link, WIRE_WINDOW_ADD, f->sub, f->stream, p, 4);
	}
}

static inline void client_frame(struct client *c, const struct wire_frame *f)
{
	struct reply *r = f->stream ? client_stream(c, f->stream) : NULL;

	if (f->type == WIRE_BYE)
		memcpy(c->bye, f->payload, min_size(f->len, sizeof(c->bye) - 1));
	if (!r)
		return;
	if (f->type == WIRE_DATA)
		client_data(c, r, f);
	else if (f->type == WIRE_EOF)
		r->eof[f->sub - 1] = true;
	else if (f->type == WIRE_WINDOW_ADD)
		flow_granted(&r->to, wire_get32(f->payload));
	else
		client_attrs(r, f);
	r->results += f->type == WIRE_RESULT;
	r->started |= f->type == WIRE_STARTED;
	r->failed |= f->type == WIRE_FAILED;
	if (f->type == WIRE_CLOSE && !r->closed) {
		r->closed = true;
		link_send(&c->link, WIRE_CLOSE, 0, f->stream, NULL, 0);
	}
}

/* One turn of at most ms. False: the link is closed. */
static inline bool client_turn(struct client *c, int ms)
{
	struct pollfd p = {.fd = c->fd, .events = POLLIN};
	struct wire_frame f;
	int r;

	if (c->over)
		return false;
	if (link_flush(&c->link) == 1)
		p.events |= POLLOUT;
	poll(&p, 1, ms);
	r = link_fill(&c->link);
	while (link_next(&c->link, &f) == 1)
		client_frame(c, &f);
	c->over = r < 0;
	return !c->over;
}

/* Until `flag` is set, the link closes, or ms are over. */
static inline bool client_until(struct client *c, const bool *flag, int ms)
{
	int64_t end = client_ms() + ms;

	while (!*flag && client_ms() < end && client_turn(c, 50))
		;
	return *flag;
}

/* Until the guest closes the link, or ten seconds are over. */
static inline void client_drain(struct client *c)
{
	int64_t end = client_ms() + 30000;

	while (client_ms() < end && client_turn(c, 100))
		;
}

static inline struct reply *client_close_of(struct client *c, uint32_t id, int ms)
{
	struct reply *r = client_stream(c, id);

	client_until(c, &r->closed, ms);
	return r;
}

/* Closes the link and returns the guest's exit status. */
static inline int client_end(struct client *c)
{
	int status = -1;

	link_flush(&c->link);
	link_clear(&c->link);
	close(c->fd);
	waitpid(c->pid, &status, 0);
	for (int i = 0; i < CLIENT_STREAMS; i++)
		free(c->reply[i]);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

struct exec_opts {
	uint32_t flags;
	const char *cwd, *env;
	uint32_t rows, cols;
};

static inline void client_exec(struct client *c, uint32_t id, const struct exec_opts *o,
			       const char *const *argv)
{
	uint8_t p[32768];
	struct wire_out w;

	wire_out_init(&w, p, sizeof(p));
	for (; *argv; argv++)
		wire_put_str(&w, WIRE_A_ARG, *argv);
	wire_put_str(&w, WIRE_A_ENV, o && o->env ? o->env : "PATH=/usr/bin:/bin");
	if (o && o->cwd)
		wire_put_str(&w, WIRE_A_CWD, o->cwd);
	wire_put_u32(&w, WIRE_A_FLAGS, o ? o->flags : 0);
	if (o && o->rows) {
		wire_put_u32(&w, WIRE_A_ROWS, o->rows);
		wire_put_u32(&w, WIRE_A_COLS, o->cols);
	}
	client_stream(c, id);
	link_send(&c->link, WIRE_EXEC, 0, id, p, w.len);
}

#define ARGV(...) ((const char *const[]){__VA_ARGS__, NULL})

#endif
