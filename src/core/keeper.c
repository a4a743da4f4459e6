/* SPDX-License-Identifier: Apache-2.0 */
#include "core/keeper_impl.h"

#include "base/io.h"
#include "base/log.h"
#include "base/util.h"
#include "core/secret.h"
#include "spec/state.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>

#define STOP_GRACE_MS 5000
#define HELLO_MS 10000 /* for its first word */
#define REST_MAX 1000  /* reads, of what a guest left when it ended */

int64_t keeper_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- set-up --------------------------------------------------------------------- */

int keeper_watch(struct keeper *k, int fd, enum what what)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = (uint64_t)what << 32};

	return epoll_ctl(k->epfd, EPOLL_CTL_ADD, fd, &e) < 0 ? -errno : 0;
}

static int listen_socket(struct keeper *k, struct cove_error *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	mode_t old;

	k->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (k->listener < 0)
		return fail(err, COVE_EIO, errno, "socket");
	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/%s/s", k->store.run_fd,
		 k->box.name);
	unlink(a.sun_path); /* a dead keeper's; we hold the lock */
	old = umask(0177);
	int r = bind(k->listener, (struct sockaddr *)&a, sizeof(a));
	umask(old);
	if (r < 0 || listen(k->listener, 128) < 0)
		return fail(err, COVE_EIO, errno, "control socket");
	return keeper_watch(k, k->listener, W_LISTEN);
}

static int watch_signals(struct keeper *k)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	k->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	k->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (k->signals < 0 || k->timer < 0)
		return -errno;
	return keeper_watch(k, k->signals, W_SIGNAL) < 0
		       ? -errno
		       : keeper_watch(k, k->timer, W_TIMER);
}

static void guest_ready(struct keeper *k);

static void read_guest(void *owner)
{
	guest_ready(owner);
}

static int setup(struct keeper *k, const struct keeper_options *o, struct cove_error *err)
{
	struct spec spec;
	int r;

	if (store_open(&k->store, err) < 0 ||
	    store_load(&k->store, o->name, &spec, err) < 0)
		return err->code;
	if (o->state && restore_open(k, o->state, err) < 0) {
		spec_clear(&spec);
		return err->code;
	}
	k->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (k->epfd < 0 || watch_signals(k) < 0) {
		spec_clear(&spec);
		return fail(err, COVE_EIO, errno, "event loop");
	}
	r = box_start(&k->box, &k->store, o->name, &spec, false, o->degraded, err);
	restore_used(k);
	if (r < 0)
		return r;
	restore_adopt(k);
	r = conn_init(k, &k->guest, take_fd(&k->box.place.link), W_GUEST, 0);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "link");
	if (box_net_fd(&k->box) >= 0 && keeper_watch(k, box_net_fd(&k->box), W_NET) < 0)
		return fail(err, COVE_EIO, errno, "event loop");
	if (keeper_send_setup(k, err) < 0)
		return err->code;
	if (k->box.place.alarm >= 0 && keeper_watch(k, k->box.place.alarm, W_ALARM) < 0)
		return fail(err, COVE_EIO, errno, "event loop");
	k->pulse.limit_ms = k->box.place.silence_ms;
	k->box.owner = k;
	k->box.owner_reads = read_guest;
	k->idle_since = keeper_now();
	if (k->box.spec.resources.ttl_ms)
		k->ttl_at = k->idle_since + (int64_t)k->box.spec.resources.ttl_ms;
	return listen_socket(k, err);
}

/* One that has a SETUP to do answers when that is done; what failed it says by BYE. */
static int first_frames(struct keeper *k, bool *ret_up, struct cove_error *err)
{
	struct wire_frame f;
	int r = 0;

	while ((r = link_next(&k->guest.link, &f)) > 0) {
		*ret_up = *ret_up || f.type == WIRE_PONG;
		if (f.type == WIRE_BYE && relay_from_guest(k, &f) == 0)
			return fail(err, COVE_EGONE, 0, "the guest: %s", k->reason);
	}
	/* the link keeps a HELLO for itself */
	*ret_up = *ret_up || (k->guest.link.hello_seen && !k->box.place.backend->setup);
	return r;
}

/* The start counts only when the guest has answered: the link is up, not just the
 * process. */
