/* SPDX-License-Identifier: Apache-2.0 */
/* ports_listen - the host's end of a published port: what was written, and the socket. */
#include "core/ports_impl.h"

#include "base/util.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define BACKLOG 512

/* ---- what was written ----------------------------------------------------------- */

static void set_text(struct host_end *e)
{
	char ip[INET6_ADDRSTRLEN] = "?";
	bool six = e->addr.any.sa_family == AF_INET6;

	inet_ntop(e->addr.any.sa_family,
		  six ? (const void *)&e->addr.in6.sin6_addr
		      : (const void *)&e->addr.in.sin_addr,
		  ip, sizeof(ip));
	snprintf(e->text, sizeof(e->text), six ? "[%s]:%u" : "%s:%u", ip,
		 ntohs(e->addr.in.sin_port)); /* at the same place for both */
}

static void set_v4(struct host_end *e, struct in_addr ip, uint16_t port)
{
	e->addr.in = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = ip};
	e->len = sizeof(e->addr.in);
}

/* ADDRESS:PORT, [ADDRESS]:PORT, localhost:PORT */
static bool parse_address(struct host_end *e, const char *text)
{
	const char *colon = strrchr(text, ':');
	char ip[64], *end;
	struct in_addr v4;
	struct in6_addr v6;
	unsigned long port;

	if (!colon || colon[1] < '0' || colon[1] > '9' ||
	    (size_t)(colon - text) >= sizeof(ip))
		return false;
	port = strtoul(colon + 1, &end, 10);
	if (*end || port > 65535)
		return false;
	memcpy(ip, text, (size_t)(colon - text));
	ip[colon - text] = '\0';
	if (strcmp(ip, "localhost") == 0) {
		v4.s_addr = htonl(INADDR_LOOPBACK);
		set_v4(e, v4, (uint16_t)port);
	} else if (inet_pton(AF_INET, ip, &v4) == 1) {
		set_v4(e, v4, (uint16_t)port);
	} else {
		size_t n = strlen(ip);

		if (n < 3 || ip[0] != '[' || ip[n - 1] != ']')
			return false;
		ip[n - 1] = '\0';
		if (inet_pton(AF_INET6, ip + 1, &v6) != 1)
			return false;
		e->addr.in6 = (struct sockaddr_in6){.sin6_family = AF_INET6,
						    .sin6_port = htons((uint16_t)port),
						    .sin6_addr = v6};
		e->len = sizeof(e->addr.in6);
	}
	set_text(e);
	return true;
}

int host_end_parse(struct host_end *e, const json_t *host, const struct store *st,
		   const char *name, struct cove_error *err)
{
	const struct in_addr loopback = {.s_addr = htonl(INADDR_LOOPBACK)};
	const char *text = json_string_value(host);

	*e = (struct host_end){0};
	if (json_is_integer(host)) {
		set_v4(e, loopback, (uint16_t)json_integer_value(host));
		set_text(e);
		return 0;
	}
	if (!text || !*text)
		return fail(err, COVE_EINVAL, 0, "ports: no host end");
	if (!strchr(text, '/') && parse_address(e, text))
		return 0;
	e->is_path = true;
	/* Relative: beside the sandbox's own control socket. */
	if (text[0] != '/') {
		if (strchr(text, '/'))
			return fail(err, COVE_EINVAL, 0,
				    "ports: %s: write a name, or an absolute path", text);
		if (!st || store_run_path(st, name, text, e->text, sizeof(e->text)) < 0)
			snprintf(e->text, sizeof(e->text), "%s", text);
		return 0;
	}
	if (strlen(text) >= sizeof(e->text))
		return fail(err, COVE_EINVAL, ENAMETOOLONG, "ports: socket");
	snprintf(e->text, sizeof(e->text), "%s", text);
	return 0;
}

/* ---- TCP ------------------------------------------------------------------------ */

static int bind_failed(const struct host_end *e, struct store *st, int sys,
		       struct cove_error *err)
{
	char holder[160];

	if (sys == EACCES) {
		fail(err, COVE_EIO, sys, "ports: %s", e->text);
		return hint(err, "ports below 1024 are the system's: take a higher one");
	}
	if (sys != EADDRINUSE)
		return fail(err, COVE_EIO, sys, "ports: %s", e->text);
	port_holder(st, e, holder, sizeof(holder));
	fail(err, COVE_EEXIST, 0, "ports: %s is taken%s%s", e->text,
	     holder[0] ? " by " : "", holder);
	return hint(err, "take another one, or 0 for any that is free");
}

