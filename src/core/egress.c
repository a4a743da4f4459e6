/* SPDX-License-Identifier: Apache-2.0 */
/* egress - the host's end: the role's process, its policy, its questions. */
#include "core/egress_impl.h"

#include "base/util.h"
#include "core/secret.h"
#include "os/program.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

#define TURN_US 20000 /* of a turn; a question may take several ms */

static int64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* ---- what the role says by itself ------------------------------------------------- */

static bool text_addr(const json_t *o, const char *key, struct addr *ret)
{
	const char *text = json_string_value(json_object_get(o, key));

	return text && addr_parse(text, ret) == 0;
}

/* Numbers that the guest chose: what is out of range is nobody. */
static void guest_word(const json_t *o, struct who *ret)
{
	json_int_t pid = json_integer_value(json_object_get(o, "pid"));
	json_int_t root = json_integer_value(json_object_get(o, "root"));
	const char *program = json_string_value(json_object_get(o, "program"));

	*ret = (struct who){
		.started = (uint64_t)json_integer_value(json_object_get(o, "started"))};
	if (pid <= 0 || pid > INT_MAX || root <= 0 || root > INT_MAX)
		return;
	ret->pid = (pid_t)pid;
	ret->root = (uint32_t)root;
	snprintf(ret->program, sizeof(ret->program), "%s", program ? program : "");
}

static void on_who(struct egress_host *h, const json_t *o)
{
	const char *proto = json_string_value(json_object_get(o, "proto"));
	struct egress_who q = {
		.udp = proto && strcmp(proto, "udp") == 0,
		.told = json_is_object(json_object_get(o, "guest")),
		.from_port =
			(uint16_t)json_integer_value(json_object_get(o, "from_port")),
		.to_port = (uint16_t)json_integer_value(json_object_get(o, "to_port"))};
	json_t *a =
		json_pack("{s:s, s:O}", "t", "answer", "id", json_object_get(o, "id"));

	if (!a)
		return;
	if (q.told)
		guest_word(json_object_get(o, "guest"), &q.guest);
	if (h->owner.who &&
	    (q.told || (text_addr(o, "from", &q.from) && text_addr(o, "to", &q.to))))
		h->owner.who(h->owner.arg, &q, a);
	else
		json_object_set_new(a, "unknown", json_true());
	egress_send(h, a, NULL, 0);
}

int egress_answer(struct egress_host *h, uint64_t id, bool allow)
{
	return egress_send(h,
			   json_pack("{s:s, s:I, s:b}", "t", "answer", "id",
				     (json_int_t)id, "allow", allow),
			   NULL, 0);
}

static void on_ask(struct egress_host *h, const json_t *o)
{
	uint64_t id = (uint64_t)json_integer_value(json_object_get(o, "id"));

	if (h->owner.ask)
		h->owner.ask(h->owner.arg, id, o);
	else
		egress_answer(h, id, false);
}

static void on_event(struct egress_host *h, const json_t *o)
{
	if (h->owner.event)
		h->owner.event(h->owner.arg, o);
}

static void on_violation(struct egress_host *h, const json_t *o)
{
	if (h->owner.violation)
		h->owner.violation(h->owner.arg, o);
}

static const struct {
	const char *name;
	void (*fn)(struct egress_host *h, const json_t *o);
} packets[] = {
	{"who",       on_who      },
	{"ask",       on_ask      },
	{"event",     on_event    },
	{"lost",      on_event    },
	{"violation", on_violation},
};

static void handle(struct egress_host *h, const json_t *o)
{
	const char *t = json_string_value(json_object_get(o, "t"));

	for (size_t i = 0; t && i < ARRAY_LEN(packets); i++)
		if (strcmp(t, packets[i].name) == 0)
			packets[i].fn(h, o);
}

/* ---- calls ------------------------------------------------------------------------ */

/* Waits for its end for so long at most; false: it has not ended, or somebody else of
 * this process has heard of it. */
