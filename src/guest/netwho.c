/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/netwho.h"

#include "base/util.h"
#include "os/who.h"

#include <pthread.h>
#include <sys/fsuid.h>

#define STACK_SIZE (256u << 10)

struct asked {
	uint32_t id;
	struct netmux_ends ends;
};

struct answered {
	uint32_t id;
	struct netmux_who who;
};

struct thread {
	int sock, diag;
};

static void find(int diag, const struct netmux_ends *e, struct netmux_who *ret)
{
	struct who w;

	*ret = (struct netmux_who){0};
	/* We are a thread of the first process. */
	if (who_has(diag, getpid(), e->udp, (const struct sockaddr *)&e->from,
		    (const struct sockaddr *)&e->to, &w) < 0)
		return;
	ret->pid = (uint32_t)w.pid;
	ret->root = w.root;
	ret->started = w.started;
	memcpy(ret->program, w.program,
	       min_size(sizeof(ret->program) - 1, strnlen(w.program, sizeof(w.program))));
}

static void *run(void *arg)
{
	struct thread *t = arg;
	struct asked q;

	/* Of this thread alone: the descriptors of all users are looked at. */
	setfsuid(0);
	setfsgid(0);
	while (recv(t->sock, &q, sizeof(q), 0) == sizeof(q)) {
		struct answered a = {.id = q.id};

		find(t->diag, &q.ends, &a.who);
		if (send(t->sock, &a, sizeof(a), MSG_NOSIGNAL) < 0)
			break;
	}
	close(t->sock);
	close(t->diag);
	free(t);
	return NULL;
}

static int start_thread(struct thread *t)
{
	pthread_attr_t attr;
	pthread_t id;
	int r = pthread_attr_init(&attr);

	if (r)
		return -r;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	r = pthread_create(&id, &attr, run, t);
	pthread_attr_destroy(&attr);
	return -r;
}

int netwho_start(int *diag)
{
	struct thread *t = calloc(1, sizeof(*t));
	int pair[2], r;

	if (!t)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		r = -errno;
		free(t);
		return r;
	}
	*t = (struct thread){.sock = pair[1], .diag = *diag};
	r = start_thread(t);
	if (r < 0) {
		close(pair[0]);
		close(pair[1]);
		free(t);
		return r;
	}
	*diag = -1;
	return pair[0];
}

int netwho_ask(int fd, uint32_t id, const struct netmux_ends *e)
{
	struct asked q = {.id = id, .ends = *e};

	return send(fd, &q, sizeof(q), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int netwho_answer(int fd, uint32_t *ret_id, struct netmux_who *ret)
{
	struct answered a;

	if (recv(fd, &a, sizeof(a), MSG_DONTWAIT) != sizeof(a))
		return -EAGAIN;
	*ret_id = a.id;
	*ret = a.who;
	return 0;
}