static int wait_up(struct keeper *k, struct cove_error *err)
{
	uint32_t may_take = k->box.place.up_ms;
	int64_t until = keeper_now() + (may_take ? may_take : HELLO_MS);
	bool up = false;
	int r = 0;

	if (k->box.place.backend->setup)
		r = conn_send(&k->guest, WIRE_PING, 0, 0, NULL, 0);
	while (r >= 0 && keeper_now() < until && !up) {
		struct epoll_event e;

		r = conn_flush(&k->guest);
		if (r < 0 || epoll_wait(k->epfd, &e, 1, 1000) <= 0)
			continue;
		if (e.data.u64 >> 32 == W_ALARM)
			r = -EPIPE;
		else if (e.data.u64 >> 32 == W_GUEST)
			r = link_fill(&k->guest.link);
		if (first_frames(k, &up, err) < 0)
			r = -EPIPE;
	}
	if (!up && !err->code)
		box_explain(&k->box, PLACE_NOT_UP, err);
	return up ? 0 : err->code;
}

/* ---- life ----------------------------------------------------------------------- */

void keeper_stop(struct keeper *k, uint32_t grace_ms, const char *why)
{
	uint8_t payload[16];
	struct wire_out o;

	if (!k->reason[0])
		snprintf(k->reason, sizeof(k->reason), "%s", why);
	keeper_thaw(k);
	keeper_unpause(k);
	k->kill_at = keeper_now() + grace_ms + 1000;
	if (grace_ms)
		k->kill_at += k->box.place.sync_ms;
	if (k->stopping && grace_ms)
		return;
	k->stopping = true;
	wire_out_init(&o, payload, sizeof(payload));
	wire_put_u32(&o, WIRE_A_TIMEOUT_MS, grace_ms);
	if (conn_send(&k->guest, WIRE_SHUTDOWN, 0, 0, payload, o.len) < 0)
		k->ending = true;
}

void client_drop(struct client *c)
{
	c->dead = true;
}

int keeper_add_client(struct keeper *k, int fd, bool own)
{
	struct client *c;
	unsigned n = 0;

	for (c = k->clients; c; c = c->next)
		n++;
	c = n < CLIENTS_MAX || own ? calloc(1, sizeof(*c)) : NULL;
	if (!c) {
		close(fd);
		return -ENOMEM;
	}
	c->key = ++k->next_key;
	c->own = own;
	if (conn_init(k, &c->conn, fd, W_CLIENT, c->key) < 0)
		c->dead = true;
	c->next = k->clients;
	k->clients = c;
	return 0;
}

static void accept_client(struct keeper *k)
{
	int fd = accept4(k->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0)
		keeper_add_client(k, fd, false);
}

static void client_ready(struct keeper *k, struct client *c)
{
	struct wire_frame f;
	int r = link_fill(&c->conn.link), more = 0;

	while (!c->dead && (more = link_next(&c->conn.link, &f)) > 0)
		relay_from_client(k, c, &f);
	if (more < 0 || r < 0)
		c->dead = true;
}

/* It is gone, or as good as; who ended it on purpose has said so before. */
void keeper_lost(struct keeper *k, enum place_trouble t)
{
	struct cove_error why = {0};

	k->ending = true;
	if (k->reason[0])
		return;
	box_explain(&k->box, t, &why);
	snprintf(k->reason, sizeof(k->reason), "%.199s", why.msg);
	snprintf(k->tip, sizeof(k->tip), "%s", why.hint);
}

static void guest_ready(struct keeper *k)
{
	struct wire_frame f;
	int r = link_fill(&k->guest.link), more = 0, bad = 0;

	if (r > 0)
		pulse_heard(&k->pulse);
	while (!bad && (more = link_next(&k->guest.link, &f)) > 0)
		bad = relay_from_guest(k, &f);
	if (bad < 0 || more < 0) {
		snprintf(k->reason, sizeof(k->reason), "the guest broke the protocol");
		k->ending = true;
	} else if (r < 0) {
		keeper_lost(k, PLACE_ENDED);
	}
}

/* A part of its place has ended. What the guest said before comes first. */
static void place_ended(struct keeper *k)
{
	struct pollfd p = {.fd = k->guest.fd, .events = POLLIN};

	for (int i = 0; !k->ending && i < REST_MAX && poll(&p, 1, 0) > 0; i++)
		guest_ready(k);
	keeper_lost(k, PLACE_ENDED);
}

/* A command that runs, or a frame that it has not taken: a guest that is well answers. */
static bool owes_answer(const struct keeper *k)
{
	return !k->freezer && !k->paused && k->still == STILL_RUNS &&
	       k->saving.step == SAVE_NOT &&
	       (routes_running(k) || k->main.running || link_pending(&k->guest.link));
}

static void feel_pulse(struct keeper *k)
{
	switch (pulse_turn(&k->pulse, keeper_now(), owes_answer(k))) {
	case PULSE_WELL:
		break;
	case PULSE_ASK:
		if (conn_send(&k->guest, WIRE_PING, 0, 0, NULL, 0) < 0)
			k->ending = true;
		break;
	case PULSE_LOST:
		keeper_lost(k, PLACE_SILENT);
		break;
	}
}

