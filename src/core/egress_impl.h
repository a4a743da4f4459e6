/* SPDX-License-Identifier: Apache-2.0 */
/* egress_impl - what the files of the host's end share. */
#ifndef COVE_CORE_EGRESS_IMPL_H
#define COVE_CORE_EGRESS_IMPL_H

#include "core/egress.h"
#include "ipc/control.h"

#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

struct egress_host {
	int sock;
	pid_t pid;
	bool dead;
	bool settled; /* the role has said that it is ready */
	bool asked;   /* for the authority, and nobody waits for the answer yet */
	uint64_t generation;
	struct egress_owner owner;
	int64_t looked_at; /* seconds; when the host's resolver was last looked at */
	struct timespec resolv_mtime, hosts_mtime;
	json_t *self; /* the host's addresses, as the role knows them */
	int netlink;  /* says that they change; -1 */
	char packet[CONTROL_PACKET];
};

#define ANSWER_MS 5000 /* how long the role may take for what it is asked */

/* egress_packet.c. Takes over the object. 0 or -errno; a role that does not read for
 * ANSWER_MS is killed. */
int egress_send(struct egress_host *h, json_t *o, const int *fds, size_t n_fds);
/* NULL: *ret_err is -EAGAIN, or the role is gone. *ret_fd: what came along, or -1; NULL:
 * not wanted. */
json_t *egress_receive(struct egress_host *h, int *ret_fd, int *ret_err);
/* A memory file that nobody can change any more. */
int egress_sealed(const char *name, const void *data, size_t n, int *ret);

/* egress_policy.c: what this image says, in *c. */
int egress_look(const struct buf *image, struct egress_change *c, struct cove_error *err);

/* egress_world.c: what the role cannot see itself: the host's resolver, hosts file, own
 * addresses, and whom it trusts. */
int egress_send_host(struct egress_host *h, const struct spec *s, struct cove_error *err);
/* Sends them again if they have changed; cheap, and at most once in two seconds. */
void egress_refresh(struct egress_host *h);

#endif
