/* SPDX-License-Identifier: Apache-2.0 */
/* exec - an EXEC request: descriptors or a terminal for the process, then its start. */
#include "guest/guest.h"
#include "guest/request.h"
#include "guest/spawn.h"

#include "base/util.h"
#include "os/who.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>

#define EXEC_TAGS \
	(TAG(WIRE_A_ARG) | TAG(WIRE_A_ENV) | TAG(WIRE_A_CWD) | TAG(WIRE_A_FLAGS) | \
	 TAG(WIRE_A_ROWS) | TAG(WIRE_A_COLS) | TAG(WIRE_A_UID) | TAG(WIRE_A_GID) | \
	 TAG(WIRE_A_AGENT) | TAG(WIRE_A_TOOL))
#define EXEC_FLAGS \
	(WIRE_EXEC_PTY | WIRE_EXEC_NO_STDIN | WIRE_EXEC_MAIN | WIRE_EXEC_LAST | \
	 WIRE_EXEC_NO_OUTPUT | WIRE_EXEC_OFFLINE)

/* The process's ends, closed in us when it has them. */
struct ends {
	int fd[3];
};

static void ends_clear(struct ends *e)
{
	for (int i = 0; i < 3; i++)
		if (e->fd[i] > 2)
			close(e->fd[i]);
}

/* theirs: which end of the pipe the process gets. Ours never blocks. */
static int make_pipe(int theirs, int *ret_theirs, int *ret_ours)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	if (fcntl(p[!theirs], F_SETFL, O_NONBLOCK) < 0) {
		close(p[0]);
		close(p[1]);
		return -EIO;
	}
	*ret_theirs = p[theirs];
	*ret_ours = p[!theirs];
	return 0;
}

static void open_source(struct source *o, int fd)
{
	o->fd = fd;
	o->open = true;
	flow_init(&o->flow);
}

static void open_sink(struct sink *in, int fd)
{
	in->fd = fd;
	in->open = true;
	flow_init(&in->flow);
}

static int make_pipes(struct stream *s, uint32_t flags, struct ends *e)
{
	int fd = -1, r = 0;

	if (!(flags & WIRE_EXEC_NO_STDIN)) {
		r = make_pipe(0, &e->fd[0], &fd);
		if (r < 0)
			return r;
		open_sink(&s->in, fd);
	}
	for (int i = 0; i < 2 && !(flags & WIRE_EXEC_NO_OUTPUT); i++) {
		r = make_pipe(1, &e->fd[i + 1], &fd);
		if (r < 0)
			return r;
		open_source(&s->out[i], fd);
	}
	return r;
}

static int open_terminal(int *ret_master, int *ret_slave)
{
	int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	int slave, unlock = 0;

	if (master < 0)
		master =
			open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	if (master < 0)
		return -errno;
	slave = ioctl(master, TIOCSPTLCK, &unlock) < 0
			? -1
			: ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0) {
		int sys = errno;

		close(master);
		return -sys;
	}
	*ret_master = master;
	*ret_slave = slave;
	return 0;
}

static int make_terminal(struct stream *s, const struct request *r, uint32_t flags,
			 struct ends *e)
{
	int master = -1, slave = -1, copy, err = open_terminal(&master, &slave);

	if (err < 0)
		return err;
	open_source(&s->out[0], master);
	s->exec.tty = true;
	e->fd[1] = slave;
	if (request_has(r, WIRE_A_ROWS) || request_has(r, WIRE_A_COLS))
		proc_resize(s, (uint16_t)r->num[WIRE_A_ROWS],
			    (uint16_t)r->num[WIRE_A_COLS]);
	copy = fcntl(slave, F_DUPFD_CLOEXEC, 3);
	if (copy < 0)
		return -errno;
	e->fd[2] = copy;
	if (flags & WIRE_EXEC_NO_STDIN)
		return 0;
	e->fd[0] = fcntl(slave, F_DUPFD_CLOEXEC, 3);
	copy = fcntl(master, F_DUPFD_CLOEXEC, 3);
	if (e->fd[0] < 0 || copy < 0)
		return -errno;
	open_sink(&s->in, copy);
	return 0;
}

static void report_failure(struct guest *g, struct stream *s, const struct spawn *sp,
			   int sys)
{
	static const char *const what[] = {
		[SPAWN_FORK] = "new process",
		[SPAWN_SETUP] = "session, terminal or descriptors",
		[SPAWN_USER] = "change of user",
	};
	char text[1024];

	switch (sp->stage) {
	case SPAWN_CWD:
		snprintf(text, sizeof(text), "working directory %s", sp->cwd);
		send_failed(g, s->id, sys, text, sp->cwd);
		break;
	case SPAWN_EXEC:
		send_failed(g, s->id, sys, sp->argv[0], NULL);
		break;
	default:
		send_failed(g, s->id, sys, what[sp->stage], NULL);
	}
	stream_finish(g, s);
}

