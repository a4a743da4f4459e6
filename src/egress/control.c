/* SPDX-License-Identifier: Apache-2.0 */
/* control - what the host says to the role, see ipc/control.h; control_say.c answers. */
#include "egress/ca.h"
#include "egress/conn.h"
#include "egress/control_impl.h"
#include "egress/lookup.h"
#include "egress/swap.h"

#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#define HOSTS_MAX (1u << 20)
#define TRUST_MAX (8u << 20)

/* ---- in: one function a packet ---------------------------------------------------- */

static int take_start(struct control *k, const json_t *o)
{
	const char *name = json_string_value(json_object_get(o, "name"));
	struct cove_error err = {0};

	if (!k->egress->authority &&
	    authority_new(&k->egress->authority, name ? name : "sandbox", &err) < 0)
		return -EIO;
	if (json_is_true(json_object_get(o, "named")))
		snprintf(k->egress->name, sizeof(k->egress->name), "%s",
			 name ? name : "");
	return control_say(k, json_pack("{s:s}", "t", "ready"), -1, true);
}

/* Maps a sealed memory file, so that nobody changes it under us. */
static int map_sealed(int fd, size_t max, void **ret, size_t *ret_n)
{
	off_t n = lseek(fd, 0, SEEK_END);
	int seals = fcntl(fd, F_GET_SEALS);

	if (n <= 0 || (size_t)n > max)
		return -EFBIG;
	if (seals < 0 ||
	    (seals & (F_SEAL_WRITE | F_SEAL_SHRINK)) != (F_SEAL_WRITE | F_SEAL_SHRINK))
		return -EPERM;
	*ret = mmap(NULL, (size_t)n, PROT_READ, MAP_PRIVATE, fd, 0);
	if (*ret == MAP_FAILED)
		return -errno;
	*ret_n = (size_t)n;
	return 0;
}

static int put_policy(struct egress *e, int fd, unsigned *closed, struct cove_error *err)
{
	struct policy *p, *old = e->policy;
	void *map = NULL, *old_map = e->policy_map;
	size_t n = 0, old_n = e->policy_len;
	int r = map_sealed(fd, POLICY_IMAGE_MAX, &map, &n);

	if (r < 0)
		return fail(err, COVE_EPROTO, -r, "policy image");
	if (policy_open(&p, map, n, err) < 0) {
		munmap(map, n);
		return err->code;
	}
	e->policy = p;
	e->policy_map = map;
	e->policy_len = n;
	memset(e->seen, 0, sizeof(e->seen));
	*closed = conn_review_all(e); /* nobody points into the old one after this */
	policy_close(old);
	if (old_map)
		munmap(old_map, old_n);
	return 0;
}

static int take_policy(struct control *k, const json_t *o)
{
	struct cove_error err = {0};
	json_int_t gen = json_integer_value(json_object_get(o, "gen"));
	unsigned closed = 0;

	if (k->n_fds != 1)
		return -EPROTO;
	if (put_policy(k->egress, k->fd[0], &closed, &err) < 0)
		return control_say(k,
				   json_pack("{s:s, s:I, s:s}", "t", "policy", "gen", gen,
					     "error", err.msg),
				   -1, true);
	return control_say(k,
			   json_pack("{s:s, s:I, s:i}", "t", "policy", "gen", gen,
				     "closed", (int)closed),
			   -1, true);
}

static int take_listen(struct control *k, const json_t *o)
{
	int r;

	(void)o;
	if (k->n_fds != CONTROL_FDS || !k->egress->authority)
		return -EPROTO;
	r = egress_listen(k->egress, k->fd[0], k->fd[1], k->fd[2], k->fd[3]);
	k->n_fds = 0; /* taken over */
	return r;
}

