/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session - the loop around one process of a sandbox.
 *
 * Theory of operation: the library copies stdin, stdout and stderr (COVE_EXEC_STDIO);
 * this file waits for it and for signals. Signals are blocked only after the sandbox has
 * started, so that nothing it starts inherits the mask, and are read from a signalfd. On
 * a terminal ^C and ^Z are bytes for the terminal inside; what arrives as a signal comes
 * from elsewhere (kill, hang-up). Without one, signals go to the process, as they would
 * if it were not in a sandbox.
 */
#include "cli/session.h"
#include "cli/ask.h"
#include "cli/json.h"
#include "cli/term.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>

#define URGED_MAX \
	3 /* a process that ignores SIGINT and SIGTERM does not hold us for ever */

enum action { NOTHING, FORWARD, LEAVE, SUSPEND, RESUME, RESIZE };

static const struct {
	int signo;
	enum action plain, tty;
} signals[] = {
	{SIGINT,   FORWARD, FORWARD},
        {SIGQUIT,  FORWARD, FORWARD},
	{SIGTERM,  FORWARD, LEAVE  },
        {SIGHUP,   FORWARD, LEAVE  },
	{SIGUSR1,  FORWARD, FORWARD},
        {SIGUSR2,  FORWARD, FORWARD},
	{SIGTSTP,  SUSPEND, SUSPEND},
        {SIGCONT,  RESUME,  RESUME },
	{SIGWINCH, NOTHING, RESIZE },
};

struct loop {
	const struct session *s;
	struct cove_proc *proc;
	int signal_fd;
	struct ask ask;
	int urged; /* how often we were asked to end */
	bool raw, main;
};

