/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quiet - around a save of the machine's memory.
 *
 * Theory of operation. What is on its way between us and the host when a machine is saved
 * is in neither: half a frame would be lost for whoever goes on from there. So the host
 * asks for silence first (QUIESCE), and from our answer on nothing is on its way: the
 * link is empty and at the beginning of a frame in both directions, and so is the stream
 * of FUSE messages (fusepump_pause). Processes that need a file wait; others run until
 * the host stops the machine. With RESUME everything goes on; if it says that this is
 * another life, first with a clock, a random state, a boot id and a name of its own, and
 * without the
 * streams of clients that are not there any more.
 *
 * While we are quiet we must not look up a path: that could be a request for a file. So
 * what RESUME needs is opened before.
 *
 * No process may use the kernel's random state between the first instruction of a new
 * life and RESUME: two lives would draw the same numbers. So until then a thread of ours
 * on each processor keeps every process of an ordinary priority from running. A template
 * has no process yet (WIRE_QUIESCE_ALONE), and nothing to keep.
 */
#include "guest/fusepump.h"
#include "guest/guest.h"
#include "guest/machine.h"
#include "guest/machine_disk.h"
#include "guest/machine_root.h"
#include "guest/machine_tasks.h"
#include "guest/request.h"

#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/random.h>

#define PAUSE_MS 3000 /* for the host to answer what was asked of it before */
#define RESUME_TAGS \
	(TAG(WIRE_A_FLAGS) | TAG(WIRE_A_TIME_NS) | TAG(WIRE_A_SEED) | \
	 TAG(WIRE_A_HOSTNAME) | TAG(WIRE_A_ENV) | TAG(WIRE_A_NONCE) | \
	 TAG(WIRE_A_STREAM) | TAG(WIRE_A_PIDS) | TAG(WIRE_A_MOUNT) | TAG(WIRE_A_PATH))
#define RESUME_FLAGS \
	(WIRE_RESUME_RESTORED | WIRE_RESUME_BEGIN | WIRE_RESUME_CAPTURE | \
	 WIRE_RESUME_SWAP | WIRE_RESUME_OTHER)
#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define UUID_TEXT 38 /* 36, a newline, and the end */
#define SPINNERS_MAX 64
#define SPINNER_STACK (64u * 1024)

struct quiet {
	int random_fd;
	atomic_bool over;
	pthread_t spinner[SPINNERS_MAX];
	size_t n_spinners;
};

static int boot_id = -1; /* the file that covers the kernel's, once there is one */

/* ---- nobody else runs ----------------------------------------------------------- */

static void *spin(void *arg)
{
	struct quiet *q = arg;

	while (!atomic_load_explicit(&q->over, memory_order_acquire))
		;
	return NULL;
}

static int start_spinner(struct quiet *q, int cpu)
{
	struct sched_param low = {.sched_priority = 1};
	pthread_attr_t a;
	cpu_set_t one;
	int r;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, SPINNER_STACK);
	pthread_attr_setinheritsched(&a, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&a, SCHED_FIFO);
	pthread_attr_setschedparam(&a, &low);
	r = pthread_create(&q->spinner[q->n_spinners], &a, spin, q);
	pthread_attr_destroy(&a);
	if (r)
		return -r;
	pthread_setaffinity_np(q->spinner[q->n_spinners++], sizeof(one), &one);
	return 0;
}

static void stop_spinners(struct quiet *q)
{
	struct sched_param none = {0};

	atomic_store_explicit(&q->over, true, memory_order_release);
	for (size_t i = 0; i < q->n_spinners; i++)
		pthread_join(q->spinner[i], NULL);
	q->n_spinners = 0;
	pthread_setschedparam(pthread_self(), SCHED_OTHER, &none);
}

/* We stay above our own spinners, so that RESUME is heard. */
static int start_spinners(struct quiet *q)
{
	struct sched_param high = {.sched_priority = 10};
	cpu_set_t all;
	int r;

	if (sched_getaffinity(0, sizeof(all), &all) < 0)
		return -errno;
	r = -pthread_setschedparam(pthread_self(), SCHED_FIFO, &high);
	for (int cpu = 0; r == 0 && cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all))
			r = q->n_spinners == SPINNERS_MAX ? -E2BIG
							  : start_spinner(q, cpu);
	if (r < 0)
		stop_spinners(q);
	return r;
}

