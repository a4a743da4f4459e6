/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs_hostile - a guest that lies about lengths, floods, stops reading, sends crumbs and
 * vanishes, against a real cove-fs over a real socket. TAP.
 *
 *	fs_hostile COVE-FS
 */
#include "fs_message.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *program;

struct peer {
	pid_t pid;
	int fd;
};

static struct peer start(void)
{
	struct peer p;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		exit(125);
	p.pid = fork();
	if (p.pid == 0) {
		dup2(pair[1], 3);
		execl(program, "cove-fs", NULL);
		_exit(127);
	}
	close(pair[1]);
	p.fd = pair[0];
	return p;
}

/* Its exit status, once our end is closed; -1: it does not end. */
static int end(struct peer *p)
{
	struct timespec tick = {.tv_nsec = 10000000};
	int status = 0;

	close(p->fd);
	for (int i = 0; i < 3000; i++) {
		if (waitpid(p->pid, &status, WNOHANG) == p->pid)
			return WIFEXITED(status) ? WEXITSTATUS(status)
						 : 128 + WTERMSIG(status);
		nanosleep(&tick, NULL);
	}
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	return -1;
}

static bool closed_by_peer(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char b[4096];

	while (poll(&p, 1, 20000) == 1)
		if (read(fd, b, sizeof(b)) <= 0)
			return true;
	return false;
}

static void finish_request(void)
{
	uint32_t len = (uint32_t)request_.n;

	memcpy(request_.data, &len, sizeof(len));
}

static void greeting(void)
{
	struct fuse_init_in in = {.major = 7, .minor = 37, .flags = FLAGS_OF_LINUX};

	begin(FUSE_INIT, 0);
	add(&in, sizeof(in));
	finish_request();
}

static bool send_all(int fd, const void *data, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t r = send(fd, (const char *)data + at, n - at, MSG_NOSIGNAL);

		if (r < 0)
			return false;
		at += (size_t)r;
	}
	return true;
}

/* Replies in what can be read until there is silence: long, if there should be more. */
static size_t count_replies(int fd, size_t want)
{
	static uint8_t b[4 << 20];
	struct pollfd p = {.fd = fd, .events = POLLIN};
	size_t n = 0, have = 0;

	while (poll(&p, 1, n < want ? 20000 : 200) == 1) {
		ssize_t r = read(fd, b + have, sizeof(b) - have);
		size_t at = 0;
		uint32_t len;

		if (r <= 0)
			break;
		have += (size_t)r;
		for (; have - at >= sizeof(len); at += len, n++) {
			memcpy(&len, b + at, sizeof(len));
			if (len < sizeof(struct fuse_out_header))
				return 0;
			if (len > have - at)
				break;
		}
		memmove(b, b + at, have - at);
		have -= at;
	}
	return n;
}

static long resident_pages(pid_t pid)
{
	char path[64];
	long size, resident = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	f = fopen(path, "r");
	if (f && fscanf(f, "%ld %ld", &size, &resident) != 2)
		resident = -1;
	if (f)
		fclose(f);
	return resident;
}

static void garbage(void)
{
	struct peer p = start();
	uint8_t b[65536];

	for (size_t i = 0; i < sizeof(b); i++)
		b[i] = (uint8_t)(i * 2654435761u >> 7);
	send_all(p.fd, b, sizeof(b));
	OK(closed_by_peer(p.fd), "random bytes: the server hangs up");
	OK(end(&p) == 5, "and ends");
}

static void lengths(void)
{
	static const uint32_t lies[] = {0, 3, 39, FS_MESSAGE_MAX + 1, UINT32_MAX};
	int good = 0;

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct peer p = start();

		greeting();
		send_all(p.fd, request_.data, request_.n);
		memcpy(request_.data, &lies[i], sizeof(lies[i]));
		send_all(p.fd, request_.data, request_.n);
		good += closed_by_peer(p.fd);
		good += end(&p) == 5;
	}
	OK(good == 10, "five lengths that no message has");
}

static void flood(void)
{
	struct peer p = start();
	struct timespec rest = {.tv_nsec = 300000000};
	size_t sent = 0, part = 0;
	long resident;

	greeting();
	send_all(p.fd, request_.data, request_.n);
	begin(FUSE_GETATTR, 1);
	finish_request();
	fcntl(p.fd, F_SETFL, O_NONBLOCK);
	for (int idle = 0; idle < 10 && sent < 1000000;) {
		ssize_t n =
			send(p.fd, request_.data + part, request_.n - part, MSG_NOSIGNAL);

		if (n < 0) {
			idle++;
			nanosleep(&rest, NULL);
			continue;
		}
		part += (size_t)n;
		if (part == request_.n) {
			sent++;
			part = 0;
		}
	}
	resident = resident_pages(p.pid);
	OK(sent > 1000 && sent < 1000000, "%zu requests, then it reads no more", sent);
	OK(resident > 0 && resident < 16384, "it holds %ld pages", resident);
	fcntl(p.fd, F_SETFL, 0);
	OK(count_replies(p.fd, sent + 1) == sent + 1, "each is answered when we listen");
	OK(end(&p) == 0, "and it ends in order");
}

static void crumbs(void)
{
	struct peer p = start();
	struct fuse_read_in r = {.size = 4096};
	static uint8_t all[100000];
	size_t n = 0;

	greeting();
	memcpy(all, request_.data, request_.n);
	n = request_.n;
	for (int i = 0; i < 100; i++) {
		begin(i % 2 ? FUSE_GETATTR : FUSE_READDIRPLUS, 1);
		add(&r, sizeof(r));
		finish_request();
		memcpy(all + n, request_.data, request_.n);
		n += request_.n;
	}
	for (size_t at = 0, step = 1; at < n; at += step, step = step % 13 + 1) {
		step = step < n - at ? step : n - at;
		send_all(p.fd, all + at, step);
	}
	OK(count_replies(p.fd, 101) == 101, "requests in crumbs are put together");
	OK(end(&p) == 0, "and it ends in order");
}

static void vanish(void)
{
	int good = 0;

	for (int i = 0; i < 20; i++) {
		struct peer p = start();
		struct fuse_read_in r = {.size = 1 << 20};

		greeting();
		send_all(p.fd, request_.data, request_.n);
		for (int k = 0; k < i; k++) {
			begin(FUSE_READDIRPLUS, 1);
			add(&r, sizeof(r));
			finish_request();
			send_all(p.fd, request_.data, request_.n);
		}
		send_all(p.fd, request_.data, request_.n / 2);
		good += end(&p) == 0;
	}
	OK(good == 20, "who vanishes in the middle leaves nothing running");
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	program = argv[1];
	garbage();
	lengths();
	flood();
	crumbs();
	vanish();
	return tap_done();
}
