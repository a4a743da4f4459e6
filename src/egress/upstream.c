/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upstream - questions to the host's resolvers through c-ares.
 *
 * Theory of operation. A channel is a set of servers with its sockets. c-ares tells which
 * descriptors it waits for (socket_state), we tell it when they are ready, and every
 * TICK_MS that time has passed. It cannot take new servers while questions are under way:
 * a new channel takes over then, and the old one goes when its last question has ended.
 *
 * Every option that c-ares would look up in a file is given here, so that it opens none,
 * but for its random key; without that it would fall back to rand(). The key makes only
 * the numbers of questions, and those are ours: 16 bits of getrandom() each. The port is
 * the kernel's choice, a new one whenever no question was under way.
 */
#include "egress/upstream.h"

#include "base/util.h"

#include <ares.h>
#include <arpa/nameser.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/random.h>

#define TICK_MS 100
#define TRIES 2
#define EDNS_SIZE 1232
/* Two for each lookup, and as many again that are forgotten, but not over for c-ares. */
#define QUERIES_MAX (4 * LOOKUP_PENDING_MAX)

struct channel {
	struct upstream *up;
	struct channel *next;
	ares_channel ares;
	struct sock *socks;
	unsigned queries;
};

struct sock {
	struct watch watch;
	struct channel *channel;
	struct sock *next;
};

struct upstream {
	struct loop *loop;
	struct channel *channels; /* the first is the current one; others are ending */
	struct timer tick;
	unsigned queries;
	bool has_servers;
};

struct upstream_query {
	struct channel *channel;
	struct upstream_ask *ask; /* NULL: forgotten */
	bool v6;
};

/* ---- sockets --------------------------------------------------------------------- */

/* c-ares' own need more system calls than we may make, and more than it takes. */
static ares_socket_t sock_open(int family, int type, int protocol, void *arg)
{
	(void)arg;
	return socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
}

static int sock_close(ares_socket_t fd, void *arg)
{
	(void)arg;
	return close(fd);
}

static int sock_connect(ares_socket_t fd, const struct sockaddr *to, ares_socklen_t n,
			void *arg)
{
	(void)arg;
	return connect(fd, to, n);
}

static ares_ssize_t sock_receive(ares_socket_t fd, void *p, size_t n, int flags,
				 struct sockaddr *from, ares_socklen_t *from_n, void *arg)
{
	(void)arg;
	return recvfrom(fd, p, n, flags, from, from_n);
}

static ares_ssize_t sock_send(ares_socket_t fd, const struct iovec *iov, int n, void *arg)
{
	struct msghdr m = {.msg_iovlen = (size_t)n};

	(void)arg;
	memcpy(&m.msg_iov, &iov, sizeof(iov)); /* the kernel does not write to it */
	return sendmsg(fd, &m, MSG_NOSIGNAL);
}

static const struct ares_socket_functions sock_functions = {
	sock_open, sock_close, sock_connect, sock_receive, sock_send};

static void on_socket(struct watch *w, uint32_t events)
{
	struct sock *s = container_of(w, struct sock, watch);
	ares_socket_t fd = w->fd;
	bool in = events & (EPOLLIN | EPOLLERR | EPOLLHUP), out = events & EPOLLOUT;

	ares_process_fd(s->channel->ares, in ? fd : ARES_SOCKET_BAD,
			out ? fd : ARES_SOCKET_BAD); /* s may be gone */
}

static void socket_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct channel *c = arg;
	struct loop *l = c->up->loop;
	uint32_t events = (readable ? EPOLLIN : 0u) | (writable ? EPOLLOUT : 0u);
	struct sock **p = &c->socks, *s;

	while (*p && (*p)->watch.fd != fd)
		p = &(*p)->next;
	s = *p;
	if (s && events) {
		watch_change(l, &s->watch, events);
	} else if (s) {
		watch_stop(l, &s->watch);
		*p = s->next;
		free(s);
	} else if (events && (s = calloc(1, sizeof(*s)))) {
		s->channel = c;
		if (watch_start(l, &s->watch, fd, events, on_socket) < 0) {
			free(s); /* the question ends by its timeout */
			return;
		}
		s->next = c->socks;
		c->socks = s;
	}
}

/* ---- channels -------------------------------------------------------------------- */

static void channel_free(struct channel *c)
{
	if (c->ares)
		ares_destroy(c->ares); /* its questions end, its sockets close */
	free(c);
}