/* Only what runs counts: a client that asks (cove ls, stats) keeps nothing awake. */
static bool is_idle(const struct keeper *k)
{
	return routes_running(k) == 0 && !k->main.running && !k->paused;
}

/* One timer for everything: the next moment at which something is due. */
static void arm_timer(struct keeper *k)
{
	int64_t next = 0, idle = (int64_t)k->box.spec.resources.idle_ms;
	struct itimerspec t = {0};
	int64_t due[8] = {k->going_at,
			  k->ttl_at,
			  k->pulse.due_ms,
			  k->kill_at,
			  k->thaw_at,
			  keeper_audit_due(k),
			  idle && k->idle_since ? k->idle_since + idle : 0,
			  k->box.disk.next_ms};

	for (size_t i = 0; i < ARRAY_LEN(due); i++)
		if (due[i] && (!next || due[i] < next))
			next = due[i];
	t.it_value.tv_sec = next / 1000;
	t.it_value.tv_nsec = next % 1000 * 1000000;
	timerfd_settime(k->timer, TFD_TIMER_ABSTIME, &t, NULL);
}

static void check_time(struct keeper *k)
{
	int64_t now = keeper_now(), idle = (int64_t)k->box.spec.resources.idle_ms;
	int64_t next;
	uint64_t n;

	if (read(k->timer, &n, sizeof(n)) < 0)
		return;
	if (k->thaw_at && now >= k->thaw_at)
		keeper_thaw(k);
	if (k->going_at && now >= k->going_at)
		keeper_going(k);
	if (box_check_disk(&k->box, now, &next)) {
		snprintf(k->reason, sizeof(k->reason), DISK_REASON);
		k->ending = true;
	} else if (k->kill_at && now >= k->kill_at) {
		k->box.place.backend->kill(&k->box.place);
		k->ending = true;
	} else if (k->ttl_at && now >= k->ttl_at) {
		k->ttl_at = 0;
		keeper_stop(k, STOP_GRACE_MS, "its time (ttl) is up");
	} else if (idle && k->idle_since && now >= k->idle_since + idle) {
		keeper_stop(k, STOP_GRACE_MS, "idle");
	}
}

static struct client *find_client(struct keeper *k, uint32_t key)
{
	for (struct client *c = k->clients; c; c = c->next)
		if (c->key == key && !c->dead)
			return c;
	return NULL;
}

