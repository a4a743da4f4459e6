/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan - the client's loop.
 *
 * Files are handed over in batches while earlier ones are scanned; SCAN_WINDOW bounds how
 * many descriptors are on their way. Sending never blocks without receiving, so that two
 * full sockets cannot wait for each other.
 */
#include "work/scan_impl.h"

#include "base/util.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>

#define BUDGET_MS (10 * 60 * 1000)
#define FOUND_MAX 100000u            /* findings that are kept, */
#define FOUND_BYTES_MAX (256u << 20) /* and their texts */
#define PRINT_LEN 16

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* From here on the role counts for nothing; what it said before stays. */
static void role_failed(struct scan *s, const char *why)
{
	if (s->failed[0])
		return;
	snprintf(s->failed, sizeof(s->failed), "%s", why);
	scan_role_end(s);
}

/* ---- what it answers -------------------------------------------------------------- */

/* A text that may be printed anywhere: control characters and broken UTF-8 are replaced.
 */
static void clean(char *t, size_t n)
{
	unsigned char *u = (unsigned char *)t;

	for (size_t i = 0; i < n;) {
		size_t more = u[i] < 0x80   ? 0
			      : u[i] < 0xc2 ? 9
			      : u[i] < 0xe0 ? 1
			      : u[i] < 0xf0 ? 2
			      : u[i] < 0xf5 ? 3
					    : 9;
		bool good = more < 9 && more < n - i && u[i] >= ' ' && u[i] != 0x7f;

		for (size_t k = 1; good && k <= more; k++)
			good = (u[i + k] & 0xc0) == 0x80;
		if (good && u[i] == 0xc2 && u[i + 1] < 0xa0) /* C1 controls */
			good = false;
		if (!good)
			u[i] = '?';
		i += good ? more + 1 : 1;
	}
}

static bool is_print(const char *t, size_t n)
{
	if (n != PRINT_LEN)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!strchr("0123456789abcdef", t[i] ? t[i] : 'x'))
			return false;
	return true;
}

static int keep_finding(struct scan *s, const struct scan_finding *f, size_t bytes)
{
	if (s->n_found == s->found_cap) {
		size_t cap = s->found_cap ? 2 * s->found_cap : 32;
		struct scan_finding *v = reallocarray(s->found, cap, sizeof(*v));

		if (!v)
			return -ENOMEM;
		s->found = v;
		s->found_cap = cap;
	}
	s->found[s->n_found++] = *f;
	s->found_bytes += bytes;
	return 0;
}

static const char *take_finding(struct scan *s, const char *packet, size_t len)
{
	struct scan_found h;
	const char *text[SCAN_TEXTS];
	size_t at = sizeof(h), sum = 0;
	char *block, *out;

	if (len < sizeof(h))
		return "a short answer";
	memcpy(&h, packet, sizeof(h));
	for (size_t i = 0; i < SCAN_TEXTS; i++)
		sum += h.len[i];
	if (sum != len - at || h.index < s->done || h.index >= s->sent ||
	    h.len[SCAN_RULE] == 0 || memchr(packet + at, '\0', sum))
		return "an answer that makes no sense";
	if (s->n_found >= FOUND_MAX || s->found_bytes > FOUND_BYTES_MAX)
		return "too many answers";
	out = block = malloc(sum + SCAN_TEXTS);
	if (!block)
		return "not enough memory for its answers";
	for (size_t i = 0; i < SCAN_TEXTS; i++) {
		memcpy(out, packet + at, h.len[i]);
		out[h.len[i]] = '\0';
		clean(out, h.len[i]);
		text[i] = out;
		out += h.len[i] + 1u;
		at += h.len[i];
	}
	if (!is_print(text[SCAN_PRINT], h.len[SCAN_PRINT]) ||
	    keep_finding(s,
			 &(struct scan_finding){text[SCAN_RULE], text[SCAN_WHAT],
						(size_t)h.index, text[SCAN_INNER], h.line,
						text[SCAN_EXCERPT], text[SCAN_PRINT]},
			 sum) < 0) {
		free(block);
		return "an answer that makes no sense";
	}
	return NULL;
}

