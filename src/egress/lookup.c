/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup - real addresses of names: the hosts file, then a cache, then upstream.
 *
 * Theory of operation. An entry is one name: pending (both families are asked, waiters
 * hang on it) or done (an answer with an end). The first waiter starts the questions; all
 * get the answer. NXDOMAIN for one family is the answer; addresses of one family wait
 * GRACE_MS for the other, so that a resolver that drops AAAA costs little.
 *
 * Invariants
 * 1. An entry is in the table, and in exactly one list: pending, or done (by use).
 * 2. e->work is there exactly while it is pending.
 * 3. Waiters are called from a copy of the answer: a waiter may do anything here but free
 *    the whole, also cancel another waiter, or start a lookup that takes this entry away.
 */
#include "egress/lookup.h"

#include "base/util.h"
#include "egress/hosts.h"
#include "egress/names.h"
#include "egress/upstream.h"

#include <netinet/in.h>
#include <sodium/crypto_shorthash.h>
#include <sys/random.h>

#define TICK_MS 50
#define GRACE_MS 300
#define TTL_MIN 5 /* seconds, also of failures and of names without an address */
#define TTL_MAX 300
#define TTL_HOSTS 60
#define BUCKETS 8192
#define ROUTE_MS 30000 /* how long we believe that there is, or is no, IPv6 */

struct link {
	struct link *next, *prev;
};

struct answer {
	enum lookup_status status;
	const char *why;
	size_t n;
};

struct entry {
	struct link link; /* first: an entry is found by it */
	struct entry *hash_next;
	struct work *work;
	struct lookup_wait *waiters;
	int64_t until_ms; /* done: then it is old; pending: then it has failed */
	struct answer answer;
	struct addr *addrs;
	char name[];
};

struct work {
	struct lookup *lookup;
	struct entry *entry;
	struct upstream_ask ask[2]; /* v4, v6 */
	struct upstream_reply reply[2];
	bool have[2];
};

struct lookup {
	struct loop *loop;
	struct upstream *upstream;
	struct hosts *hosts;
	struct entry *bucket[BUCKETS];
	struct link pending, done; /* done: most recently used first */
	unsigned n_pending, n_done;
	struct timer tick;
	bool v6_route;
	int64_t route_ms; /* when that was seen; 0: never */
	uint8_t key[crypto_shorthash_KEYBYTES];
};

/* ---- lists and the table --------------------------------------------------------- */

static void link_out(struct link *k)
{
	k->prev->next = k->next;
	k->next->prev = k->prev;
}

static void link_front(struct link *list, struct link *k)
{
	k->prev = list;
	k->next = list->next;
	k->next->prev = k;
	list->next = k;
}

static struct entry **bucket_of(struct lookup *l, const char *name)
{
	uint64_t hash;

	crypto_shorthash((uint8_t *)&hash, (const uint8_t *)name, strlen(name), l->key);
	return &l->bucket[hash % BUCKETS];
}

static struct entry *find(struct lookup *l, const char *name)
{
	struct entry *e = *bucket_of(l, name);

	while (e && strcmp(e->name, name) != 0)
		e = e->hash_next;
	return e;
}

static void entry_free(struct entry *e)
{
	if (e->work) {
		upstream_forget(&e->work->ask[0]);
		upstream_forget(&e->work->ask[1]);
	}
	while (e->waiters)
		lookup_cancel(e->waiters);
	free(e->work);
	free(e->addrs);
	free(e);
}

/* Takes one that is done away. */
static void drop(struct lookup *l, struct entry *e)
{
	struct entry **p = bucket_of(l, e->name);

	while (*p != e)
		p = &(*p)->hash_next;
	*p = e->hash_next;
	link_out(&e->link);
	l->n_done--;
	entry_free(e);
}

int lookup_new(struct lookup **ret, struct loop *loop)
{
	struct lookup *l = calloc(1, sizeof(*l));
	int r = -EIO;

	if (!l)
		return -ENOMEM;
	l->loop = loop;
	l->pending.next = l->pending.prev = &l->pending;
	l->done.next = l->done.prev = &l->done;
	if (getrandom(l->key, sizeof(l->key), 0) == (ssize_t)sizeof(l->key))
		r = upstream_new(&l->upstream, loop);
	if (r < 0) {
		lookup_free(l);
		return r;
	}
	*ret = l;
	return 0;
}

void lookup_free(struct lookup *l)
{
	if (!l)
		return;
	timer_stop(l->loop, &l->tick);
	for (size_t i = 0; i < BUCKETS; i++) {
		while (l->bucket[i]) {
			struct entry *e = l->bucket[i];

			l->bucket[i] = e->hash_next;
			entry_free(e);
		}
	}
	upstream_free(l->upstream);
	hosts_free(l->hosts);
	free(l);
}