static void started(struct guest *g, struct stream *s, bool last)
{
	uint8_t p[32];
	struct wire_out o;

	wire_out_init(&o, p, sizeof(p));
	wire_put_u32(&o, WIRE_A_PID, (uint32_t)s->exec.pid);
	if (g->machine) /* the host's clock is another one */
		wire_put_u64(&o, WIRE_A_SINCE, who_now());
	send_frame(g, WIRE_STARTED, 0, s->id, p, o.len);
	s->exec.last = last;
	hold(g); /* a short command answers with one write, and wakes the peer once */
}

static bool same_name(const char *a, const char *b)
{
	size_t n = strcspn(a, "=");

	return strncmp(a, b, n) == 0 && b[n] == '=';
}

/* What SETUP gave, unless the request has its own of that name, and then the request's.
 */
static char **environment(const struct guest *g, const struct request *r)
{
	char **own = r->list[WIRE_A_ENV], **all;
	size_t n = 0, k;

	for (char **p = g->env; p && *p; p++)
		n++;
	all = calloc(n + r->count[WIRE_A_ENV] + 1, sizeof(*all));
	if (!all)
		return NULL;
	n = 0;
	for (char **p = g->env; p && *p; p++) {
		for (k = 0; own[k] && !same_name(*p, own[k]); k++)
			;
		if (!own[k])
			all[n++] = *p;
	}
	memcpy(all + n, own, r->count[WIRE_A_ENV] * sizeof(*all));
	return all;
}

static void start_process(struct guest *g, struct stream *s, const struct request *r)
{
	/* Our own 0 and 1 are /dev/null: what a process without pipes gets. */
	__attribute__((cleanup(ends_clear))) struct ends e = {
		{0, 1, 1}
        };
	cleanup_free char **env = environment(g, r);
	uint32_t flags = r->num[WIRE_A_FLAGS];
	struct spawn sp = {
		.argv = r->list[WIRE_A_ARG],
		.envp = env,
		.cwd = r->str[WIRE_A_CWD],
		.tty = (flags & WIRE_EXEC_PTY) != 0,
		.die_with_us = !g->init,
		.uid = request_has(r, WIRE_A_UID) ? &r->num[WIRE_A_UID]
		       : g->machine               ? &g->user[0]
						  : NULL,
		.gid = request_has(r, WIRE_A_GID) ? &r->num[WIRE_A_GID]
		       : g->machine               ? &g->user[1]
						  : NULL,
	};
	int err = !env     ? -ENOMEM
		  : sp.tty ? make_terminal(s, r, flags, &e)
			   : make_pipes(s, flags, &e);
	pid_t pid;

	if (err < 0) {
		stream_failed(g, s, -err, sp.tty ? "terminal" : "pipe");
		return;
	}
	if (sp.uid && *sp.uid == getuid())
		sp.uid = NULL;
	if (sp.gid && *sp.gid == getgid())
		sp.gid = NULL;
	memcpy(sp.fd, e.fd, sizeof(sp.fd));
	pid = spawn(&sp);
	if (pid < 0) {
		report_failure(g, s, &sp, -pid);
		return;
	}
	s->exec.pid = pid;
	started(g, s, (flags & WIRE_EXEC_LAST) != 0);
}

int on_exec(struct guest *g, const struct wire_frame *f)
{
	cleanup_request struct request r = {0};
	int err = request_parse(&r, f, EXEC_TAGS);
	uint32_t flags = r.num[WIRE_A_FLAGS];
	struct stream *s;

	if (err == -EPROTO)
		return violation(g, "malformed EXEC");
	s = stream_new(g, f->stream, &proc_ops);
	if (!s)
		return 0;
	if (err < 0)
		stream_failed(g, s, -err, "attribute of EXEC");
	else if (r.count[WIRE_A_ARG] == 0)
		stream_failed(g, s, EINVAL, "no command");
	else if (flags & ~(uint32_t)EXEC_FLAGS)
		stream_failed(g, s, EOPNOTSUPP, "flags");
	else if ((flags & WIRE_EXEC_PTY) && (flags & WIRE_EXEC_NO_OUTPUT))
		stream_failed(g, s, EINVAL, "a terminal without output");
	else
		start_process(g, s, &r);
	if (s->closed && (flags & WIRE_EXEC_LAST))
		g->ending = true; /* it was what we were here for */
	return 0;
}
