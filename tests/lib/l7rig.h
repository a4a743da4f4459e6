/* SPDX-License-Identifier: Apache-2.0 */
/*
 * l7rig.h - a client and a server, each a thread, with an opened connection of the egress
 * role between them: the real loop, policy, certificates and secrets.
 */
#ifndef COVE_L7RIG_H
#define COVE_L7RIG_H

#include "base/util.h"
#include "egress/chan.h"
#include "egress/conn.h"
#include "egress/http1.h"
#include "egress/names.h"
#include "egress/pass.h"
#include "egress/swap.h"
#include "patient.h"

#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>

struct rig {
	struct egress e;
	struct buf image;
	struct authority *outside; /* issues the servers' certificates */
	struct authority *program; /* trusts the sandbox's authority */
	struct swap_table *secrets;
	struct timer tick;
	struct talk *talk; /* the one that is running */
	int log;           /* a pipe's end */
};

/* One connection: what is sent by whom, and what arrives. */
struct talk {
	const char *host;
	uint16_t port;
	bool tls;
	bool wrong_cert;  /* the server's is for another name */
	const char *send; /* by the client */
	size_t send_n;    /* 0: strlen */
	size_t step;      /* in pieces of this size */
	const char *big;  /* and then this, big_n bytes */
	size_t big_n;
	bool sent_first; /* by the time the connection is looked at, that is there */
	bool stay;       /* the client does not end its side */
	const char *answer[8]; /* one for each request; then the server closes */
	bool early;            /* the first answer comes before the request is complete */
	const char *tail;      /* then this, tail_n bytes, from the server */
	size_t tail_n;
	bool echo;             /* the server then sends back what it gets */
	const char *review_at; /* when the client has got this, */
	const char
		*next_policy; /* this is in force; the server's tail comes after that */
	atomic_bool begun, reviewed;
	unsigned pause_ms;  /* before the client reads */
	int client, server; /* the other ends */
	struct rig *rig;
	struct buf to_server, to_client;
	const char *client_why; /* TLS of the client failed */
};

static void rig_fail(const char *what)
{
	printf("Bail out! %s\n", what);
	exit(1);
}

static void rig_policy(struct rig *r, const char *network, const char *secrets)
{
	static uint64_t generation;
	json_t *n = json_loads(network, 0, NULL), *s = json_loads(secrets, 0, NULL);
	struct policy_source src = {
		.network = n, .secrets = s, .generation = ++generation};
	struct cove_error err = {0};

	buf_clear(&r->image);
	if (r->e.policy)
		policy_close(r->e.policy);
	if (!n || !s || policy_compile(&src, &r->image, &err) < 0 ||
	    policy_open(&r->e.policy, r->image.data, r->image.len, &err) < 0)
		rig_fail(err.msg);
	json_decref(n);
	json_decref(s);
}

static void rig_trust(struct authority *who, struct authority *whom)
{
	cleanup_buf struct buf pem = BUF_INIT(64 << 10);

	if (authority_pem(whom, &pem) < 0 || authority_trust(who, pem.data, pem.len) < 0)
		rig_fail("certificates");
}

static void rig_init(struct rig *r, const char *network, const char *secrets)
{
	struct cove_error err = {0};
	int fds[2];

	signal(SIGPIPE, SIG_IGN);
	*r = (struct rig){0};
	buf_init(&r->image, 1 << 20);
	buf_init(&r->e.log, 256 << 10);
	r->e.limits = (struct egress_limits){.conns = 100,
					     .undecided = 100,
					     .inspected = 100,
					     .headers_ms = PATIENT_MS,
					     .refuse_ms = PATIENT_MS,
					     .ask_ms = PATIENT_MS};
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0 || loop_new(&r->e.loop) < 0 ||
	    names_new(&r->e.names, 100) < 0 ||
	    authority_new(&r->e.authority, "test", &err) < 0 ||
	    authority_new(&r->outside, "outside", &err) < 0 ||
	    authority_new(&r->program, "program", &err) < 0)
		rig_fail(err.msg);
	r->e.log_fd = fds[1];
	r->log = fds[0];
	rig_trust(r->e.authority, r->outside);
	rig_trust(r->program, r->e.authority);
	rig_policy(r, network, secrets);
}

