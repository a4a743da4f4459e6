/* SPDX-License-Identifier: Apache-2.0 */
/* setup - SETUP gives the place its name, time and randomness; SHUTDOWN ends it. */
#include "guest/guest.h"
#include "guest/machine.h"
#include "guest/request.h"

#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <linux/random.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>

#define SETUP_TAGS \
	(TAG(WIRE_A_HOSTNAME) | TAG(WIRE_A_TIME_NS) | TAG(WIRE_A_SEED) | \
	 TAG(WIRE_A_FLAGS) | TAG(WIRE_A_PATH) | TAG(WIRE_A_ENV) | TAG(WIRE_A_MOUNT) | \
	 TAG(WIRE_A_UID) | TAG(WIRE_A_GID) | TAG(WIRE_A_PIDS))
#define SETUP_FLAGS \
	(WIRE_SETUP_SET_CLOCK | WIRE_SETUP_MACHINE | WIRE_SETUP_CAPTURE | \
	 WIRE_SETUP_SWAP | WIRE_SETUP_DISK | WIRE_SETUP_PART)
#define SHUTDOWN_DEFAULT_MS 2000

void guest_seed(int random_fd, const void *bytes, size_t n)
{
	struct {
		int bits, size;
		uint8_t data[256];
	} pool = {.bits = (int)n * 8, .size = (int)n};

	if (random_fd < 0 || n > sizeof(pool.data))
		return; /* the kernel has its own; ours is in addition */
	memcpy(pool.data, bytes, n);
	if (ioctl(random_fd, RNDADDENTROPY, &pool) < 0)
		(void)!write(random_fd, bytes, n);
	/* Two machines restored from one template go separate ways from here on. */
	ioctl(random_fd, RNDRESEEDCRNG);
}

static void seed(const struct request *r)
{
	cleanup_fd int fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);

	guest_seed(fd, r->str[WIRE_A_SEED], r->count[WIRE_A_SEED]);
}

int guest_set_clock(uint64_t ns)
{
	struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	return clock_settime(CLOCK_REALTIME, &t);
}

int guest_make_dirs(struct guest *g, const struct request *r)
{
	for (char **p = r->list[WIRE_A_PATH]; *p; p++)
		if (**p != '/' || mkdir_p(*p, 0755) < 0)
			return violation(g, "a directory of SETUP cannot be made");
	return 0;
}

int machine_failed(struct guest *g, const char *what)
{
	snprintf(g->why, sizeof(g->why), "%.150s: %s", what, strerror(errno));
	return violation(g, g->why);
}

int on_setup(struct guest *g, const struct wire_frame *f)
{
	cleanup_request struct request r = {0};

	if (g->setup_done || g->any_request)
		return violation(g, "SETUP comes once, and first");
	g->setup_done = true;
	if (request_parse(&r, f, SETUP_TAGS) < 0)
		return violation(g, "malformed SETUP");
	if (r.num[WIRE_A_FLAGS] & ~(uint32_t)SETUP_FLAGS)
		return violation(g, "unknown flag of SETUP");
	/* Refused where the place has set the name already and left us no right to. */
	if (r.str[WIRE_A_HOSTNAME])
		(void)!sethostname(r.str[WIRE_A_HOSTNAME],
				   strlen(r.str[WIRE_A_HOSTNAME]));
	if ((r.num[WIRE_A_FLAGS] & WIRE_SETUP_SET_CLOCK) &&
	    (!request_has(&r, WIRE_A_TIME_NS) || guest_set_clock(r.time_ns) < 0))
		return violation(g, "the clock cannot be set");
	if (r.count[WIRE_A_SEED])
		seed(&r);
	if (r.num[WIRE_A_FLAGS] & WIRE_SETUP_MACHINE) {
		const char *what = machine_setup(&r);

		if (what)
			return machine_failed(g, what);
		g->user[0] = r.num[WIRE_A_UID];
		g->user[1] = r.num[WIRE_A_GID];
		g->machine = true;
	}
	if (guest_make_dirs(g, &r) < 0)
		return -EPROTO;
	for (char **p = r.list[WIRE_A_ENV]; *p; p++)
		if (!strchr(*p, '=') || **p == '=')
			return violation(g, "malformed ENV of SETUP");
	g->env = r.list[WIRE_A_ENV];
	g->env_arena = take_ptr(r.arena);
	return 0;
}

int on_shutdown(struct guest *g, const struct wire_frame *f)
{
	cleanup_request struct request r = {0};
	uint32_t ms = SHUTDOWN_DEFAULT_MS;

	if (request_parse(&r, f, TAG(WIRE_A_TIMEOUT_MS)) < 0)
		return violation(g, "malformed SHUTDOWN");
	if (request_has(&r, WIRE_A_TIMEOUT_MS))
		ms = r.num[WIRE_A_TIMEOUT_MS];
	g->shutdown = true;
	g->killed = false;
	g->shutdown_ms = now_ms() + ms + 1;
	proc_kill_all(g, SIGTERM);
	proc_kill_all(g, SIGCONT); /* what is stopped cannot end */
	guest_child_ended = 1;     /* there may be nothing to wait for */
	return 0;
}
