/* SPDX-License-Identifier: Apache-2.0 */
/* egress_packet - packets to and from the role (ipc/control.h), which may be hostile. */
#include "core/egress_impl.h"

#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <sys/mman.h>

int egress_send(struct egress_host *h, json_t *o, const int *fds, size_t n_fds)
{
	union {
		char space[CMSG_SPACE(CONTROL_FDS * sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	/* Into memory of ours at once: there may be a value in it. */
	size_t n = o ? json_dumpb(o, NULL, 0, JSON_COMPACT) : 0;
	char *text = n ? malloc(n) : NULL;
	struct iovec iov = {text, n};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	int r = text ? 0 : -ENOMEM;

	if (text)
		json_dumpb(o, text, n, JSON_COMPACT);
	json_decref(o);
	if (n > CONTROL_PACKET)
		r = -EMSGSIZE;
	if (n_fds) {
		struct cmsghdr *c;

		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&m);
		if (c) {
			c->cmsg_level = SOL_SOCKET;
			c->cmsg_type = SCM_RIGHTS;
			c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
			memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
		}
	}
	while (r == 0 && sendmsg(h->sock, &m, MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			r = -errno;
	if (r == -EAGAIN) { /* it has not read for ANSWER_MS: of no use */
		r = -ETIMEDOUT;
		if (h->pid > 0)
			kill(h->pid, SIGKILL);
	}
	if (text)
		sodium_memzero(text, n); /* a secret's value may be in it */
	free(text);
	return r;
}

/* The first descriptor that came along, if it is wanted; no other stays open. */
static void take_fds(struct msghdr *m, int *ret)
{
	int fd;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = CMSG_LEN(0); at + sizeof(fd) <= c->cmsg_len;
		     at += sizeof(fd)) {
			memcpy(&fd, (const char *)c + at, sizeof(fd));
			if (*ret < 0)
				*ret = fd;
			else
				close(fd);
		}
	}
}

json_t *egress_receive(struct egress_host *h, int *ret_fd, int *ret_err)
{
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {h->packet, sizeof(h->packet)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(h->sock, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	cleanup_fd int fd = -1;
	json_t *o;

	if (n < 0) {
		*ret_err = -errno;
		return NULL;
	}
	take_fds(&m, &fd);
	o = n > 0 ? json_loadb(h->packet, (size_t)n, 0, NULL) : NULL;
	if (!o)
		*ret_err = n > 0 ? -EPROTO : -EPIPE;
	else if (ret_fd)
		*ret_fd = take_fd(&fd);
	return o;
}

int egress_sealed(const char *name, const void *data, size_t n, int *ret)
{
	cleanup_fd int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r = fd < 0 ? -errno : write_all(fd, data, n);

	if (r == 0 && fcntl(fd, F_ADD_SEALS,
			    F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		r = -errno;
	if (r == 0)
		*ret = take_fd(&fd);
	return r;
}
