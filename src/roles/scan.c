/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cove-scan - looks for secrets in files that it is handed; started by libcove, never by
 * hand. Its only connection is descriptor 3, see work/scan_wire.h.
 *
 * Stages
 *  1. alone:   drops what it inherited, bounds itself, gives up every file access.
 *  2. load:    takes the rules and values, compiles what has to be compiled.
 *  3. confine: no system call but those of scan.seccomp, no executable memory.
 *  4. run:     reads hostile content until the client says that this was all.
 */
#include "base/util.h"
#include "os/confine.h"
#include "scan/report.h"
#include "work/scan_wire.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "seccomp_scan.h"

#define FINDINGS_OF_FILE 200u /* enough to show; what more there is, is found again */
#define MEMORY_MAX (3ull << 30)

struct role {
	struct file_scanner files;
	struct engine *engine;
	char packet[SCAN_PACKET];
	size_t len;
	int fd[SCAN_BATCH];
	size_t n_fds;
	uint64_t index, done;
	unsigned of_file;
	const char *path;
};

/* ---- stage 1 ---------------------------------------------------------------------- */

static int go_alone(void)
{
	int r = confine_alone(SCAN_FD, MEMORY_MAX);

	confine_limit(RLIMIT_FSIZE, 0);
	confine_limit(RLIMIT_NOFILE, SCAN_FD + 1 + SCAN_BATCH + 8);
	if (r == 0)
		r = confine_files(-1, 0, false);
	/* An old kernel: stage 3 has no call that opens anything. */
	return r == -EOPNOTSUPP ? 0 : r;
}

/* ---- messages --------------------------------------------------------------------- */

static void close_files(struct role *r)
{
	while (r->n_fds)
		close(r->fd[--r->n_fds]);
}