/* ---- the boot id ---------------------------------------------------------------- */

/* Version 4: random but for what says so. */
static void make_uuid(char out[UUID_TEXT])
{
	static const uint8_t groups[] = {4, 2, 2, 2, 6}; /* bytes */
	const uint8_t *p;
	uint8_t b[16];

	if (getrandom(b, sizeof(b), 0) != sizeof(b))
		memset(b, 0, sizeof(b));
	b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
	b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
	p = b;
	for (size_t i = 0; i < sizeof(groups); p += groups[i++]) {
		hex_text(out, p, groups[i]);
		out += 2 * groups[i];
		*out++ = i + 1 < sizeof(groups) ? '-' : '\n';
	}
	*out = '\0';
}

/* Over the kernel's own there is a file of ours, which shows the same until there is
 * another life. Made while paths may be looked up, and as root: file operations are the
 * user's otherwise. */
static void cover_boot_id(void)
{
	static const char file[] = "/dev/.boot_id";
	int old = setfsuid(0);
	char text[UUID_TEXT] = "";
	cleanup_fd int from = open(BOOT_ID, O_RDONLY | O_CLOEXEC);
	cleanup_fd int fd = -1;

	unlink(file);
	fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	if (from >= 0 && fd >= 0 && read(from, text, UUID_TEXT - 1) == UUID_TEXT - 1 &&
	    write_all(fd, text, UUID_TEXT - 1) == 0 &&
	    mount(file, BOOT_ID, NULL, MS_BIND, NULL) == 0 &&
	    mount(NULL, BOOT_ID, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) == 0)
		boot_id = take_fd(&fd);
	unlink(file);
	setfsuid((uid_t)old);
}

/* The kernel makes one for each boot, and keeps it: two lives of one boot would share it.
 */
static int fresh_boot_id(void)
{
	char text[UUID_TEXT];

	make_uuid(text);
	return pwrite(boot_id, text, UUID_TEXT - 1, 0) == UUID_TEXT - 1 ? 0 : -1;
}

/* ---- silence -------------------------------------------------------------------- */

static void quiet_free(struct quiet *q)
{
	if (q)
		close_fd(&q->random_fd);
	free(q);
}

static int become_quiet(struct guest *g, bool alone)
{
	struct quiet *q = calloc(1, sizeof(*q));
	int r;

	if (!q)
		return -ENOMEM;
	/* A copy without the memory has what is on the disk, and no more. */
	machine_disk_sync();
	if (boot_id < 0)
		cover_boot_id();
	q->random_fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);
	r = q->random_fd < 0 ? -errno : boot_id < 0 ? -EIO : fusepump_pause(PAUSE_MS);
	if (r == 0 && !alone) {
		r = start_spinners(q);
		if (r < 0)
			fusepump_resume();
	}
	if (r < 0) {
		quiet_free(q);
		return r;
	}
	g->quiet = q;
	g->link.hello_seen = false; /* the next connection may be another's */
	return 0;
}

int on_quiesce(struct guest *g, const struct wire_frame *f)
{
	cleanup_request struct request r = {0};
	uint8_t payload[16];
	struct wire_out o;
	bool alone;

	if (!g->machine)
		return violation(g, "QUIESCE to something that is no machine");
	if (request_parse(&r, f, TAG(WIRE_A_FLAGS)) < 0 ||
	    r.num[WIRE_A_FLAGS] & ~(uint32_t)WIRE_QUIESCE_ALONE)
		return violation(g, "malformed QUIESCE");
	alone = r.num[WIRE_A_FLAGS] & WIRE_QUIESCE_ALONE;
	wire_out_init(&o, payload, sizeof(payload));
	wire_put_u32(&o, WIRE_A_ERRNO, (uint32_t)-become_quiet(g, alone));
	send_frame(g, WIRE_QUIET, 0, 0, payload, o.len);
	return 0;
}