static int channel_new(struct upstream *u, unsigned n_servers, struct channel **ret)
{
	char lookups[] = "b";
	struct ares_options o = {
		.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_EDNS,
		/* the second round takes twice as long as the first */
		.timeout = (int)(UPSTREAM_MS / (3 * (n_servers ? n_servers : 1))),
		.tries = TRIES,
		.ndots = 1,
		.ednspsz = EDNS_SIZE,
		.lookups = lookups,
		.sock_state_cb = socket_state,
	};
	int given = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES |
		    ARES_OPT_NDOTS | ARES_OPT_EDNSPSZ | ARES_OPT_LOOKUPS |
		    ARES_OPT_SOCK_STATE_CB | ARES_OPT_SERVERS | ARES_OPT_DOMAINS |
		    ARES_OPT_SORTLIST | ARES_OPT_NOROTATE;
	struct channel *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->up = u;
	o.sock_state_cb_data = c;
	if (ares_init_options(&c->ares, &o, given) != ARES_SUCCESS) {
		free(c);
		return -ENOMEM;
	}
	ares_set_socket_functions(c->ares, &sock_functions, NULL);
	*ret = c;
	return 0;
}

/* Those that have been replaced and whose last question has ended. */
static void channels_reap(struct upstream *u)
{
	struct channel **p = u->channels ? &u->channels->next : &u->channels;

	while (*p) {
		struct channel *c = *p;

		if (c->queries) {
			p = &c->next;
			continue;
		}
		*p = c->next;
		channel_free(c);
	}
}

static void on_tick(struct timer *t)
{
	struct upstream *u = container_of(t, struct upstream, tick);

	for (struct channel *c = u->channels; c; c = c->next)
		ares_process_fd(c->ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	channels_reap(u);
	if (u->queries || u->channels->next)
		timer_start(u->loop, t, TICK_MS, on_tick);
}

int upstream_new(struct upstream **ret, struct loop *l)
{
	struct upstream *u = calloc(1, sizeof(*u));

	if (!u)
		return -ENOMEM;
	if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS) {
		free(u);
		return -ENOMEM;
	}
	u->loop = l;
	*ret = u;
	return 0;
}

void upstream_free(struct upstream *u)
{
	if (!u)
		return;
	timer_stop(u->loop, &u->tick);
	while (u->channels) {
		struct channel *c = u->channels;

		u->channels = c->next;
		channel_free(c);
	}
	ares_library_cleanup();
	free(u);
}

/* ---- servers --------------------------------------------------------------------- */

/* "ADDR" or "ADDR#PORT", n bytes of it. */
static bool parse_server(const char *text, size_t n, struct ares_addr_port_node *ret)
{
	char copy[ADDR_TEXT + 8], *hash, *end;
	struct addr a;
	unsigned long port = 53;

	if (n >= sizeof(copy))
		return false;
	memcpy(copy, text, n);
	copy[n] = '\0';
	hash = strchr(copy, '#');
	if (hash) {
		*hash++ = '\0';
		port = strtoul(hash, &end, 10);
		if (*hash < '0' || *hash > '9' || *end || port < 1 || port > 65535)
			return false;
	}
	if (addr_parse(copy, &a) < 0)
		return false;
	*ret = (struct ares_addr_port_node){.udp_port = (int)port, .tcp_port = (int)port};
	ret->family = addr_is_v4(&a) ? AF_INET : AF_INET6;
	if (ret->family == AF_INET)
		memcpy(&ret->addr.addr4, a.b + 12, 4);
	else
		memcpy(&ret->addr.addr6, a.b, 16);
	return true;
}

static unsigned parse_servers(const char *text, struct ares_addr_port_node *ret)
{
	unsigned count = 0;

	while (*text && count < UPSTREAM_SERVERS_MAX) {
		size_t n = strcspn(text, ", ");

		if (parse_server(text, n, &ret[count])) {
			if (count)
				ret[count - 1].next = &ret[count];
			count++;
		}
		text += n;
		text += strspn(text, ", ");
	}
	return count;
}

int upstream_servers(struct upstream *u, const char *servers)
{
	struct ares_addr_port_node node[UPSTREAM_SERVERS_MAX];
	unsigned n = parse_servers(servers, node);
	struct channel *c;
	int r = channel_new(u, n, &c);

	if (r < 0)
		return r;
	if (n && ares_set_servers_ports(c->ares, node) != ARES_SUCCESS) {
		channel_free(c);
		return -ENOMEM;
	}
	u->has_servers = n > 0;
	c->next = u->channels;
	u->channels = c;
	if (c->next) /* not here: we may be called from inside one of them */
		timer_start(u->loop, &u->tick, TICK_MS, on_tick);
	return 0;
}