static void handle(struct keeper *k, const struct epoll_event *e)
{
	struct client *c;
	struct signalfd_siginfo si;

	switch ((enum what)(e->data.u64 >> 32)) {
	case W_LISTEN:
		accept_client(k);
		break;
	case W_GUEST:
		if (e->events & (EPOLLIN | EPOLLHUP | EPOLLERR))
			guest_ready(k);
		break;
	case W_ALARM:
		place_ended(k);
		break;
	case W_SIGNAL:
		if (read(k->signals, &si, sizeof(si)) != sizeof(si))
			break;
		if (si.ssi_signo == SIGHUP)
			keeper_net_hangup(k);
		else
			keeper_stop(k, STOP_GRACE_MS, "the keeper got a signal");
		break;
	case W_TIMER:
		check_time(k);
		break;
	case W_AUDIT:
		keeper_audit_ready(k, (uint32_t)e->data.u64);
		break;
	case W_NET:
		box_net_turn(&k->box);
		break;
	case W_PORTS:
		keeper_ports_turn(k);
		break;
	case W_CLIENT:
		c = find_client(k, (uint32_t)e->data.u64);
		if (c && (e->events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
			client_ready(k, c);
		break;
	}
}

/* Dead clients leave here and nowhere else: no event of the batch can still point at one.
 */
static void sweep_clients(struct keeper *k)
{
	struct client **p = &k->clients;

	while (*p) {
		struct client *c = *p;

		if (!c->dead && conn_flush(&c->conn) < 0)
			c->dead = true;
		if (!c->dead) {
			conn_watch(k, &c->conn, W_CLIENT, c->key);
			p = &c->next;
			continue;
		}
		*p = c->next;
		relay_client_gone(k, c);
		conn_clear(k, &c->conn);
		free(c);
	}
}

static void loop(struct keeper *k)
{
	while (!k->ending) {
		struct epoll_event ev[32];
		int n;

		sweep_clients(k);
		if (conn_flush(&k->guest) < 0)
			break;
		conn_watch(k, &k->guest, W_GUEST, 0);
		if (!is_idle(k))
			k->idle_since = 0;
		else if (!k->idle_since)
			k->idle_since = keeper_now();
		keeper_audit_turn(k);
		feel_pulse(k);
		if (k->ending)
			break;
		arm_timer(k);
		n = epoll_wait(k->epfd, ev, 32, -1);
		for (int i = 0; i < n && !k->ending; i++)
			handle(k, &ev[i]);
	}
}

/* ---- end ------------------------------------------------------------------------ */

static void say_goodbye(struct keeper *k)
{
	char text[sizeof(k->reason) + sizeof(k->tip) + 1];
	int n = snprintf(text, sizeof(text), "%s%s%s", k->reason, k->tip[0] ? "\n" : "",
			 k->tip);

	for (struct client *c = k->clients; c; c = c->next) {
		conn_send(&c->conn, WIRE_BYE, 0, 0, text, (size_t)n);
		conn_flush(&c->conn);
	}
	while (k->clients) {
		struct client *c = k->clients;

		k->clients = c->next;
		conn_clear(k, &c->conn);
		free(c);
	}
}

/* What whoever starts us should hear before the outcome: "!LEVEL text". */
static void pass_notice(void *arg, int level, const char *line)
{
	const int *fd = arg;
	char text[600];
	int n = snprintf(text, sizeof(text), "!%d %.510s\n", level, line);

	for (int i = 0; i < n - 1; i++)
		if (text[i] == '\n')
			text[i] = ' ';
	write_all(*fd, text, (size_t)n);
}

static void report(int fd, int code, const struct cove_error *err)
{
	char text[1100];

	log_set(NULL, NULL);
	if (code == 0)
		snprintf(text, sizeof(text), "ok");
	else
		snprintf(text, sizeof(text), "%d %d\n%s\n%s\n", err->code, err->sys,
			 err->msg, err->hint);
	write_all(fd, text, strlen(text));
	close(fd);
}

/* The reason, for whoever looks later ('cove inspect'). */
static void note_end(struct keeper *k)
{
	struct state st = {.started_at = k->box.started_at, .ended_at = time(NULL)};
	char *text;
	cleanup_fd int dir =
		openat(k->store.boxes, k->box.name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	snprintf(st.reason, sizeof(st.reason), "%s", k->reason);
	snprintf(st.hint, sizeof(st.hint), "%s", k->tip);
	text = state_print(&st);
	if (text && dir >= 0)
		write_file_atomic(dir, "state.json", text, strlen(text), 0600, 0);
	free(text);
}

int keeper_run(const struct keeper_options *o)
{
	struct keeper *k = calloc(1, sizeof(*k));
	struct cove_error err = {0};
	int secrets = o->secrets;
	uint64_t changes;
	int r;

	if (!k)
		return 1;
	k->store = (struct store){.boxes = -1, .run_fd = -1};
	k->epfd = k->listener = k->signals = k->timer = k->guest.fd = k->main.log = -1;
	k->box.lock = -1;
	buf_init(&k->main.in, 16u << 20);
	buf_init(&k->main.exit_payload, WIRE_PAYLOAD_MAX);
	spec_init(&k->box.spec);
	log_set(pass_notice, (void *)(uintptr_t)&o->report);
	r = secrets < 0 ? 0 : secrets_receive(&k->box.secrets, secrets, &err);
	close_fd(&secrets);
	if (r == 0)
		r = setup(k, o, &err);
	if (r == 0)
		r = wait_up(k, &err);
	if (r == 0)
		r = keeper_write_secrets(k, &err);
	if (r == 0)
		r = keeper_audit_start(k, &err);
	if (r == 0)
		r = keeper_ports_start(k, &err);
	/* Only now: until its exec the sandbox's child shared our memory, and with it
	 * this flag, and could not have written its own id maps. */
	prctl(PR_SET_DUMPABLE, 0);
	report(o->report, r, &err);
	if (r == 0) {
		keeper_net_start(k);
		loop(k);
		keeper_net_stop(k);
		keeper_audit_stop(k);
		note_end(k);
	} else if (k->audit) { /* it had started, and could not go on */
		snprintf(k->reason, sizeof(k->reason), "%.199s", err.msg);
		keeper_audit_stop(k);
	}
	keeper_ports_stop(k);
	restore_clear(k);
	close_fd(&k->listener); /* first: who comes now is to find nobody, not a dying one
				 */
	say_goodbye(k);
	main_clear(k);
	conn_clear(k, &k->guest);
	box_end(&k->box, &changes, &err);
	store_close(&k->store);
	close_fd(&k->signals);
	close_fd(&k->timer);
	close_fd(&k->epfd);
	free(k);
	return r < 0;
}