static bool reap(struct egress_host *h, int ms, int *ret_status)
{
	for (int i = 0; h->pid > 0 && i <= ms; i++) {
		struct timespec t = {.tv_nsec = 1000000};
		pid_t r = waitpid(h->pid, ret_status, WNOHANG);

		if (r == h->pid || (r < 0 && errno != EINTR)) {
			h->pid = 0;
			return r > 0;
		}
		nanosleep(&t, NULL);
	}
	return false;
}

static int gone(struct egress_host *h, struct cove_error *err)
{
	int status;

	h->dead = true;
	/* Its socket closes a moment before it has ended. */
	if (reap(h, 50, &status) && WIFSIGNALED(status))
		return fail(err, COVE_EGONE, 0, "network: cove-egress was killed (%s)",
			    strsignal(WTERMSIG(status)));
	return fail(err, COVE_EGONE, 0, "network: cove-egress has ended");
}

/* One packet: the one that is waited for; others are handled here, and are NULL. */
static json_t *take_one(struct egress_host *h, const char *name, int *ret_fd,
			int *ret_err)
{
	cleanup_fd int fd = -1;
	json_t *o = egress_receive(h, &fd, ret_err);
	const char *t = json_string_value(json_object_get(o, "t"));

	if (!o)
		return NULL;
	if (t && strcmp(t, name) == 0) {
		if (ret_fd)
			*ret_fd = take_fd(&fd);
		return o;
	}
	handle(h, o);
	json_decref(o);
	return NULL;
}

/* Waits for the packet of that name; handles others on the way. */
static json_t *await(struct egress_host *h, const char *name, int *ret_fd,
		     struct cove_error *err)
{
	int64_t until = now_us() + ANSWER_MS * 1000, left;

	while ((left = until - now_us()) > 0 && !h->dead) {
		struct pollfd p = {.fd = h->sock, .events = POLLIN};
		json_t *o;
		int e = 0;

		if (poll(&p, 1, (int)(left / 1000) + 1) <= 0)
			continue;
		o = take_one(h, name, ret_fd, &e);
		if (o)
			return o;
		if (e && e != -EAGAIN && e != -EINTR) {
			gone(h, err);
			return NULL;
		}
	}
	fail(err, COVE_EGONE, 0, "network: cove-egress does not answer");
	return NULL;
}

int egress_turn(struct egress_host *h, struct cove_error *err)
{
	int64_t until = now_us() + TURN_US; /* the owner has other work too */

	do {
		int e = 0;
		json_t *o = egress_receive(h, NULL, &e);

		if (!o && (e == -EAGAIN || e == -EINTR))
			break;
		if (!o)
			return gone(h, err);
		handle(h, o);
		json_decref(o);
	} while (now_us() < until);
	egress_refresh(h); /* all that "stale" asks for */
	return 0;
}

int egress_fd(const struct egress_host *h)
{
	return h->sock;
}

uint64_t egress_generation(const struct egress_host *h)
{
	return h->generation;
}

/* ---- policy ----------------------------------------------------------------------- */

/* The role's word that a policy is in force. */
static int await_policy(struct egress_host *h, struct egress_change *ret,
			struct cove_error *err)
{
	json_t *o = await(h, "policy", NULL, err);
	const char *why;

	if (!o)
		return err->code;
	why = json_string_value(json_object_get(o, "error"));
	if (why)
		fail(err, COVE_EIO, 0, "network: policy: %s", why);
	else
		ret->closed = (unsigned)json_integer_value(json_object_get(o, "closed"));
	json_decref(o);
	return why ? err->code : 0;
}

static int send_policy(struct egress_host *h, const struct spec *s, const json_t *live,
		       const struct netfile *file, struct egress_change *c,
		       struct cove_error *err)
{
	cleanup_buf struct buf image = BUF_INIT(POLICY_IMAGE_MAX);
	cleanup_fd int fd = -1;
	int r;