static const char *take_refusal(struct scan *s, const struct scan_note *n, char *text,
				size_t len)
{
	clean(text, len);
	fail(&s->refused, n->code < 0 && n->code >= -64 ? n->code : COVE_EIO, 0, "%.*s",
	     (int)len, text);
	return "it refused its rules";
}

/* NULL, or what is wrong with it. */
static const char *take_packet(struct scan *s, char *packet, size_t len)
{
	struct scan_note n;

	memcpy(&n.type, packet, sizeof(n.type));
	if (n.type == SCAN_FINDING)
		return s->ready ? take_finding(s, packet, len) : "an answer too early";
	if (len < sizeof(n))
		return "a short answer";
	memcpy(&n, packet, sizeof(n));
	if (!s->ready && n.type == SCAN_REFUSED)
		return take_refusal(s, &n, packet + sizeof(n), len - sizeof(n));
	if (!s->ready && n.type == SCAN_READY && len == sizeof(n)) {
		s->ready = true;
		return NULL;
	}
	if (!s->ready || (n.type != SCAN_PROGRESS && n.type != SCAN_DONE) ||
	    len != sizeof(n) || n.files < s->done || n.files > s->sent)
		return "an answer that makes no sense";
	s->done = n.files;
	s->bytes = n.bytes;
	if (n.type == SCAN_DONE && s->done != s->added)
		return "it ended too early";
	s->finished = n.type == SCAN_DONE;
	return NULL;
}

/* Takes what is there. */
static void receive(struct scan *s)
{
	char packet[SCAN_PACKET];

	while (!s->failed[0] && !s->finished) {
		ssize_t n = recv(s->sock, packet, sizeof(packet), MSG_TRUNC);
		const char *wrong = NULL;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0)
			wrong = "the scanner ended before its time";
		else if ((size_t)n > sizeof(packet) || (size_t)n < sizeof(uint32_t))
			wrong = "an answer of a wrong size";
		else
			wrong = take_packet(s, packet, (size_t)n);
		if (wrong)
			role_failed(s, wrong);
	}
}

/* Waits until something can be done, and receives. */
static void wait_role(struct scan *s, bool to_send)
{
	struct pollfd p = {s->sock, (short)(POLLIN | (to_send ? POLLOUT : 0)), 0};
	int64_t left = s->deadline_ms - now_ms();

	if (left <= 0) {
		s->late = true;
		role_failed(s, "it took longer than it was given");
		return;
	}
	if (poll(&p, 1, left > 1000 ? 1000 : (int)left) > 0)
		receive(s);
}

/* ---- what it is given ------------------------------------------------------------- */

static void drop_batch(struct scan *s)
{
	for (uint32_t i = 0; i < s->head.count; i++)
		close(s->fd[i]);
	s->head.count = 0;
	s->paths_len = 0;
}