/* ---- going on ------------------------------------------------------------------- */

static void make_orphan(struct stream *s)
{
	s->orphan = true;
	for (int i = 0; i < 2; i++)
		s->out[i].drop = true;
}

static void begin_anew(struct stream *s)
{
	flow_init(&s->in.flow);
	for (int i = 0; i < 2; i++)
		flow_init(&s->out[i].flow);
}

/* The clients of another life are not there any more. */
static void drop_streams(struct guest *g, uint32_t keep)
{
	for (size_t i = 0; i < BUCKETS; i++) {
		struct stream *s = g->bucket[i], *next;

		for (; s; s = next) {
			bool lives = s->ops == &proc_ops && !s->closed;

			next = s->next;
			if (lives && s->id == keep && !s->peer_closed && !s->orphan)
				begin_anew(s);
			else if (lives)
				make_orphan(s);
			else
				stream_free(g, s);
		}
	}
}

static int new_life(struct guest *g, struct request *r)
{
	const char *what = NULL;

	if (r->count[WIRE_A_SEED])
		guest_seed(g->quiet->random_fd, r->str[WIRE_A_SEED],
			   r->count[WIRE_A_SEED]);
	if (fresh_boot_id() < 0)
		return violation(g, "the boot id cannot be set");
	if (r->num[WIRE_A_FLAGS] & WIRE_RESUME_OTHER && machine_root_rename() < 0)
		return violation(g, "the machine id cannot be set");
	if (request_has(r, WIRE_A_TIME_NS) && guest_set_clock(r->time_ns) < 0)
		return violation(g, "the clock cannot be set");
	if (r->str[WIRE_A_HOSTNAME])
		(void)!sethostname(r->str[WIRE_A_HOSTNAME],
				   strlen(r->str[WIRE_A_HOSTNAME]));
	drop_streams(g, r->num[WIRE_A_STREAM]);
	if (r->count[WIRE_A_NONCE])
		what = machine_reconnect((const uint8_t *)r->str[WIRE_A_NONCE],
					 r->count[WIRE_A_NONCE]);
	if (what)
		return violation(g, what);
	free(g->env_arena);
	g->env = r->list[WIRE_A_ENV];
	g->env_arena = take_ptr(r->arena);
	return 0;
}

/* The first life of what was a template: the rest of its SETUP. */
static int begin(struct guest *g, const struct request *r)
{
	uint32_t flags = r->num[WIRE_A_FLAGS];
	const char *what =
		machine_finish(r, g->user, r->list[WIRE_A_MOUNT],
			       (flags & WIRE_RESUME_CAPTURE ? WIRE_SETUP_CAPTURE : 0) |
				       (flags & WIRE_RESUME_SWAP ? WIRE_SETUP_SWAP : 0));

	return what ? machine_failed(g, what) : guest_make_dirs(g, r);
}

/* What looks up paths; and only now do all threads count that will be there. */
static int go_on(struct guest *g, const struct request *r)
{
	if (r->num[WIRE_A_FLAGS] & WIRE_RESUME_BEGIN)
		return begin(g, r);
	if (machine_tasks_limit(r->num[WIRE_A_PIDS]) < 0)
		return violation(g, "limit of processes");
	return 0;
}

int on_resume(struct guest *g, const struct wire_frame *f)
{
	cleanup_request struct request r = {0};
	struct quiet *q = g->quiet;
	bool restored;
	int e = 0;

	if (request_parse(&r, f, RESUME_TAGS) < 0 ||
	    r.num[WIRE_A_FLAGS] & ~(uint32_t)RESUME_FLAGS)
		return violation(g, "malformed RESUME");
	restored = r.num[WIRE_A_FLAGS] & WIRE_RESUME_RESTORED;
	if (!restored && r.num[WIRE_A_FLAGS])
		return violation(g, "flags of RESUME that are for another life");
	link_hello(&g->link);
	if (restored)
		e = new_life(g, &r);
	g->quiet = NULL;
	fusepump_resume();
	if (q->n_spinners)
		stop_spinners(q);
	quiet_free(q);
	return e == 0 && restored ? go_on(g, &r) : e;
}