/* ---- questions ------------------------------------------------------------------- */

static void put_addr(struct upstream_reply *r, const void *bytes, bool v6, int ttl)
{
	struct addr *a = &r->addrs[r->n++];
	uint32_t seconds = ttl > 0 ? (uint32_t)ttl : 0;

	*a = (struct addr){
		{[10] = 0xff, [11] = 0xff}
        };
	memcpy(v6 ? a->b : a->b + 12, bytes, v6 ? 16 : 4);
	r->ttl = r->n == 1 || seconds < r->ttl ? seconds : r->ttl;
}

static int read_addrs(const unsigned char *msg, int len, bool v6,
		      struct upstream_reply *r)
{
	struct ares_addrttl a4[LOOKUP_ADDRS_MAX];
	struct ares_addr6ttl a6[LOOKUP_ADDRS_MAX];
	int n = LOOKUP_ADDRS_MAX;
	int status = v6 ? ares_parse_aaaa_reply(msg, len, NULL, a6, &n)
			: ares_parse_a_reply(msg, len, NULL, a4, &n);

	for (int i = 0; status == ARES_SUCCESS && i < n; i++)
		put_addr(r, v6 ? (void *)&a6[i].ip6addr : (void *)&a4[i].ipaddr, v6,
			 v6 ? a6[i].ttl : a4[i].ttl);
	return status;
}

static void read_reply(int status, const unsigned char *msg, int len, bool v6,
		       struct upstream_reply *r)
{
	*r = (struct upstream_reply){.status = LOOKUP_FAILED};
	if (status != ARES_SUCCESS || len < NS_HFIXEDSZ) {
		r->why = status == ARES_ETIMEOUT ? "the resolver did not answer"
			 : status == ARES_ECONNREFUSED
				 ? "the resolver refuses, or cannot be reached"
				 : "the resolver failed";
		return;
	}
	if ((msg[3] & 15) == ns_r_nxdomain) {
		r->status = LOOKUP_NXDOMAIN;
		return;
	}
	if ((msg[3] & 15) != ns_r_noerror) {
		r->why = "the resolver failed";
		return;
	}
	status = read_addrs(msg, len, v6, r);
	if (status == ARES_SUCCESS || status == ARES_ENODATA)
		r->status = LOOKUP_OK;
	else
		r->why = "the resolver's answer is malformed";
}

static void on_answer(void *arg, int status, int timeouts, unsigned char *msg, int len)
{
	struct upstream_query *q = arg;
	struct upstream_ask *a = q->ask;
	struct upstream_reply r;

	(void)timeouts;
	q->channel->queries--;
	q->channel->up->queries--;
	if (a && status != ARES_EDESTRUCTION) {
		read_reply(status, msg, len, q->v6, &r);
		a->query = NULL;
		a->fn(a, &r);
	} else if (a) {
		a->query = NULL;
	}
	free(q);
}

static void answer_failed(struct upstream_ask *a, const char *why)
{
	a->query = NULL;
	a->fn(a, &(struct upstream_reply){.status = LOOKUP_FAILED, .why = why});
}

void upstream_ask(struct upstream *u, const char *name, bool v6, struct upstream_ask *a,
		  void (*fn)(struct upstream_ask *, const struct upstream_reply *))
{
	struct upstream_query *q;
	unsigned char *msg = NULL;
	uint16_t id;
	int len;

	a->fn = fn;
	if (!u->has_servers || u->queries >= QUERIES_MAX) {
		answer_failed(a, u->has_servers ? "too many lookups" : "no resolver");
		return;
	}
	q = calloc(1, sizeof(*q));
	if (!q || getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id) ||
	    ares_create_query(name, ns_c_in, v6 ? ns_t_aaaa : ns_t_a, id, 1, &msg, &len,
			      EDNS_SIZE) != ARES_SUCCESS) {
		free(q);
		answer_failed(a, "the question cannot be made");
		return;
	}
	*q = (struct upstream_query){.channel = u->channels, .ask = a, .v6 = v6};
	a->query = q;
	u->channels->queries++;
	u->queries++;
	if (!u->tick.slot)
		timer_start(u->loop, &u->tick, TICK_MS, on_tick);
	ares_send(u->channels->ares, msg, len, on_answer, q); /* q may be gone */
	ares_free_string(msg);
}

void upstream_forget(struct upstream_ask *a)
{
	if (a->query)
		a->query->ask = NULL;
	a->query = NULL;
}