static int listen_tcp(struct host_end *e, struct store *st, int *ret_fd,
		      struct cove_error *err)
{
	const int on = 1;
	cleanup_fd int fd = socket(e->addr.any.sa_family,
				   SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return fail(err, COVE_EIO, errno, "ports: %s", e->text);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (e->addr.any.sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(fd, &e->addr.any, e->len) < 0 || listen(fd, BACKLOG) < 0)
		return bind_failed(e, st, errno, err);
	if (getsockname(fd, &e->addr.any, &e->len) == 0)
		set_text(e);
	*ret_fd = take_fd(&fd);
	return 0;
}

/* ---- unix sockets --------------------------------------------------------------- */

/* The directory and the name in it; through the descriptor any length is fine. */
static int open_parent(const struct host_end *e, struct sockaddr_un *a,
		       struct cove_error *err)
{
	const char *slash = strrchr(e->text, '/');
	char dir[PORT_TEXT];
	int fd, n;

	snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - e->text) : 0, e->text);
	fd = open(dir[0] ? dir : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return fail(err, COVE_EIO, errno, "ports: %s", dir);
	a->sun_family = AF_UNIX;
	n = snprintf(a->sun_path, sizeof(a->sun_path), "/proc/self/fd/%d/", fd);
	slash = slash ? slash + 1 : e->text;
	if (!*slash || strlen(slash) >= sizeof(a->sun_path) - (size_t)n) {
		close(fd);
		return fail(err, COVE_EINVAL, ENAMETOOLONG, "ports: %s", e->text);
	}
	memcpy(a->sun_path + n, slash, strlen(slash) + 1);
	return fd;
}

/* What is there already: a socket of ours that nobody listens on is a dead keeper's. */
static int make_way(const struct host_end *e, const struct sockaddr_un *a,
		    struct store *st, struct cove_error *err)
{
	struct ucred peer = {0};
	socklen_t n = sizeof(peer);
	char holder[160] = "";
	struct stat sb;

	if (lstat(a->sun_path, &sb) < 0)
		return errno == ENOENT ? 0
				       : fail(err, COVE_EIO, errno, "ports: %s", e->text);
	if (!S_ISSOCK(sb.st_mode) || sb.st_uid != geteuid()) {
		fail(err, COVE_EEXIST, 0, "ports: %s is there already%s", e->text,
		     S_ISSOCK(sb.st_mode) ? ", somebody else's socket"
					  : " and is no socket");
		return hint(err, "take another path, or remove it");
	}
	cleanup_fd int fd =
		socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && connect(fd, (const struct sockaddr *)a, sizeof(*a)) < 0 &&
	    errno == ECONNREFUSED)
		return unlink(a->sun_path) < 0
			       ? fail(err, COVE_EIO, errno, "ports: %s", e->text)
			       : 0;
	if (fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
	    peer.pid)
		pid_text(st, peer.pid, holder, sizeof(holder));
	fail(err, COVE_EEXIST, 0, "ports: %s is taken%s%s", e->text,
	     holder[0] ? " by " : "", holder);
	return hint(err, "take another path");
}

static int listen_unix(struct host_end *e, struct store *st, int *ret_fd,
		       struct cove_error *err)
{
	struct sockaddr_un a = {0};
	cleanup_fd int dir = open_parent(e, &a, err);
	cleanup_fd int fd =
		socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (dir < 0)
		return err->code;
	if (fd < 0)
		return fail(err, COVE_EIO, errno, "ports: %s", e->text);
	if (make_way(e, &a, st, err) < 0)
		return err->code;
	/* The mode that the file is made with: no moment in which others may connect. */
	if (fchmod(fd, 0600) < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    listen(fd, BACKLOG) < 0)
		return fail(err, COVE_EIO, errno, "ports: %s", e->text);
	*ret_fd = take_fd(&fd);
	return 0;
}

int host_end_listen(struct host_end *e, struct store *st, int *ret_fd,
		    struct cove_error *err)
{
	return e->is_path ? listen_unix(e, st, ret_fd, err)
			  : listen_tcp(e, st, ret_fd, err);
}

void host_end_identity(const struct host_end *e, dev_t *dev, ino_t *ino)
{
	struct stat sb;

	*dev = 0;
	*ino = 0;
	if (e->is_path && lstat(e->text, &sb) == 0) {
		*dev = sb.st_dev;
		*ino = sb.st_ino;
	}
}

void host_end_remove(const struct host_end *e, dev_t dev, ino_t ino)
{
	dev_t now_dev;
	ino_t now_ino;

	host_end_identity(e, &now_dev, &now_ino);
	if (ino && now_dev == dev && now_ino == ino)
		unlink(e->text);
}
