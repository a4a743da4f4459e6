/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes from a machine to the whole of the egress role's data path: its loop, its
 * connections (all of which the policy refuses, after having looked at what they send),
 * and DNS over datagrams and connections. Properties: no crash, no leak of connections or
 * descriptors, and the stream ends or goes on, but never hangs.
 */
#include "base/util.h"
#include "egress/conn.h"
#include "egress/lookup.h"
#include "fuzz.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

#define TURNS 12

static struct egress e;
static struct timer tick;
static int turns_left;

static void no_policy(void)
{
	static struct buf image = BUF_INIT(1u << 20);
	struct policy_source none = {0};
	struct cove_error err = {0};

	if (policy_compile(&none, &image, &err) < 0 ||
	    policy_open(&e.policy, image.data, image.len, &err) < 0)
		abort();
}

static void set_up(void)
{
	signal(SIGPIPE, SIG_IGN);
	e.log_fd = -1;
	e.log = (struct buf)BUF_INIT(1u << 16);
	if (loop_new(&e.loop) < 0 || names_new(&e.names, 64) < 0 ||
	    lookup_new(&e.lookup, e.loop) < 0 ||
	    lookup_configure(e.lookup, "127.0.0.53", "") < 0)
		abort();
	no_policy();
}

static void on_tick(struct timer *t)
{
	if (--turns_left <= 0 || !e.mux)
		loop_stop(e.loop);
	else
		timer_start(e.loop, t, 0, on_tick);
}

static void run(void)
{
	turns_left = TURNS;
	timer_start(e.loop, &tick, 0, on_tick);
	loop_run(e.loop);
	timer_stop(e.loop, &tick);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t none[NETMUX_NONCE];
	uint8_t hello[NETMUX_HELLO];
	int pair[2], lowest = fcntl(0, F_DUPFD_CLOEXEC, 0), after;

	if (!e.loop)
		set_up();
	close(lowest);
	lowest = fcntl(0, F_DUPFD_CLOEXEC, 0);
	close(lowest);
	e.limits = (struct egress_limits){
		.conns = 60, .undecided = 30, .inspected = 10, .refuse_ms = 0};
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) <
		    0 ||
	    egress_stream(&e, pair[0], none) < 0)
		abort();
	netmux_put_hello(hello, none);
	(void)!send(pair[1], hello, sizeof(hello), MSG_NOSIGNAL);
	for (size_t at = 0; at < size && e.mux; at += 60000) {
		(void)!send(pair[1], data + at, min_size(60000, size - at), MSG_NOSIGNAL);
		run();
	}
	egress_unlisten(&e);
	close(pair[1]);
	if (e.conns || e.n_conns || e.n_undecided || e.mux)
		abort();
	after = fcntl(0, F_DUPFD_CLOEXEC, 0);
	close(after);
	if (after != lowest)
		abort();
	return 0;
}
