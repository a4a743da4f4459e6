/* SPDX-License-Identifier: Apache-2.0 */
/*
 * egress_world - what the role cannot see itself: the host's resolver, its hosts file,
 * its own addresses, and the certificates it trusts.
 */
#include "core/egress_impl.h"

#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <sys/stat.h>

#define RESOLV "/etc/resolv.conf"
#define HOSTS "/etc/hosts"
#define RESOLV_MAX (64u << 10)
#define HOSTS_MAX (1u << 20)
#define SERVERS_MAX 3 /* as the C library does */

/* ---- the resolver ----------------------------------------------------------------- */

/* "nameserver ADDR" lines, as "A,B"; a scope ("%eth0") stays. */
static void put_servers(const char *text, struct buf *out)
{
	unsigned n = 0;

	while (text && *text && n < SERVERS_MAX) {
		const char *end = strchrnul(text, '\n');
		char addr[80];

		if (sscanf(text, "nameserver %79s", addr) == 1 ||
		    sscanf(text, " nameserver %79s", addr) == 1) {
			buf_printf(out, "%s%s", n ? "," : "", addr);
			n++;
		}
		text = *end ? end + 1 : NULL;
	}
}

static json_t *servers_json(void)
{
	const char *named = getenv("COVE_RESOLVERS");
	cleanup_buf struct buf text = BUF_INIT(RESOLV_MAX), out = BUF_INIT(1024);

	if (named && *named)
		return json_string(named);
	if (read_file_at(AT_FDCWD, RESOLV, &text) == 0 && text.data)
		put_servers(text.data, &out);
	return json_string(out.data ? out.data : "127.0.0.1");
}

/* Those that are public, or those that are not. Loopback and link-local ones are refused
 * as such: they need not be known. */
static void put_addresses(const struct ifaddrs *list, bool global, json_t *a)
{
	for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
		enum addr_class c;
		struct addr addr;
		uint16_t port;
		char text[ADDR_TEXT];

		if (json_array_size(a) == CONTROL_SELF_MAX || !i->ifa_addr ||
		    addr_from_sockaddr(i->ifa_addr, &addr, &port) < 0)
			continue;
		c = addr_classify(&addr);
		if (c != ADDR_LOOPBACK && c != ADDR_LINK_LOCAL &&
		    (c == ADDR_PUBLIC) == global)
			json_array_append_new(a, json_string(addr_text(&addr, text)));
	}
}

/* The addresses of this host: a name must not lead back to it by accident. */
static json_t *self_json(void)
{
	json_t *a = json_array();
	struct ifaddrs *list = NULL;

	if (!a || getifaddrs(&list) < 0)
		return a;
	put_addresses(list, true, a);
	put_addresses(list, false, a);
	freeifaddrs(list);
	return a;
}

/* The kernel tells when addresses come and go. */
static int watch_addresses(void)
{
	struct sockaddr_nl a = {.nl_family = AF_NETLINK,
				.nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
	cleanup_fd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
				   NETLINK_ROUTE);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return -1;
	return take_fd(&fd);
}

int egress_address_fd(const struct egress_host *h)
{
	return h->netlink;
}

static int send_resolver(struct egress_host *h)
{
	cleanup_buf struct buf hosts = BUF_INIT(HOSTS_MAX);
	cleanup_fd int fd = -1;
	int r;

	json_decref(h->self);
	h->self = self_json();
	if (read_file_at(AT_FDCWD, HOSTS, &hosts) < 0 || !hosts.data) {
		buf_clear(&hosts);
		buf_puts(&hosts, "\n");
	}
	r = egress_sealed("cove-hosts", hosts.data, hosts.len, &fd);
	if (r < 0)
		return r;
	return egress_send(h,
			   json_pack("{s:s, s:o, s:O}", "t", "resolver", "servers",
				     servers_json(), "self", h->self),
			   &fd, 1);
}

/* Much of what is told changes nothing: a lease that goes on, for one. */
void egress_address_turn(struct egress_host *h)
{
	char skipped[4096];
	json_t *now;

	while (recv(h->netlink, skipped, sizeof(skipped), 0) > 0 || errno == ENOBUFS)
		;
	now = self_json();
	if (now && !h->dead && !json_equal(now, h->self))
		send_resolver(h);
	json_decref(now);
}

static struct timespec mtime_of(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 ? (struct timespec){0} : st.st_mtim;
}

static bool changed(struct timespec *then, const char *path)
{
	struct timespec now = mtime_of(path);
	bool differs = now.tv_sec != then->tv_sec || now.tv_nsec != then->tv_nsec;

	*then = now;
	return differs;
}

void egress_refresh(struct egress_host *h)
{
	struct timespec t;
	bool resolv, hosts;

	clock_gettime(CLOCK_MONOTONIC, &t);
	if (h->dead || t.tv_sec - h->looked_at < 2)
		return;
	h->looked_at = t.tv_sec;
	resolv = changed(&h->resolv_mtime, RESOLV);
	hosts = changed(&h->hosts_mtime, HOSTS);
	if (resolv || hosts)
		send_resolver(h);
}

/* ---- trust ------------------------------------------------------------------------ */

static int open_bundle(void)
{
	static const char *const places[] = {
		"/etc/ssl/certs/ca-certificates.crt",
		"/etc/pki/tls/certs/ca-bundle.crt",
		"/etc/ssl/ca-bundle.pem",
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
		"/etc/ssl/cert.pem",
	};
	int fd = -1;

	for (size_t i = 0; fd < 0 && i < ARRAY_LEN(places); i++)
		fd = open(places[i], O_RDONLY | O_CLOEXEC);
	return fd;
}

static int send_trust(struct egress_host *h, int fd)
{
	return egress_send(h, json_pack("{s:s}", "t", "trust"), &fd, 1);
}

static int send_trusted(struct egress_host *h, const struct spec *s,
			struct cove_error *err)
{
	cleanup_fd int bundle = open_bundle();
	int r = bundle < 0 ? 0 : send_trust(h, bundle); /* none: nothing verifies */

	for (size_t i = 0; r == 0 && i < s->network.trust.n; i++) {
		const char *path = s->network.trust.v[i];
		cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			return fail(err, COVE_EINVAL, errno, "network.trust: %s", path);
		r = send_trust(h, fd);
	}
	return r < 0 ? fail(err, COVE_EIO, -r, "network: trust") : 0;
}

int egress_send_host(struct egress_host *h, const struct spec *s, struct cove_error *err)
{
	int r;

	h->netlink = watch_addresses(); /* before they are looked at */
	h->resolv_mtime = mtime_of(RESOLV);
	h->hosts_mtime = mtime_of(HOSTS);
	r = send_resolver(h);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "network: resolver");
	return send_trusted(h, s, err);
}