	if (egress_compile(s, live, file, c->generation, &image, err) < 0 ||
	    egress_look(&image, c, err) < 0)
		return err->code;
	r = egress_sealed("cove-policy", image.data, image.len, &fd);
	if (r == 0)
		r = egress_send(h,
				json_pack("{s:s, s:I}", "t", "policy", "gen",
					  (json_int_t)c->generation),
				&fd, 1);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "network: policy");
	return 0;
}

/* The start does not wait for the role: it gets ready while the place starts. */
static int settle(struct egress_host *h, struct cove_error *err)
{
	struct egress_change c = {0};
	json_t *ready;

	if (h->settled)
		return 0;
	ready = await(h, "ready", NULL, err);
	json_decref(ready);
	if (!ready || await_policy(h, &c, err) < 0)
		return err->code;
	h->settled = true;
	return 0;
}

int egress_update(struct egress_host *h, const struct spec *s, const json_t *live,
		  const struct netfile *file, struct egress_change *ret,
		  struct cove_error *err)
{
	struct egress_change c = {.generation = h->generation + 1};
	int64_t begun = now_us();

	if (settle(h, err) < 0 || send_policy(h, s, live, file, &c, err) < 0 ||
	    await_policy(h, &c, err) < 0)
		return err->code;
	h->generation = c.generation;
	c.us = (uint64_t)(now_us() - begun);
	if (ret)
		*ret = c;
	return 0;
}

/* ---- start and end ---------------------------------------------------------------- */

static int send_secret(struct egress_host *h, const struct secret *v)
{
	size_t n = sodium_base64_encoded_len(v->n, sodium_base64_VARIANT_ORIGINAL);
	char *text = sodium_malloc(n);
	json_t *o, *value;
	int r;

	if (!text)
		return -ENOMEM;
	sodium_bin2base64(text, n, (const unsigned char *)v->value, v->n,
			  sodium_base64_VARIANT_ORIGINAL);
	value = json_string(text);
	o = json_pack("{s:s, s:s, s:s, s:O, s:s}", "t", "secret", "name", v->name,
		      "placeholder", v->placeholder, "value", value, "hosts",
		      v->hosts ? v->hosts : "");
	r = egress_send(h, o, NULL, 0);
	if (value)
		sodium_memzero((char *)(uintptr_t)json_string_value(value), n - 1);
	json_decref(value);
	sodium_free(text);
	return r;
}

static int send_secrets(struct egress_host *h, const struct secrets *s,
			struct cove_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && s && i < s->n; i++)
		if (s->v[i].inject == INJECT_PLACEHOLDER)
			r = send_secret(h, &s->v[i]);
	if (r == 0)
		r = egress_send(h, json_pack("{s:s}", "t", "secrets"), NULL, 0);
	return r < 0 ? fail(err, COVE_EIO, -r, "network: secrets") : 0;
}

static int spawn_role(struct egress_host *h, struct cove_error *err)
{
	static _Thread_local char cache[PATH_MAX];
	const char *file = program_find(cache, "cove-egress", "COVE_EGRESS", err);
	struct timeval patience = {.tv_sec = ANSWER_MS / 1000};
	int pair[2], r;

	if (!file)
		return err->code;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return fail(err, COVE_EIO, errno, "socketpair");
	h->sock = pair[0];
	setsockopt(h->sock, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	r = program_spawn(file, "cove-egress", (const int[]){-1, -1, -1, pair[1]},
			  &h->pid);
	close(pair[1]);
	return r < 0 ? fail(err, COVE_EIO, -r, "start %s", file) : 0;
}

static int introduce(struct egress_host *h, const struct egress_config *c,
		     struct cove_error *err)
{
	int r = egress_send(h,
			    json_pack("{s:s, s:s, s:b}", "t", "start", "name", c->name,
				      "named", c->named),
			    NULL, 0);
	struct egress_change change = {.generation = 1};

	if (r == 0 && c->log >= 0)
		r = egress_log(h, c->log);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "network: start");
	if (egress_send_host(h, c->spec, err) < 0 || send_secrets(h, c->values, err) < 0)
		return err->code;
	h->generation = change.generation;
	return send_policy(h, c->spec, c->live, c->file, &change, err);
}

