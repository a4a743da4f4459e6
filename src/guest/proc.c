/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proc - the life of a process that EXEC started, from STARTED to EXIT.
 *
 * It ends when it was reaped and its output has ended. What it left behind may hold the
 * output open for ever, so LINGER_MS after its end we take what is in the pipe and close.
 * A client that closes first wants it gone: SIGHUP, and SIGKILL after KILL_MS.
 */
#include "guest/guest.h"

#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>

#define LINGER_MS 1000
#define KILL_MS 2000
#define REAPS_A_TURN 256

static void send_exit(struct guest *g, struct stream *s)
{
	int st = s->exec.status;
	uint8_t p[16];
	struct wire_out o;

	wire_out_init(&o, p, sizeof(p));
	if (WIFSIGNALED(st))
		wire_put_u32(&o, WIRE_A_SIGNAL, (uint32_t)WTERMSIG(st));
	else
		wire_put_u32(&o, WIRE_A_CODE, (uint32_t)WEXITSTATUS(st));
	send_frame(g, WIRE_EXIT, 0, s->id, p, o.len);
	if (s->exec.last)
		g->ending = true;
	stream_finish(g, s);
}

static void settle_ended(struct guest *g, struct stream *s)
{
	if (s->orphan) {
		stream_release(s);
		s->closed = s->peer_closed = true;
	} else if (s->peer_closed) {
		stream_finish(g, s);
	} else if (!s->out[0].open && !s->out[1].open) {
		send_exit(g, s);
	} else if (!s->deadline_ms) {
		s->deadline_ms = now_ms() + LINGER_MS;
	} else if (s->deadline_ms > 0 && now_ms() >= s->deadline_ms) {
		source_drain(&s->out[0]);
		source_drain(&s->out[1]);
		s->deadline_ms = -1; /* nothing left to wait for but the client */
	}
}

static void proc_settle(struct guest *g, struct stream *s)
{
	if (s->exec.ended) {
		settle_ended(g, s);
	} else if (s->deadline_ms > 0 && now_ms() >= s->deadline_ms) {
		kill(-s->exec.pid, SIGKILL);
		s->deadline_ms = 0;
	}
}

static void proc_abandon(struct guest *g, struct stream *s)
{
	(void)g;
	close_fd(&s->in.fd);
	for (int i = 0; i < 2; i++) {
		close_fd(&s->out[i].fd);
		s->out[i].open = false;
	}
	s->in.open = false;
	if (s->exec.ended)
		return;
	kill(-s->exec.pid, SIGHUP);
	kill(-s->exec.pid, SIGCONT);
	s->deadline_ms = now_ms() + KILL_MS;
}

/* A terminal has no other way to tell the end of input but its own character for it. */
static void proc_end(struct guest *g, struct stream *s)
{
	struct termios t;

	(void)g;
	if (!s->exec.tty) {
		close_fd(&s->in.fd);
		return;
	}
	if (s->in.fd >= 0 && tcgetattr(s->in.fd, &t) == 0)
		(void)!write(s->in.fd, &t.c_cc[VEOF], 1);
}

const struct stream_ops proc_ops = {
	.settle = proc_settle,
	.abandon = proc_abandon,
	.end_of_input = proc_end,
};

void proc_signal(struct stream *s, uint32_t sig)
{
	if (s->ops == &proc_ops && !s->closed && !s->exec.ended)
		kill(-s->exec.pid, (int)sig);
}

void proc_resize(struct stream *s, uint16_t rows, uint16_t cols)
{
	struct winsize w = {.ws_row = rows, .ws_col = cols};

	if (s->ops == &proc_ops && s->exec.tty && s->out[0].fd >= 0)
		ioctl(s->out[0].fd, TIOCSWINSZ, &w);
}

static struct stream *by_pid(struct guest *g, pid_t pid)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct stream *s = g->bucket[i]; s; s = s->next)
			if (s->ops == &proc_ops && !s->closed && !s->exec.ended &&
			    s->exec.pid == pid)
				return s;
	return NULL;
}

static void process_ended(struct stream *s, int status)
{
	s->exec.ended = true;
	s->exec.status = status;
	s->deadline_ms = 0;
	if (s->peer_closed) /* the client wanted all of it gone */
		kill(-s->exec.pid, SIGKILL);
}

void proc_reap(struct guest *g)
{
	for (int i = 0; i < REAPS_A_TURN; i++) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG);
		struct stream *s = pid > 0 ? by_pid(g, pid) : NULL;

		if (s)
			process_ended(s, status); /* else an orphan that came to us */
		if (pid <= 0) {
			g->alone = pid < 0 && errno == ECHILD;
			return;
		}
	}
	guest_child_ended = 1; /* more: but a fork bomb must not keep us from the link */
}

/* Every process but us, as far as we can know them: all of the namespace, or our children
 * (orphans of theirs become ours) and the groups we made. */
void proc_kill_all(struct guest *g, int sig)
{
	char name[64], text[4096];
	ssize_t n;

	if (g->init) {
		kill(-1, sig);
		return;
	}
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct stream *s = g->bucket[i]; s; s = s->next)
			proc_signal(s, (uint32_t)sig);
	snprintf(name, sizeof(name), "/proc/self/task/%d/children", (int)getpid());
	cleanup_fd int fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	n = read(fd, text, sizeof(text) - 1);
	for (char *p = text, *end; n > 0 && p < text + n; p = end + 1) {
		text[n] = '\0';
		long pid = strtol(p, &end, 10);

		if (end == p)
			break;
		if (pid > 1)
			kill((pid_t)pid, sig);
	}
}