int lookup_configure(struct lookup *l, const char *servers, const char *hosts)
{
	struct hosts *h = NULL;
	int r = hosts ? hosts_parse(hosts, strlen(hosts), &h) : 0;

	if (r == 0)
		r = upstream_servers(l->upstream, servers ? servers : "");
	if (r < 0) {
		hosts_free(h);
		return r;
	}
	hosts_free(l->hosts);
	l->hosts = h;
	while (l->done.next != &l->done) /* others may say something else */
		drop(l, (struct entry *)(void *)l->done.next);
	return 0;
}

/* ---- answers --------------------------------------------------------------------- */

/* Would the kernel know a way to the IPv6 internet? No packet is sent. */
static bool have_v6(struct lookup *l)
{
	int64_t now = loop_now(l->loop);
	struct sockaddr_in6 far = {.sin6_family = AF_INET6, .sin6_port = htons(53)};

	if (l->route_ms && now - l->route_ms < ROUTE_MS)
		return l->v6_route;
	cleanup_fd int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	far.sin6_addr.s6_addr[0] = 0x20; /* 2000::1, within what is routed globally */
	far.sin6_addr.s6_addr[15] = 1;
	l->v6_route = fd >= 0 && connect(fd, (struct sockaddr *)&far, sizeof(far)) == 0;
	l->route_ms = now ? now : 1;
	return l->v6_route;
}

/* Both families in turns, the preferred one first. */
static size_t merge_addrs(struct lookup *l, const struct work *w, struct addr *out)
{
	int first = have_v6(l) ? 1 : 0;
	size_t n = 0;

	for (size_t i = 0; i < LOOKUP_ADDRS_MAX; i++)
		for (int f = 0; f < 2; f++) {
			const struct upstream_reply *r = &w->reply[f ? !first : first];

			if (i < r->n && n < LOOKUP_ADDRS_MAX)
				out[n++] = r->addrs[i];
		}
	return n;
}

static uint32_t merge_ttl(const struct work *w)
{
	uint32_t ttl = TTL_MAX;

	for (int f = 0; f < 2; f++) {
		if (!w->have[f] || w->reply[f].status == LOOKUP_FAILED)
			return TTL_MIN; /* half an answer */
		if (w->reply[f].n && w->reply[f].ttl < ttl)
			ttl = w->reply[f].ttl;
	}
	return ttl < TTL_MIN ? TTL_MIN : ttl;
}

static struct answer judge(const struct work *w, size_t n)
{
	struct answer a = {.status = LOOKUP_OK, .n = n};

	if (n)
		return a;
	for (int f = 0; f < 2; f++)
		if (w->have[f] && w->reply[f].status == LOOKUP_NXDOMAIN)
			return (struct answer){.status = LOOKUP_NXDOMAIN};
	for (int f = 0; f < 2; f++) {
		if (w->have[f] && w->reply[f].status == LOOKUP_OK)
			continue;
		a.status = LOOKUP_FAILED;
		a.why = w->have[f] ? w->reply[f].why : "the resolver did not answer";
	}
	return a;
}

static void call_one(struct lookup *l, struct lookup_wait *w, const struct answer *a,
		     const struct addr *addrs, int64_t until_ms)
{
	int64_t left = until_ms - loop_now(l->loop);
	struct lookup_result r = {
		.status = a->status,
		.addrs = addrs,
		.n = a->n,
		.ttl = left > 0 ? (uint32_t)(left / 1000) : 0,
		.why = a->why,
	};

	w->fn(w, &r);
}

static void wait_on(struct lookup_wait **list, struct lookup_wait *w)
{
	w->next = *list;
	w->link = list;
	if (w->next)
		w->next->link = &w->next;
	*list = w;
}

void lookup_cancel(struct lookup_wait *w)
{
	if (!w->link)
		return;
	*w->link = w->next;
	if (w->next)
		w->next->link = w->link;
	w->next = NULL;
	w->link = NULL;
}

/* The entry is done: it goes to the cache, and the waiters hear of it. */
static void finish(struct lookup *l, struct entry *e)
{
	struct addr addrs[LOOKUP_ADDRS_MAX];
	struct work *w = e->work;
	struct answer a = judge(w, merge_addrs(l, w, addrs));
	int64_t until =
		loop_now(l->loop) + 1000 * (int64_t)(a.n ? merge_ttl(w) : TTL_MIN);
	struct lookup_wait *waiters = e->waiters;

	upstream_forget(&w->ask[0]);
	upstream_forget(&w->ask[1]);
	free(take_ptr(e->work));
	e->waiters = NULL;
	if (waiters)
		waiters->link = &waiters;
	e->answer = a;
	e->until_ms = until;
	e->addrs = a.n ? calloc(a.n, sizeof(*addrs)) : NULL;
	if (e->addrs)
		memcpy(e->addrs, addrs, a.n * sizeof(*addrs));
	link_out(&e->link);
	l->n_pending--;
	link_front(&l->done, &e->link);
	l->n_done++;
	if (a.n && !e->addrs) /* no memory: tell, but do not remember */
		drop(l, e);
	while (waiters) {
		struct lookup_wait *one = waiters;

		lookup_cancel(one);
		call_one(l, one, &a, addrs, until);
	}
}