/* 32 hex digits; without: zeros. */
static int read_nonce(const json_t *o, uint8_t ret[NETMUX_NONCE])
{
	const char *text = json_string_value(json_object_get(o, "nonce"));
	size_t n = 0;

	memset(ret, 0, NETMUX_NONCE);
	if (text &&
	    (sodium_hex2bin(ret, NETMUX_NONCE, text, strlen(text), NULL, &n, NULL) ||
	     n != NETMUX_NONCE))
		return -EPROTO;
	return 0;
}

static int take_stream(struct control *k, const json_t *o)
{
	uint8_t nonce[NETMUX_NONCE];

	if (k->n_fds != 1 || !k->egress->authority || read_nonce(o, nonce) < 0)
		return -EPROTO;
	k->n_fds = 0; /* taken over */
	return egress_stream(k->egress, k->fd[0], nonce);
}

static int take_log(struct control *k, const json_t *o)
{
	(void)o;
	if (k->n_fds != 1)
		return -EPROTO;
	egress_log_flush(k->egress);
	close_fd(&k->egress->log_fd);
	k->egress->log_fd = k->fd[0];
	k->n_fds = 0;
	return 0;
}

static int read_text(int fd, size_t max, struct buf *ret)
{
	buf_init(ret, max);
	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	return read_fd(fd, ret);
}

static int take_resolver(struct control *k, const json_t *o)
{
	struct egress *e = k->egress;
	const char *servers = json_string_value(json_object_get(o, "servers"));
	const json_t *self = json_object_get(o, "self");
	cleanup_buf struct buf hosts = BUF_INIT(HOSTS_MAX);

	if (!servers || k->n_fds > 1)
		return -EPROTO;
	if (k->n_fds && read_text(k->fd[0], HOSTS_MAX, &hosts) < 0)
		buf_clear(&hosts); /* a hosts file beyond all reason is none */
	e->n_self = 0;
	for (size_t i = 0; i < json_array_size(self) && e->n_self < ARRAY_LEN(e->self);
	     i++) {
		const char *text = json_string_value(json_array_get(self, i));

		if (text && addr_parse(text, &e->self[e->n_self]) == 0)
			e->n_self++;
	}
	return lookup_configure(e->lookup, servers, hosts.data ? hosts.data : "");
}

static int take_trust(struct control *k, const json_t *o)
{
	cleanup_buf struct buf pem = BUF_INIT(TRUST_MAX);
	int r;

	(void)o;
	if (k->n_fds != 1 || !k->egress->authority)
		return -EPROTO;
	r = read_text(k->fd[0], TRUST_MAX, &pem);
	return r < 0 ? r : authority_trust(k->egress->authority, pem.data, pem.len);
}

static int make_jks(struct authority *a, int *ret)
{
	cleanup_buf struct buf jks = BUF_INIT(TRUST_MAX);
	struct cove_error err = {0};
	cleanup_fd int fd = memfd_create("cove-java", MFD_CLOEXEC);
	int r;

	if (fd < 0)
		return -errno;
	if (authority_jks(a, &jks, &err) < 0)
		return -EIO;
	r = write_all(fd, jks.data, jks.len);
	if (r == 0)
		*ret = take_fd(&fd);
	return r;
}

static int take_authority(struct control *k, const json_t *o)
{
	cleanup_buf struct buf pem = BUF_INIT(16384);
	cleanup_fd int jks = -1;
	int r = -EPROTO;

	if (k->egress->authority)
		r = authority_pem(k->egress->authority, &pem);
	if (r == 0 && json_is_true(json_object_get(o, "java")))
		r = make_jks(k->egress->authority, &jks);
	if (r < 0)
		return r;
	return control_say(k, json_pack("{s:s, s:s}", "t", "authority", "pem", pem.data),
			   jks, true);
}