/* A signal that the caller's parent made us ignore (nohup) stays ignored. */
static int signals_open(sigset_t *before)
{
	struct sigaction now;
	sigset_t set;
	int fd;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		if (sigaction(signals[i].signo, NULL, &now) < 0 ||
		    now.sa_handler != SIG_IGN)
			sigaddset(&set, signals[i].signo);
	signal(SIGPIPE, SIG_IGN); /* a closed stdout is the library's to notice */
	sigprocmask(SIG_BLOCK, &set, before);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

static void resize(struct loop *l)
{
	uint16_t rows, cols;

	cli_term_size(&rows, &cols);
	cove_proc_resize(l->proc, rows, cols, NULL);
}

/* The process first, then cove itself, as job control would have it. */
static void suspend(struct loop *l)
{
	if (!l->s->tty) {
		cove_proc_signal(l->proc, SIGTSTP, NULL);
		cove_dispatch(l->s->box, NULL); /* out before we stop */
	}
	cli_term_restore();
	kill(getpid(), SIGSTOP);
}

static void resume(struct loop *l)
{
	if (l->raw)
		cli_term_raw(STDIN_FILENO);
	if (l->s->tty)
		resize(l);
	else
		cove_proc_signal(l->proc, SIGCONT, NULL);
}

static enum action action_of(const struct loop *l, int signo)
{
	if (l->main && signo == SIGHUP)
		return LEAVE; /* the main session outlives its terminal */
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		if (signals[i].signo == signo)
			return l->s->tty ? signals[i].tty : signals[i].plain;
	return NOTHING;
}

/* 0, or the signal that makes this client leave. */
static int take_signals(struct loop *l)
{
	struct signalfd_siginfo info;

	while (read(l->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		int signo = (int)info.ssi_signo;

		switch (action_of(l, signo)) {
		case FORWARD:
			cove_proc_signal(l->proc, signo, NULL);
			if ((signo == SIGINT || signo == SIGTERM) &&
			    ++l->urged >= URGED_MAX)
				return signo;
			break;
		case LEAVE:
			return signo;
		case SUSPEND:
			suspend(l);
			break;
		case RESUME:
			resume(l);
			break;
		case RESIZE:
			resize(l);
			break;
		case NOTHING:
			break;
		}
	}
	return 0;
}

/* 0, or the signal that makes this client leave. A terminal that hung up says so on stdin
 * too, and that may be seen before the signal: it must not pass as the end of input. */
static int look_around(struct loop *l, struct pollfd *signals_fd, struct pollfd *terminal)
{
	int left_by = signals_fd->revents ? take_signals(l) : 0;

	if (!left_by && (terminal->revents & (POLLHUP | POLLERR | POLLNVAL)))
		left_by = SIGHUP;
	return left_by;
}

static int wait_for_end(struct loop *l, struct outcome *ret, struct cove_error *err)
{
	struct pollfd fds[] = {
		{.fd = cove_fd(l->s->box),         .events = POLLIN},
		{.fd = l->signal_fd,               .events = POLLIN},
		{.fd = l->raw ? STDIN_FILENO : -1, .events = 0     },
	};

	for (;;) {
		struct cove_error gone = {0};
		int turn = cove_dispatch(l->s->box, &gone);
		int r = cove_poll(l->proc, &ret->status, err);

		if (r != 0) /* the end of the sandbox may carry the end of the process */
			return r < 0 ? r : 0;
		if (turn < 0) {
			*err = gone;
			return turn;
		}
		if (poll(fds, ARRAY_LEN(fds), -1) > 0 &&
		    (ret->left_by = look_around(l, &fds[1], &fds[2])) != 0)
			return 0;
	}
}

static int begin(struct loop *l, struct cove_error *err)
{
	const struct session *s = l->s;
	struct cove_exec_options o = {
		.size = sizeof(o),
		.flags = COVE_EXEC_STDIO | (s->tty ? COVE_EXEC_PTY : 0) |
			 (s->offline ? COVE_EXEC_OFFLINE : 0),
		.argv = s->argv,
		.env = s->env,
		.cwd = s->cwd,
		.term = s->tty ? getenv("TERM") : NULL,
		.in = STDIN_FILENO,
		.out = STDOUT_FILENO,
		.err = STDERR_FILENO,
		.timeout_ms = s->timeout_ms,
		.agent = s->agent,
		.tool = s->tool,
	};

	if (s->tty)
		cli_term_size(&o.rows, &o.cols);
	if (!s->argv)
		return cove_attach(s->box, &o, &l->proc, err);
	if (l->main)
		o.flags |= COVE_EXEC_MAIN;
	return cove_exec(s->box, &o, &l->proc, err);
}

/* One process from start to end, with the signals of this client blocked. */
static int run_process(struct loop *l, struct outcome *ret, struct cove_error *err)
{
	int r = 0;

	l->ask = (struct ask){.box = l->s->box, .signals = l->signal_fd};
	if (l->s->ask)
		r = cove_net_on_ask(l->s->box, cli_net_ask, &l->ask, err);
	if (r == 0)
		r = begin(l, err);
	if (r == 0 && l->raw)
		cli_term_raw(STDIN_FILENO);
	if (r == 0 && l->s->tty && !l->s->argv)
		resize(l); /* the session may have been started on another terminal */
	if (r == 0)
		r = wait_for_end(l, ret, err);
	cli_term_restore();
	if (l->s->ask)
		cove_net_on_ask(l->s->box, NULL, NULL, NULL);
	cli_net_ask_clear(&l->ask);
	ret->started = l->proc && cove_proc_id(l->proc) != 0;
	if (r == 0 && !ret->started)
		snprintf(ret->why, sizeof(ret->why), "%s", err->msg);
	cove_proc_free(l->proc);
	l->proc = NULL;
	return r;
}

int cli_session(const struct session *s, struct outcome *ret, struct cove_error *err)
{
	struct loop l = {.s = s, .main = s->main || !s->argv, .signal_fd = -1};
	sigset_t before;
	int r;

	*ret = (struct outcome){.status.size = sizeof(ret->status)};
	l.signal_fd = signals_open(&before);
	l.raw = s->tty && isatty(STDIN_FILENO);
	r = run_process(&l, ret, err);
	if (l.signal_fd >= 0)
		close(l.signal_fd);
	if (ret->left_by == 0)
		sigprocmask(SIG_SETMASK, &before, NULL);
	return r;
}

/* Beside a main session another one would end with this client: not what was asked for.
 */
static int refuse_second(const char *name, struct cove_error *err)
{
	char *text = NULL;
	json_t *json;
	bool busy;

	if (cove_inspect_json(name, &text, err) < 0)
		return err->code;
	json = cli_json_take(text, err);
	busy = json_is_true(json_object_get(json, "mainRunning"));
	json_decref(json);
	if (!busy)
		return 0;
	snprintf(err->msg, sizeof(err->msg), "%s has a main session already", name);
	snprintf(err->hint, sizeof(err->hint), "'cove attach %s' joins it", name);
	return err->code = COVE_ESTATE;
}

int cli_session_detached(const struct session *s, struct outcome *ret,
			 struct cove_error *err)
{
	struct cove_exec_options o = {
		.size = sizeof(o),
		.flags = COVE_EXEC_MAIN | (s->tty ? COVE_EXEC_PTY : 0) |
			 (s->offline ? COVE_EXEC_OFFLINE : 0),
		.argv = s->argv,
		.env = s->env,
		.cwd = s->cwd,
		.term = s->tty ? getenv("TERM") : NULL,
		.rows = 24,
		.cols = 80,
		.timeout_ms = s->timeout_ms,
		.agent = s->agent,
		.tool = s->tool,
	};
	struct cove_proc *proc = NULL;
	struct pollfd fd = {.fd = cove_fd(s->box), .events = POLLIN};
	int r = refuse_second(cove_name(s->box), err);

	*ret = (struct outcome){.status.size = sizeof(ret->status)};
	if (r == 0)
		r = cove_exec(s->box, &o, &proc, err);
	while (r == 0 && cove_proc_id(proc) == 0) {
		r = cove_poll(proc, &ret->status, err);
		if (r != 0)
			break;
		poll(&fd, 1, -1);
		r = cove_dispatch(s->box, err);
	}
	ret->started = proc && cove_proc_id(proc) != 0;
	if (r >= 0 && !ret->started)
		snprintf(ret->why, sizeof(ret->why), "%s", err->msg);
	cove_proc_free(proc);
	return r < 0 ? r : 0;
}

int cli_session_shell(const struct session *s, struct outcome *ret,
		      struct cove_error *err)
{
	static const char *const shells[][2] = {
		{"/bin/bash", NULL},
		{"/bin/sh",   NULL},
	};
	struct session shell = *s;
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(shells); i++) {
		shell.argv = shells[i];
		r = cli_session(&shell, ret, err);
		if (r < 0 || ret->started || ret->left_by)
			break;
	}
	return r;
}

int cli_session_exit(const char *verb, const struct outcome *o)
{
	if (o->left_by)
		return EXIT_SIGNALLED + o->left_by;
	if (!o->started && *o->why)
		cli_failf(verb, NULL, "%s", o->why);
	return o->status.shell;
}