static inline void rig_secret(struct rig *r, const char *name, const char *placeholder,
			      const char *value, const char *hosts)
{
	if ((!r->secrets && swap_new(&r->secrets) < 0) ||
	    swap_add(r->secrets, name, placeholder, value, strlen(value), hosts) < 0)
		rig_fail("secret");
}

static void rig_clear(struct rig *r)
{
	pump_pool_free(&r->e);
	policy_close(r->e.policy);
	authority_free(r->e.authority);
	authority_free(r->outside);
	authority_free(r->program);
	names_free(r->e.names);
	loop_free(r->e.loop);
	swap_free(r->secrets);
	buf_clear(&r->e.log);
	buf_clear(&r->image);
	close(r->e.log_fd);
	close(r->log);
}

/* Everything that was logged since the last call. */
static inline const char *rig_log(struct rig *r)
{
	static char text[64 << 10];
	ssize_t n;

	egress_log_flush(&r->e);
	n = read(r->log, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	return text;
}

/* ---- the two ends, blocking ----------------------------------------------------------
 */

static bool put_all(struct chan *c, const char *p, size_t n, size_t step)
{
	while (n) {
		ssize_t r = chan_write(c, p, step && step < n ? step : n);

		if (r <= 0)
			return false;
		p += r;
		n -= (size_t)r;
		if (step)
			usleep(200);
	}
	return true;
}

static void set_timeout(int fd)
{
	struct timeval t = {.tv_sec = 2 * PATIENT_MS / 1000};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
}

static void *run_client(void *arg)
{
	struct talk *t = arg;
	char *p = malloc(64 << 10);
	struct chan c;
	ssize_t n;

	set_timeout(t->client);
	chan_plain(&c, t->client);
	if (t->tls && (chan_client(&c, t->client, t->rig->program, t->host, NULL) < 0 ||
		       chan_handshake(&c) != 1)) {
		t->client_why = c.why ? c.why : "?";
	} else {
		if (!t->sent_first)
			put_all(&c, t->send, t->send_n ? t->send_n : strlen(t->send),
				t->step);
		if (t->big_n)
			put_all(&c, t->big, t->big_n, 0);
		if (!t->stay && !t->tls) /* a server that closes ends TLS */
			chan_shutdown(&c);
		usleep(t->pause_ms * 1000);
		while ((n = chan_read(&c, p, 64 << 10)) > 0) {
			buf_append(&t->to_client, p, (size_t)n);
			if (t->review_at && memmem(t->to_client.data, t->to_client.len,
						   t->review_at, strlen(t->review_at)))
				t->begun = true;
		}
	}
	chan_clear(&c);
	close(t->client);
	free(p);
	return NULL;
}

/* Bytes of a complete request at p, 0 if more is needed, negative: bad. */
static long one_request(const char *p, size_t n)
{
	const char *why, *data;
	struct http_reader r;
	struct http_head h;
	size_t len;
	long at = http_parse_request(&h, p, n, &why), used;

	if (at <= 0)
		return at;
	http_reader_init(&r, &h);
	http_head_clear(&h);
	while (!r.done && (size_t)at < n) {
		used = http_read_body(&r, p + at, n - (size_t)at, &data, &len);
		if (used < 0)
			return used;
		at += used;
	}
	return r.done ? at : 0;
}

static bool was_reviewed(void *arg)
{
	const struct talk *t = arg;

	return t->reviewed;
}

static void answer_requests(struct talk *t, struct chan *c, char *p)
{
	size_t seen = 0, i = 0;
	ssize_t n;

	if (t->early && (n = chan_read(c, p, 64 << 10)) > 0) {
		buf_append(&t->to_server, p, (size_t)n);
		put_all(c, t->answer[i], strlen(t->answer[i]), 0);
		i++;
	}
	while ((t->answer[i] || t->echo) && (n = chan_read(c, p, 64 << 10)) > 0) {
		long used = 1;

		if (t->echo && !t->answer[i]) {
			put_all(c, p, (size_t)n, 0);
			continue;
		}
		buf_append(&t->to_server, p, (size_t)n);
		while (t->answer[i] && used > 0) {
			used = one_request(t->to_server.data + seen,
					   t->to_server.len - seen);
			if (used <= 0)
				break;
			seen += (size_t)used;
			put_all(c, t->answer[i], strlen(t->answer[i]), 0);
			i++;
		}
		if (used < 0)
			return;
	}
	if (t->tail_n && (!t->review_at || becomes(was_reviewed, t)))
		put_all(c, t->tail, t->tail_n, 0);
}

static void *run_server(void *arg)
{
	struct talk *t = arg;
	char *p = malloc(64 << 10);
	struct chan c;
	ssize_t n;

	set_timeout(t->server);
	chan_plain(&c, t->server);
	if (!t->tls || (chan_server(&c, t->server, t->rig->outside,
				    t->wrong_cert ? "wrong.test" : t->host) == 0 &&
			chan_handshake(&c) == 1)) {
		answer_requests(t, &c, p);
		chan_shutdown(&c);
		while ((n = chan_read(&c, p, 64 << 10)) > 0)
			buf_append(&t->to_server, p, (size_t)n);
	}
	chan_clear(&c);
	close(t->server);
	free(p);
	return NULL;
}

/* ---- the connection between them -----------------------------------------------------
 */

static void rig_tick(struct timer *t)
{
	struct rig *r = container_of(t, struct rig, tick);

	if (r->talk->begun && !r->talk->reviewed) {
		rig_policy(r, r->talk->next_policy, "[]");
		conn_review_all(&r->e);
		r->talk->reviewed = true;
	}
	if (r->e.conns)
		timer_start(r->e.loop, t, 1, rig_tick);
	else
		loop_stop(r->e.loop);
}

static void rig_pair(int *ours, int *theirs)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0 ||
	    fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0)
		rig_fail("socketpair");
	*ours = fds[0];
	*theirs = fds[1];
}

