/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cove-vmm - the first process of a machine's own namespaces: starts the monitor (QEMU),
 * keeps the last lines of its console, and ends with whoever asked for it.
 *
 *	cove-vmm shared|own|ram=N KVM PROGRAM ARG...
 *
 * shared: its memory file is a template, see vmm_open.c; ram=N: it is descriptor N. KVM:
 * the number of an opened /dev/kvm, or - for none.
 * Descriptor 3 is the lifeline: when its other end closes, however that happens, we end,
 * and the kernel kills the monitor with the namespace. A packet on it asks for the last
 * of the console. Descriptor 4 is the console's far end. These and KVM stay with us; the
 * monitor inherits the others.
 *
 * What the console says is the guest's: it is kept in a ring and never looked at.
 */
#include "ipc/vmm.h"
#include "base/util.h"
#include "roles/vmm.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIFELINE = 3, CONSOLE = 4 };

struct ring {
	char text[VMM_CONSOLE_MAX];
	size_t end; /* bytes ever written */
};

static struct ring ring;

static void ring_add(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ring.text[ring.end++ % sizeof(ring.text)] = p[i];
}

/* One packet: a status line, then the oldest to the newest byte. */
static void tell(const char *status)
{
	static char packet[VMM_STATUS_MAX + VMM_CONSOLE_MAX];
	size_t n = (size_t)snprintf(packet, VMM_STATUS_MAX, "%s\n", status);
	size_t begin = ring.end > sizeof(ring.text) ? ring.end - sizeof(ring.text) : 0;

	for (size_t at = begin; at < ring.end; at++)
		packet[n++] = ring.text[at % sizeof(ring.text)];
	(void)!send(LIFELINE, packet, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* False: there will be no more. */
static bool take_console(int fd)
{
	char text[4096];
	ssize_t n = read(fd, text, sizeof(text));

	if (n > 0)
		ring_add(text, (size_t)n);
	return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

static void drain(int fd)
{
	fcntl(fd, F_SETFL, O_NONBLOCK);
	for (int i = 0; i < 64; i++) {
		struct pollfd p = {.fd = fd, .events = POLLIN};

		if (poll(&p, 1, 0) <= 0 || !take_console(fd))
			return;
	}
}

struct child {
	char **argv;
	struct vmm_open opens;
};

/* Shares our memory and descriptors until the exec, which is when we go on: so its
 * listener is ours too, and what it writes down we can read. */
static int become_monitor(void *arg)
{
	struct child *c = arg;

	if (vmm_open_watch(&c->opens) < 0 || vmm_leave_to_us() < 0)
		_exit(126);
	execv(c->argv[0], c->argv);
	dprintf(2, "%s: %s\n", c->argv[0], strerror(errno));
	_exit(127);
}

static int start(struct child *c, int *ret_errors)
{
	static char stack[64 * 1024] __attribute__((aligned(16)));
	int errors[2];

	if (pipe2(errors, O_CLOEXEC) < 0 || dup2(errors[1], 1) < 0 ||
	    dup2(errors[1], 2) < 0)
		return -1;
	close(errors[1]);
	fcntl(LIFELINE, F_SETFD, FD_CLOEXEC);
	fcntl(CONSOLE, F_SETFD, FD_CLOEXEC);
	if (c->opens.kvm >= 0)
		fcntl(c->opens.kvm, F_SETFD, FD_CLOEXEC);
	if (c->opens.ram >= 0)
		fcntl(c->opens.ram, F_SETFD, FD_CLOEXEC);
	*ret_errors = errors[0];
	return clone(become_monitor, stack + sizeof(stack),
		     CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD, c);
}

static void report_end(int pid, int errors)
{
	char status[VMM_STATUS_MAX / 2];
	int s = 0;

	waitpid(pid, &s, 0);
	drain(CONSOLE);
	drain(errors);
	if (WIFSIGNALED(s))
		snprintf(status, sizeof(status), "signal %d", WTERMSIG(s));
	else
		snprintf(status, sizeof(status), "exit %d", WEXITSTATUS(s));
	tell(status);
}

/* Whoever started us blocked all signals, and may sit at a terminal. */
static void leave_caller(void)
{
	sigset_t none;

	setsid();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static bool parse(struct child *c, int argc, char **argv)
{
	bool ram = argc > 3 && strncmp(argv[1], "ram=", 4) == 0;

	if (argc < 4 ||
	    (!ram && strcmp(argv[1], "shared") != 0 && strcmp(argv[1], "own") != 0))
		return false;
	c->argv = argv + 3;
	c->opens.shared = ram || strcmp(argv[1], "shared") == 0;
	c->opens.ram = ram ? (int)strtol(argv[1] + 4, NULL, 10) : -1;
	c->opens.kvm = strcmp(argv[2], "-") == 0 ? -1 : (int)strtol(argv[2], NULL, 10);
	c->opens.listener = -1;
	return (c->opens.kvm < 0 || c->opens.kvm > CONSOLE) &&
	       (!ram || c->opens.ram > CONSOLE);
}

int main(int argc, char **argv)
{
	struct child c = {0};
	int console = CONSOLE, errors = -1, pid, ended;

	leave_caller();
	pid = parse(&c, argc, argv) ? start(&c, &errors) : -1;
	ended = pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
	if (ended < 0)
		return 2;
	for (;;) {
		struct pollfd p[] = {
			{.fd = LIFELINE,         .events = POLLIN},
			{.fd = ended,            .events = POLLIN},
			{.fd = console,          .events = POLLIN},
			{.fd = errors,           .events = POLLIN},
			{.fd = c.opens.listener, .events = POLLIN},
		};
		char ask;

		if (poll(p, ARRAY_LEN(p), -1) < 0)
			continue;
		if (p[1].revents) {
			report_end(pid, errors);
			return 0;
		}
		if (p[0].revents && recv(LIFELINE, &ask, 1, 0) <= 0)
			return 0; /* nobody needs us: the kernel ends the rest */
		if (p[0].revents)
			tell("running");
		if (p[4].revents & POLLIN)
			vmm_open_answer(&c.opens);
		else if (p[4].revents)
			close_fd(&c.opens.listener);
		if (p[2].revents && !take_console(CONSOLE))
			console = -1;
		if (p[3].revents && !take_console(errors))
			close_fd(&errors);
	}
}
