/* SPDX-License-Identifier: Apache-2.0 */
/* control_impl - what control.c (in) and control_say.c (out) know of each other. */
#ifndef COVE_EGRESS_CONTROL_IMPL_H
#define COVE_EGRESS_CONTROL_IMPL_H

#include "egress/egress.h"

struct packet;

struct control {
	struct egress *egress;
	struct watch watch;
	struct swap_table *table; /* being filled */
	char packet[CONTROL_PACKET + 1];
	int fd[CONTROL_FDS];
	size_t n_fds;
	/* control_say.c's */
	struct question *waiting;
	uint64_t next_question, lost;
	struct timer tell_lost;
	int64_t stale_ms; /* when the host was last told so */
	struct packet *queue, **queue_end;
	unsigned n_queue;
};

/* Takes over the object. must: the host waits for it, so it is kept until there is room;
 * we never wait ourselves. 0 or -errno. */
int control_say(struct control *k, json_t *o, int fd, bool must);
void control_send_kept(struct control *k); /* there is room now */
int control_answered(struct control *k, const json_t *o);

#endif