/* Our own client is the peer: what does not fit is a bug there, and the end here. */
static bool receive(struct role *r)
{
	union {
		char space[CMSG_SPACE(SCAN_BATCH * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {r->packet, sizeof(r->packet)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	ssize_t n;

	do
		n = recvmsg(SCAN_FD, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < (ssize_t)sizeof(uint32_t) || (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return false;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		r->n_fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(r->fd, CMSG_DATA(c), r->n_fds * sizeof(int));
	}
	r->len = (size_t)n;
	return true;
}

static void send_parts(const struct iovec *iov, size_t n)
{
	struct iovec copy[1 + SCAN_TEXTS];
	struct msghdr m = {.msg_iov = copy, .msg_iovlen = n};
	ssize_t r;

	memcpy(copy, iov, n * sizeof(*iov));
	do
		r = sendmsg(SCAN_FD, &m, MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		_exit(1); /* nobody listens any more */
}

static void send_note(enum scan_type type, int code, uint64_t files, uint64_t bytes,
		      const char *text)
{
	struct scan_note note = {type, code, files, bytes};
	size_t len = min_size(strlen(text), SCAN_TEXT_MAX);
	struct iovec iov[2] = {
		{&note, sizeof(note)}
        };

	memcpy(&iov[1].iov_base, &text, sizeof(text));
	iov[1].iov_len = len;
	send_parts(iov, len ? 2 : 1);
}

static void send_finding(void *arg, const struct file_finding *f)
{
	struct role *r = arg;
	char excerpt[EXCERPT_MAX], print[PRINT_LEN + 1];
	const char *text[SCAN_TEXTS] = {f->found->rule, f->found->what, f->inner, excerpt,
					print};
	struct scan_found head = {.type = SCAN_FINDING, .index = r->index};
	struct iovec iov[1 + SCAN_TEXTS] = {
		{&head, sizeof(head)}
        };

	if (++r->of_file > FINDINGS_OF_FILE)
		return;
	report_excerpt(excerpt, f->found);
	report_print(print, r->path, f);
	head.line = f->found->line;
	for (size_t i = 0; i < SCAN_TEXTS; i++) {
		size_t max = i == SCAN_INNER ? SCAN_INNER_MAX : SCAN_TEXT_MAX;

		head.len[i] = (uint16_t)min_size(strlen(text[i]), max);
		memcpy(&iov[1 + i].iov_base, &text[i], sizeof(text[i]));
		iov[1 + i].iov_len = head.len[i];
	}
	send_parts(iov, 1 + SCAN_TEXTS);
}

/* ---- stage 2 ---------------------------------------------------------------------- */

static int read_config(int fd, char **ret, size_t *ret_len)
{
	struct stat st;
	size_t n = 0;
	char *text;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size < 0 || st.st_size > SCAN_CONFIG_MAX)
		return -E2BIG;
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return -ENOMEM;
	while (n < (size_t)st.st_size) {
		ssize_t r = pread(fd, text + n, (size_t)st.st_size - n, (off_t)n);

		if (r <= 0)
			break;
		n += (size_t)r;
	}
	*ret = text;
	*ret_len = n;
	return 0;
}

/* Points options into the memory file; values and lens have room for n_values. */
static int split_config(const struct scan_hello *h, const char *text, size_t len,
			struct engine_options *o, const char **values, size_t *lens)
{
	size_t at = (size_t)h->n_values * sizeof(uint32_t);

	if (at > len)
		return -EPROTO;
	for (uint32_t i = 0; i < h->n_values; i++) {
		uint32_t n;

		memcpy(&n, text + i * sizeof(n), sizeof(n));
		if (n > len - at)
			return -EPROTO;
		values[i] = text + at;
		lens[i] = n;
		at += n;
	}
	if (h->rules_len > len - at)
		return -EPROTO;
	o->rules = h->has_rules ? text + at : NULL;
	o->rules_len = (size_t)h->rules_len;
	o->values = values;
	o->value_lens = lens;
	o->n_values = h->n_values;
	return 0;
}

static int load(struct role *r, struct cove_error *err)
{
	cleanup_free char *text = NULL;
	cleanup_free const char **values = NULL;
	cleanup_free size_t *lens = NULL;
	struct engine_options o = {0};
	struct scan_hello h;
	size_t len = 0;
	int rc;

	if (!receive(r) || r->len != sizeof(h) || r->n_fds != 1)
		return fail(err, COVE_EPROTO, 0, "no HELLO");
	memcpy(&h, r->packet, sizeof(h));
	if (h.type != SCAN_HELLO || h.magic != SCAN_MAGIC || h.n_values > 100000)
		return fail(err, COVE_EPROTO, 0, "another version of cove");
	rc = read_config(r->fd[0], &text, &len);
	close_files(r);
	if (rc < 0 || !text)
		return fail(err, COVE_EPROTO, -rc, "configuration");
	values = calloc((size_t)h.n_values + 1, sizeof(*values));
	lens = calloc((size_t)h.n_values + 1, sizeof(*lens));
	if (!values || !lens)
		return fail_nomem(err);
	rc = split_config(&h, text, len, &o, values, lens);
	if (rc < 0)
		return fail(err, COVE_EPROTO, -rc, "configuration");
	if (engine_new(&r->engine, &o, err) < 0)
		return err->code;
	explicit_bzero(text, len);
	if (file_scanner_init(&r->files, r->engine) < 0)
		return fail_nomem(err);
	r->files.max_file = h.max_file;
	r->files.report = send_finding;
	r->files.arg = r;
	return 0;
}

/* ---- stage 4 ---------------------------------------------------------------------- */

static bool scan_files(struct role *r)
{
	struct scan_files h;
	size_t at = sizeof(h);
	char path[SCAN_PATH_MAX + 1];

	if (r->len < sizeof(h))
		return false;
	memcpy(&h, r->packet, sizeof(h));
	if (h.count > SCAN_BATCH || h.count != r->n_fds || h.first != r->done)
		return false;
	for (uint32_t i = 0; i < h.count; i++) {
		size_t n = h.path_len[i];

		if (n > SCAN_PATH_MAX || n > r->len - at)
			return false;
		memcpy(path, r->packet + at, n);
		path[n] = '\0';
		at += n;
		r->index = h.first + i;
		r->of_file = 0;
		r->path = path;
		file_scan(&r->files, path, r->fd[i]);
	}
	close_files(r);
	r->done += h.count;
	send_note(SCAN_PROGRESS, 0, r->done, r->files.bytes, "");
	return true;
}

static int run(struct role *r)
{
	while (receive(r)) {
		uint32_t type;

		memcpy(&type, r->packet, sizeof(type));
		if (type == SCAN_END) {
			send_note(SCAN_DONE, 0, r->done, r->files.bytes, "");
			return 0;
		}
		if (type != SCAN_FILES || !scan_files(r))
			break;
	}
	return 1;
}

int main(int argc, char **argv)
{
	static struct role r;
	struct cove_error err = {0};
	struct stat st;
	int rc;

	(void)argv;
	if (argc != 1 || fstat(SCAN_FD, &st) < 0 || !S_ISSOCK(st.st_mode)) {
		fprintf(stderr,
			"cove-scan: this is a part of cove; use 'cove scan PATH'\n");
		return 2;
	}
	rc = go_alone();
	if (rc < 0)
		fail(&err, COVE_EUNSUPPORTED, -rc, "cove-scan cannot confine itself");
	else
		rc = load(&r, &err);
	if (rc == 0) {
		rc = confine_calls(seccomp_scan, SECCOMP_SCAN_LEN);
		if (rc < 0)
			fail(&err, COVE_EUNSUPPORTED, -rc,
			     "cove-scan cannot confine itself");
	}
	if (rc < 0) {
		send_note(SCAN_REFUSED, err.code, 0, 0, err.msg);
		return 1;
	}
	send_note(SCAN_READY, 0, engine_rules(r.engine), 0, "");
	_exit(run(&r)); /* the kernel frees faster than we would */
}