/* 0 or -errno */
static int try_send(struct scan *s)
{
	union {
		char space[CMSG_SPACE(SCAN_BATCH * sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	size_t fds = s->head.count * sizeof(int);
	struct iovec iov[2] = {
		{&s->head, sizeof(s->head)},
                {s->paths, s->paths_len   }
        };
	struct msghdr m = {.msg_iov = iov,
			   .msg_iovlen = 2,
			   .msg_control = &control,
			   .msg_controllen = CMSG_SPACE(fds)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	if (!c)
		return -EINVAL;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(fds);
	memcpy(CMSG_DATA(c), s->fd, fds);
	return sendmsg(s->sock, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* A descriptor too many in flight is no fault: what the role takes makes room. */
static bool try_again(int r)
{
	return r == -EAGAIN || r == -EINTR || r == -ENOBUFS || r == -ETOOMANYREFS;
}

static void flush_batch(struct scan *s)
{
	s->head.type = SCAN_FILES;
	s->head.first = s->sent;
	while (s->head.count && !s->failed[0]) {
		int r;

		if (s->sent - s->done > SCAN_WINDOW) {
			wait_role(s, false);
			continue;
		}
		r = try_send(s);
		if (r == 0) {
			s->sent += s->head.count;
			break;
		}
		if (try_again(r))
			wait_role(s, r == -EAGAIN);
		else
			role_failed(s, "the scanner ended before its time");
	}
	drop_batch(s);
}

int scan_start(struct scan **ret, const struct scan_options *o, struct cove_error *err)
{
	struct scan *s = calloc(1, sizeof(*s));

	if (!s)
		return fail_nomem(err);
	s->sock = -1;
	s->deadline_ms = now_ms();
	if (__builtin_add_overflow(s->deadline_ms,
				   o->budget_ms ? o->budget_ms : BUDGET_MS,
				   &s->deadline_ms))
		s->deadline_ms = INT64_MAX;
	if (scan_role_start(s, o, err) < 0) {
		scan_free(s);
		return err->code;
	}
	/* Rules of the user may be wrong: that is told here. The built-in ones are not.
	 */
	while (o->rules_toml && !s->ready && !s->failed[0])
		wait_role(s, false);
	if (s->refused.code < 0) {
		*err = s->refused;
		scan_free(s);
		return wrap(err, "rules");
	}
	*ret = s;
	return 0;
}

int scan_give(struct scan *s, const char *path, int *fd, struct cove_error *err)
{
	size_t n = strlen(path);

	if (n > SCAN_PATH_MAX)
		return fail(err, COVE_EINVAL, ENAMETOOLONG, "scan %.100s...", path);
	if (s->head.count == SCAN_BATCH ||
	    sizeof(s->head) + s->paths_len + n > sizeof(s->paths))
		flush_batch(s);
	s->added++;
	if (s->failed[0]) { /* told once, at the end */
		close_fd(fd);
		return 0;
	}
	memcpy(s->paths + s->paths_len, path, n);
	s->paths_len += n;
	s->head.path_len[s->head.count] = (uint16_t)n;
	s->fd[s->head.count++] = take_fd(fd);
	return 0;
}

int scan_add(struct scan *s, const char *path, int fd, struct cove_error *err)
{
	cleanup_fd int copy = fcntl(fd, F_DUPFD_CLOEXEC, SCAN_FD + 1);

	if (copy < 0)
		return fail(err, COVE_EIO, errno, "scan %s", path);
	return scan_give(s, path, &copy, err);
}

/* ---- the end ---------------------------------------------------------------------- */

static void send_end(struct scan *s)
{
	struct scan_note n = {.type = SCAN_END};

	while (!s->failed[0]) {
		if (send(s->sock, &n, sizeof(n), MSG_NOSIGNAL) >= 0)
			return;
		if (errno != EAGAIN && errno != EINTR)
			role_failed(s, "the scanner ended before its time");
		else
			wait_role(s, true);
	}
}

int scan_finish(struct scan *s, void (*fn)(void *arg, const struct scan_finding *f),
		void *arg, struct cove_error *err)
{
	struct scan_finding f = {.rule = "scan-failed",
				 .what = s->failed,
				 .inner = "",
				 .excerpt = "",
				 .fingerprint = "0000000000000000"};

	(void)err;
	flush_batch(s);
	send_end(s);
	while (!s->finished && !s->failed[0])
		wait_role(s, false);
	scan_role_end(s);
	for (size_t i = 0; i < s->n_found; i++)
		fn(arg, &s->found[i]);
	if (!s->failed[0] || !s->added)
		return 0;
	if (s->late)
		f.rule = "scan-timeout";
	if (s->refused.code < 0)
		f.what = s->refused.msg;
	f.index = s->done < s->added ? (size_t)s->done : s->added - 1;
	fn(arg, &f);
	return 0;
}

void scan_totals(const struct scan *s, uint64_t *ret_files, uint64_t *ret_bytes)
{
	if (ret_files)
		*ret_files = s->done;
	if (ret_bytes)
		*ret_bytes = s->bytes;
}

void scan_free(struct scan *s)
{
	if (!s)
		return;
	drop_batch(s);
	scan_role_end(s);
	for (size_t i = 0; i < s->n_found; i++) {
		char *block;

		memcpy(&block, &s->found[i].rule, sizeof(block));
		free(block);
	}
	free(s->found);
	free(s);
}