/* ---- questions ------------------------------------------------------------------- */

static void on_reply(struct upstream_ask *ask, const struct upstream_reply *r, int family)
{
	struct work *w = container_of(ask, struct work, ask[family]);
	struct entry *e = w->entry;
	int64_t grace = loop_now(w->lookup->loop) + GRACE_MS;

	w->reply[family] = *r;
	w->have[family] = true;
	if (w->have[!family] || r->status == LOOKUP_NXDOMAIN)
		e->until_ms = 0;
	else if (r->n && grace < e->until_ms)
		e->until_ms = grace;
	if (e->until_ms == 0 && e->waiters) /* else start() or the tick does it */
		finish(w->lookup, e);
}

static void on_reply4(struct upstream_ask *a, const struct upstream_reply *r)
{
	on_reply(a, r, 0);
}

static void on_reply6(struct upstream_ask *a, const struct upstream_reply *r)
{
	on_reply(a, r, 1);
}

static void on_tick(struct timer *t)
{
	struct lookup *l = container_of(t, struct lookup, tick);
	struct link due = {&due, &due}, *next;
	int64_t now = loop_now(l->loop);

	for (struct link *k = l->pending.next; k != &l->pending; k = next) {
		next = k->next;
		if (((struct entry *)(void *)k)->until_ms > now)
			continue;
		link_out(k);
		link_front(&due, k);
	}
	while (due.next != &due)
		finish(l, (struct entry *)(void *)due.next);
	if (l->n_pending && !t->slot)
		timer_start(l->loop, t, TICK_MS, on_tick);
}

static struct entry *entry_new(struct lookup *l, const char *name)
{
	size_t len = strlen(name) + 1;
	struct entry *e = calloc(1, sizeof(*e) + len), **bucket = bucket_of(l, name);
	struct work *w = calloc(1, sizeof(*w));

	if (!e || !w) {
		free(e);
		free(w);
		return NULL;
	}
	memcpy(e->name, name, len);
	*w = (struct work){.lookup = l, .entry = e};
	e->work = w;
	e->until_ms = loop_now(l->loop) + UPSTREAM_MS;
	e->hash_next = *bucket;
	*bucket = e;
	link_front(&l->pending, &e->link);
	l->n_pending++;
	return e;
}

/* Asks for a name that is not known. The waiter comes last: answers that come at once
 * must not take the entry away between the two questions. */
static void start(struct lookup *l, const char *name, struct lookup_wait *w)
{
	struct entry *e = NULL;

	while (l->n_done + l->n_pending >= LOOKUP_CACHE_MAX && l->n_done)
		drop(l, (struct entry *)(void *)l->done.prev);
	if (l->n_pending < LOOKUP_PENDING_MAX)
		e = entry_new(l, name);
	if (!e) {
		w->fn(w, &(struct lookup_result){.status = LOOKUP_BUSY,
						 .why = "too many lookups"});
		return;
	}
	upstream_ask(l->upstream, name, false, &e->work->ask[0], on_reply4);
	upstream_ask(l->upstream, name, true, &e->work->ask[1], on_reply6);
	if (!l->tick.slot)
		timer_start(l->loop, &l->tick, TICK_MS, on_tick);
	wait_on(&e->waiters, w);
	if (e->until_ms == 0)
		finish(l, e);
}

/* What needs no question: the host itself, and the hosts file. */
static size_t local_addrs(const struct lookup *l, const char *name, struct addr *out)
{
	static const struct addr loopback[] = {
		{{[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}},
		{{[15] = 1}},
	};

	if (strcmp(name, HOST_INTERNAL) != 0)
		return hosts_find(l->hosts, name, out, LOOKUP_ADDRS_MAX);
	memcpy(out, loopback, sizeof(loopback));
	return ARRAY_LEN(loopback);
}

void lookup_start(struct lookup *l, const char *name, struct lookup_wait *w,
		  void (*fn)(struct lookup_wait *, const struct lookup_result *))
{
	struct addr addrs[LOOKUP_ADDRS_MAX];
	struct answer a = {.status = LOOKUP_OK, .n = local_addrs(l, name, addrs)};
	int64_t now = loop_now(l->loop), until = now + 1000 * TTL_HOSTS;
	struct entry *e = a.n ? NULL : find(l, name);

	w->fn = fn;
	w->next = NULL;
	w->link = NULL;
	if (e && e->work) {
		wait_on(&e->waiters, w);
		return;
	}
	if (e && e->until_ms <= now) {
		drop(l, e);
		e = NULL;
	}
	if (!e && !a.n) {
		start(l, name, w);
		return;
	}
	if (e) {
		link_out(&e->link);
		link_front(&l->done, &e->link);
		a = e->answer;
		until = e->until_ms;
		if (a.n)
			memcpy(addrs, e->addrs, a.n * sizeof(*addrs));
	}
	call_one(l, w, &a, addrs, until);
}