int egress_start(struct egress_host **ret, const struct egress_config *c,
		 struct cove_error *err)
{
	struct egress_host *h = calloc(1, sizeof(*h));

	if (!h)
		return fail_nomem(err);
	h->sock = h->netlink = -1;
	h->owner = c->owner;
	if (spawn_role(h, err) < 0 || introduce(h, c, err) < 0) {
		egress_stop(h);
		return err->code;
	}
	*ret = h;
	return 0;
}

void egress_stop(struct egress_host *h)
{
	int status;

	if (!h)
		return;
	/* It ends when it sees this, and has nothing that must be saved but its log. */
	close_fd(&h->sock);
	close_fd(&h->netlink);
	json_decref(h->self);
	reap(h, 200, &status);
	if (h->pid > 0 && kill(h->pid, SIGKILL) == 0)
		waitpid(h->pid, NULL, 0);
	free(h);
}

int egress_log(struct egress_host *h, int fd)
{
	return egress_send(h, json_pack("{s:s}", "t", "log"), &fd, 1);
}

int egress_take_sockets(struct egress_host *h, int fds[CAPTURE_FDS],
			struct cove_error *err)
{
	int r;

	if (settle(h, err) < 0)
		return err->code;
	r = egress_send(h, json_pack("{s:s}", "t", "listen"), fds, CAPTURE_FDS);

	for (int i = 0; i < CAPTURE_FDS; i++)
		close_fd(&fds[i]);
	return r < 0 ? fail(err, COVE_EIO, -r, "network: listen") : 0;
}

int egress_take_stream_anew(struct egress_host *h, int *fd, const uint8_t *nonce,
			    size_t n, struct cove_error *err)
{
	char hex[2 * 32 + 1] = "";
	int r;

	for (size_t i = 0; i < n && i < 32; i++)
		snprintf(hex + 2 * i, 3, "%02x", nonce[i]);
	if (settle(h, err) < 0)
		return err->code;
	r = egress_send(h, json_pack("{s:s, s:s}", "t", "stream", "nonce", hex), fd, 1);
	close_fd(fd);
	return r < 0 ? fail(err, COVE_EIO, -r, "network: stream") : 0;
}

int egress_take_stream(struct egress_host *h, int *fd, struct cove_error *err)
{
	static const uint8_t none[16];

	return egress_take_stream_anew(h, fd, none, sizeof(none), err);
}

int egress_authority_ask(struct egress_host *h, bool java, struct cove_error *err)
{
	int r = h->asked ? 0
			 : egress_send(h,
				       json_pack("{s:s, s:b}", "t", "authority", "java",
						 java),
				       NULL, 0);

	if (r < 0)
		return fail(err, COVE_EIO, -r, "network: authority");
	h->asked = true;
	return 0;
}

int egress_authority(struct egress_host *h, bool java, struct buf *pem, int *ret_jks,
		     struct cove_error *err)
{
	cleanup_fd int jks = -1;
	const char *text;
	json_t *o;
	int r;

	if (egress_authority_ask(h, java, err) < 0)
		return err->code;
	h->asked = false;
	o = await(h, "authority", &jks, err);
	if (!o)
		return err->code;
	text = json_string_value(json_object_get(o, "pem"));
	r = text ? buf_puts(pem, text) : -EPROTO;
	json_decref(o);
	if (r < 0)
		return fail(err, COVE_EPROTO, -r, "network: authority");
	*ret_jks = take_fd(&jks);
	return 0;
}

int egress_who_always(struct egress_host *h, struct cove_error *err)
{
	json_t *o;
	int r = egress_send(h, json_pack("{s:s}", "t", "scope"), NULL, 0);

	if (r < 0)
		return fail(err, COVE_EIO, -r, "network: scope");
	o = await(h, "scope", NULL, err);
	json_decref(o);
	return o ? 0 : err->code;
}