static void rig_conn(struct rig *r, struct talk *t)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (!c)
		rig_fail("memory");
	c->egress = &r->e;
	c->id = ++r->e.next_id;
	c->port = t->port ? t->port : t->tls ? 443 : 80;
	c->name = name_ref(names_get(r->e.names, t->host, 0));
	addr_parse("203.0.114.1", &c->dialled);
	rig_pair(&c->client, &t->client);
	rig_pair(&c->upstream, &t->server);
	policy_connect(r->e.policy, &c->who, t->host, NULL, c->port, &c->decision);
	c->next = r->e.conns;
	c->link = &r->e.conns;
	if (c->next)
		c->next->link = &c->next;
	r->e.conns = c;
	r->e.n_conns++;
	if (t->sent_first && send(t->client, t->send, strlen(t->send), 0) < 0)
		rig_fail("send");
	l7_start(c, t->tls);
}

/* Runs one connection to its end. */
static void rig_talk(struct rig *r, struct talk *t)
{
	pthread_t client, server;

	t->rig = r;
	r->talk = t;
	r->e.secrets = r->secrets;
	buf_init(&t->to_server, 64 << 20);
	buf_init(&t->to_client, 64 << 20);
	rig_conn(r, t);
	if (pthread_create(&client, NULL, run_client, t) != 0 ||
	    pthread_create(&server, NULL, run_server, t) != 0)
		rig_fail("threads");
	timer_start(r->e.loop, &r->tick, 0, rig_tick);
	if (loop_run(r->e.loop) < 0)
		rig_fail("loop");
	pthread_join(client, NULL);
	pthread_join(server, NULL);
	buf_append(&t->to_server, "", 1); /* texts, even if nothing came */
	buf_append(&t->to_client, "", 1);
	t->to_server.len--;
	t->to_client.len--;
}

static void talk_clear(struct talk *t)
{
	buf_clear(&t->to_server);
	buf_clear(&t->to_client);
}

static inline size_t count_of(const char *text, const char *what)
{
	size_t n = 0;

	for (const char *p = text; (p = strstr(p, what)); p += strlen(what))
		n++;
	return n;
}

#endif
