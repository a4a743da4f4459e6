/* SPDX-License-Identifier: Apache-2.0 */
/* scan_role - starts cove-scan and tells it what to look for. */
#include "work/scan_impl.h"

#include "base/io.h"
#include "base/util.h"
#include "os/program.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* Rules and values go through memory that no file system has. */
static int write_config(const struct scan_options *o, int *ret_fd)
{
	cleanup_fd int fd = memfd_create("cove-scan", MFD_CLOEXEC);
	int r = fd < 0 ? -errno : 0;

	for (size_t i = 0; r == 0 && i < o->n_secrets; i++) {
		uint32_t n = (uint32_t)o->secret_lens[i];

		r = n == o->secret_lens[i] ? write_all(fd, &n, sizeof(n)) : -E2BIG;
	}
	for (size_t i = 0; r == 0 && i < o->n_secrets; i++)
		r = write_all(fd, o->secrets[i], o->secret_lens[i]);
	if (r == 0 && o->rules_toml)
		r = write_all(fd, o->rules_toml, o->rules_len);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

static int send_hello(int sock, const struct scan_options *o, int config)
{
	struct scan_hello h = {.type = SCAN_HELLO,
			       .magic = SCAN_MAGIC,
			       .max_file = o->max_file ? o->max_file : UINT64_C(1) << 30,
			       .rules_len = o->rules_toml ? o->rules_len : 0,
			       .n_values = (uint32_t)o->n_secrets,
			       .has_rules = o->rules_toml != NULL};
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec iov = {&h, sizeof(h)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	if (!c)
		return -EINVAL;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &config, sizeof(int));
	return sendmsg(sock, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int start(struct scan *s, const char *file, const struct scan_options *o)
{
	int pair[2], r;
	cleanup_fd int config = -1, theirs = -1;

	r = write_config(o, &config);
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	s->sock = pair[0];
	theirs = pair[1];
	r = send_hello(s->sock, o, config);
	if (r == 0 && fcntl(s->sock, F_SETFL, O_NONBLOCK) < 0)
		r = -errno;
	return r < 0 ? r
		     : program_spawn(file, "cove-scan", (const int[]){-1, -1, -1, theirs},
				     &s->pid);
}

int scan_role_start(struct scan *s, const struct scan_options *o, struct cove_error *err)
{
	static _Thread_local char cache[PATH_MAX];
	const char *file = program_find(cache, "cove-scan", "COVE_SCAN", err);
	int r;

	if (!file)
		return err->code;
	r = start(s, file, o);
	if (r < 0) {
		s->pid = 0;
		return fail(err, r == -E2BIG ? COVE_EINVAL : COVE_EIO, -r, "start %s",
			    file);
	}
	return 0;
}

void scan_role_end(struct scan *s)
{
	close_fd(&s->sock);
	if (!s->pid)
		return;
	/* Ours and not reaped yet, so it is still that one. After DONE it has nothing
	 * left to do; a role that stays all the same must not hold us up. */
	kill(s->pid, SIGKILL);
	while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
		;
	s->pid = 0;
}