static int take_secret(struct control *k, const json_t *o)
{
	const char *name, *placeholder, *value, *hosts;
	size_t max, n;
	unsigned char *bin;
	int r = -EPROTO;

	if (k->egress->secrets)
		return -EALREADY;
	if (json_unpack((json_t *)(uintptr_t)o, "{s:s, s:s, s:s, s:s}", "name", &name,
			"placeholder", &placeholder, "value", &value, "hosts",
			&hosts) < 0)
		return -EPROTO;
	if (!k->table && swap_new(&k->table) < 0)
		return -ENOMEM;
	max = strlen(value);
	bin = sodium_malloc(max + 1);
	if (!bin)
		return -ENOMEM;
	if (sodium_base642bin(bin, max, value, max, NULL, &n, NULL,
			      sodium_base64_VARIANT_ORIGINAL) == 0)
		r = swap_add(k->table, name, placeholder, (char *)bin, n, hosts);
	sodium_free(bin); /* wipes */
	sodium_memzero((char *)(uintptr_t)value, max);
	return r;
}

static int take_secrets(struct control *k, const json_t *o)
{
	int r;

	(void)o;
	if (!k->table)
		return 0;
	r = swap_ready(k->table);
	if (r == 0)
		k->egress->secrets = take_ptr(k->table);
	return r;
}

static int take_scope(struct control *k, const json_t *o)
{
	(void)o;
	k->egress->who_always = true;
	return control_say(k, json_pack("{s:s}", "t", "scope"), -1, true);
}

static const struct {
	const char *name;
	int (*fn)(struct control *k, const json_t *o);
} packets[] = {
	{"start",     take_start      },
        {"policy",    take_policy     },
	{"listen",    take_listen     },
        {"stream",    take_stream     },
	{"log",       take_log        },
        {"resolver",  take_resolver   },
	{"trust",     take_trust      },
        {"authority", take_authority  },
	{"secret",    take_secret     },
        {"secrets",   take_secrets    },
	{"scope",     take_scope      },
        {"answer",    control_answered},
};

static int take(struct control *k, const json_t *o)
{
	const char *t = json_string_value(json_object_get(o, "t"));

	for (size_t i = 0; t && i < ARRAY_LEN(packets); i++)
		if (strcmp(t, packets[i].name) == 0)
			return packets[i].fn(k, o);
	return -EPROTO;
}

/* ---- the socket ------------------------------------------------------------------- */

static void take_fds(struct control *k, struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n && k->n_fds < CONTROL_FDS; i++)
			memcpy(&k->fd[k->n_fds++], CMSG_DATA(c) + i * sizeof(int),
			       sizeof(int));
	}
}

static ssize_t receive(struct control *k)
{
	union {
		char space[CMSG_SPACE(CONTROL_FDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {k->packet, CONTROL_PACKET};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(k->watch.fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0)
		return -errno;
	k->n_fds = 0;
	take_fds(k, &m);
	return m.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? -EMSGSIZE : n;
}

/* The host is trusted: what we cannot make sense of is a bug, and ends us. Nothing falls
 * open then, as there is nobody else who carries a connection. */
static void control_ready(struct watch *w, uint32_t events)
{
	struct control *k = container_of(w, struct control, watch);
	ssize_t n;
	json_t *o;
	int r;

	if (events & EPOLLOUT)
		control_send_kept(k);
	n = receive(k);
	if (n == -EAGAIN || n == -EINTR)
		return;
	o = n > 0 ? json_loadb(k->packet, (size_t)n, 0, NULL) : NULL;
	r = o ? take(k, o) : -EPIPE;
	json_decref(o);
	if (n > 0)
		sodium_memzero(k->packet, (size_t)n);
	while (k->n_fds)
		close(k->fd[--k->n_fds]);
	if (r < 0) {
		egress_log_flush(k->egress);
		loop_stop(k->egress->loop);
	}
}

int egress_control(struct egress *e, int sock)
{
	struct control *k = calloc(1, sizeof(*k));
	int r;

	if (!k)
		return -ENOMEM;
	k->egress = e;
	r = watch_start(e->loop, &k->watch, sock, EPOLLIN, control_ready);
	if (r < 0) {
		free(k);
		return r;
	}
	e->control = k;
	return 0;
}
