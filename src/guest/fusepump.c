/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/fusepump.h"

#include "guest/fusehear.h"
#include "guest/fusewindow.h"

#include "base/fusemsg.h"
#include "base/io.h"
#include "base/util.h"

#include <linux/fuse.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/uio.h>
#include <time.h>

#define THREAD_STACK (64u * 1024)
#define PORT_PIECE 4096u /* the driver of the port hands out no more in one piece */
#define PIECES_MAX (FUSEMSG_MAX / PORT_PIECE + 1)
#define WAKE SIGRTMIN /* makes a blocked read() of `out` return; does nothing else */

struct notice {
	struct notice *next;
	size_t len;
	uint8_t data[];
};

static struct pump {
	int fuse, port;
	pthread_t out, tell;
	/* Messages to the port are whole. `in` never takes it: answers come in while a
	 * request waits to go out, or both sides could wait for each other. */
	pthread_mutex_t writing;
	pthread_mutex_t lock; /* of everything below */
	pthread_cond_t change;
	struct notice *first, **last; /* for `tell` */
	unsigned n_notices;           /* including the one being delivered */
	unsigned unanswered;
	bool paused, done, out_done;
} pump = {
	.fuse = -1,
	.port = -1,
	.writing = PTHREAD_MUTEX_INITIALIZER,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.change = PTHREAD_COND_INITIALIZER,
};

/* ---- from the kernel to the host -----------------------------------------------------
 */

static bool wants_answer(uint32_t opcode)
{
	return opcode != FUSE_FORGET && opcode != FUSE_BATCH_FORGET &&
	       opcode != FUSE_INTERRUPT;
}

static int write_port(const void *msg, size_t n)
{
	int r;

	pthread_mutex_lock(&pump.writing);
	r = write_all(pump.port, msg, n);
	pthread_mutex_unlock(&pump.writing);
	return r;
}

static int send_request(uint8_t *msg, size_t n)
{
	const struct fuse_in_header *h = (const void *)msg;
	bool done;

	pthread_mutex_lock(&pump.lock);
	while (pump.paused && !pump.done)
		pthread_cond_wait(&pump.change, &pump.lock);
	pump.unanswered += wants_answer(h->opcode);
	done = pump.done;
	pthread_mutex_unlock(&pump.lock);
	if (done)
		return -EPIPE;
	window_request(msg, n);
	return write_port(msg, n);
}

/* Attributes that mean nothing here, but are asked for before the first write to every
 * file (file capabilities; the mount is nosuid), and by ls -l, which asks no more once it
 * has heard that there are none. */
static bool is_foreign_xattr(const uint8_t *msg, size_t n)
{
	static const char *const prefixes[] = {"security.", "system.posix_acl_"};
	const size_t fixed =
		sizeof(struct fuse_in_header) + sizeof(struct fuse_getxattr_in);

	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
		size_t len = strlen(prefixes[i]);

		if (n > fixed + len && memcmp(msg + fixed, prefixes[i], len) == 0)
			return true;
	}
	return false;
}

/* What needs no server is answered here: the way to it is several times as long. RELEASE
 * of what was created: nothing is open there (fs/fs.h). */
static bool local_answer(const uint8_t *msg, size_t n, int32_t *ret_error)
{
	const struct fuse_in_header *h = (const void *)msg;

	switch (h->opcode) {
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
		*ret_error = 0;
		return true;
	case FUSE_GETXATTR:
		*ret_error = -EOPNOTSUPP;
		return is_foreign_xattr(msg, n);
	default:
		return false;
	}
}

static int answer_request(const void *answer, size_t n)
{
	return write(pump.fuse, answer, n) < 0 && errno == ENODEV ? -ENODEV : 0;
}

static int take_request(uint8_t *msg, size_t n)
{
	const struct fuse_in_header *h = (const void *)msg;
	struct fuse_out_header answer = {.len = sizeof(answer), .unique = h->unique};
	uint8_t own[HEAR_ANSWER_MAX];
	size_t len = hear_request(msg, &n, own);

	if (len)
		return answer_request(own, len);
	return local_answer(msg, n, &answer.error)
		       ? answer_request(&answer, sizeof(answer))
		       : send_request(msg, n);
}

static void *run_out(void *buf)
{
	int r = 0;

	while (r == 0) {
		ssize_t n = read(pump.fuse, buf, FUSEMSG_MAX);

		if (n >= (ssize_t)sizeof(struct fuse_in_header))
			r = take_request(buf, (size_t)n);
		else if (n < 0 && (errno == EINTR || errno == ENOENT || errno == EAGAIN))
			r = pump.done ? -EPIPE : 0; /* ENOENT: it was interrupted */
		else
			r = -EIO; /* ENODEV: unmounted */
	}
	pthread_mutex_lock(&pump.lock);
	pump.out_done = true;
	pthread_cond_broadcast(&pump.change);
	pthread_mutex_unlock(&pump.lock);
	free(buf);
	return NULL;
}

/* ---- notifications -------------------------------------------------------------------
 */

/* The next one to deliver; NULL: the end. */
static struct notice *take_notice(void)
{
	struct notice *n;

	pthread_mutex_lock(&pump.lock);
	while (!pump.first && !pump.done)
		pthread_cond_wait(&pump.change, &pump.lock);
	n = pump.done ? NULL : pump.first;
	if (n) {
		pump.first = n->next;
		if (!pump.first)
			pump.last = &pump.first;
	}
	pthread_mutex_unlock(&pump.lock);
	return n;
}

static void *run_tell(void *arg)
{
	struct fuse_in_header told = {.len = sizeof(told), .opcode = FUSEMSG_TOLD};
	struct notice *n;

	(void)arg;
	while ((n = take_notice())) {
		/* What the kernel does not know (ENOENT) needs no telling. */
		if (!hear_take(n->data, n->len) && write(pump.fuse, n->data, n->len) < 0)
			errno = 0;
		free(n);
		write_port(&told, sizeof(told));
		pthread_mutex_lock(&pump.lock);
		pump.n_notices--;
		pthread_cond_broadcast(&pump.change);
		pthread_mutex_unlock(&pump.lock);
	}
	return NULL;
}

static int queue_notice(const uint8_t *msg, size_t len)
{
	struct notice *n = malloc(sizeof(*n) + len);
	int r = 0;

	if (!n)
		return -ENOMEM;
	*n = (struct notice){.len = len};
	memcpy(n->data, msg, len);
	pthread_mutex_lock(&pump.lock);
	/* One may be told to the host already and still be counted: see run_tell(). */
	if (pump.n_notices <= FUSEMSG_TOLD_MAX) {
		*pump.last = n;
		pump.last = &n->next;
		pump.n_notices++;
		pthread_cond_broadcast(&pump.change);
	} else {
		r = -EPROTO;
		free(n);
	}
	pthread_mutex_unlock(&pump.lock);
	return r;
}

/* ---- from the host to the kernel -----------------------------------------------------
 */

static int deliver(uint8_t *msg, size_t n)
{
	struct fuse_out_header h;
	struct iovec v[2];

	memcpy(&h, msg, sizeof(h));
	if (h.unique == 0)
		return queue_notice(msg, n);
	/* ENOENT: whoever asked was interrupted and does not wait any more. */
	if (writev(pump.fuse, v, window_answer(msg, n, v)) < 0 && errno == ENODEV)
		return -ENODEV;
	pthread_mutex_lock(&pump.lock);
	pump.unanswered -= pump.unanswered > 0;
	if (pump.paused)
		pthread_cond_broadcast(&pump.change);
	pthread_mutex_unlock(&pump.lock);
	return 0;
}

/* Delivers every whole message of the n bytes; returns how many bytes that were. */
static ssize_t deliver_all(uint8_t *p, size_t n)
{
	size_t at = 0;

	while (n - at >= sizeof(struct fuse_out_header)) {
		uint32_t len;
		int r;

		memcpy(&len, p + at, sizeof(len));
		if (len < sizeof(struct fuse_out_header) || len > FUSEMSG_MAX)
			return -EPROTO;
		if (len > n - at)
			break;
		r = deliver(p + at, len);
		if (r < 0)
			return r;
		at += len;
	}
	return (ssize_t)at;
}

/* The end: no thread is left inside the kernel when /dev/fuse is closed. */
static void finish(void)
{
	struct timespec soon;

	hear_stop();
	pthread_mutex_lock(&pump.lock);
	pump.done = true;
	pthread_cond_broadcast(&pump.change);
	while (!pump.out_done) {
		pthread_kill(pump.out, WAKE); /* it may come just before the read() */
		clock_gettime(CLOCK_REALTIME, &soon);
		soon.tv_nsec += 10000000;
		soon.tv_sec += soon.tv_nsec / 1000000000;
		soon.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&pump.change, &pump.lock, &soon);
	}
	pthread_mutex_unlock(&pump.lock);
	close_fd(&pump.fuse); /* the kernel fails whatever still waits, `tell` included */
	close_fd(&pump.port);
}

/* How many bytes are certain to follow the len at p: the rest of a message that began. */
static size_t rest_of(const uint8_t *p, size_t len)
{
	uint32_t whole = 0;

	if (len >= sizeof(whole))
		memcpy(&whole, p, sizeof(whole));
	return whole > len ? whole - len : 0;
}

/* A read of the port returns one piece. The rest of a long answer is asked for piece by
 * piece, but in one system call, which waits for nothing that may not come. */
static ssize_t read_port(uint8_t *p, size_t len)
{
	struct iovec v[PIECES_MAX];
	size_t rest = rest_of(p, len);
	int n = 0;

	if (rest <= PORT_PIECE)
		return read(pump.port, p + len, FUSEMSG_MAX - len);
	for (uint8_t *at = p + len; rest && n < (int)PIECES_MAX; n++) {
		v[n] = (struct iovec){at, min_size(rest, PORT_PIECE)};
		at += v[n].iov_len;
		rest -= v[n].iov_len;
	}
	return readv(pump.port, v, n);
}

static void *run_in(void *buf)
{
	uint8_t *p = buf;
	size_t len = 0;

	for (;;) {
		ssize_t n = read_port(p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len += (size_t)n;
		n = deliver_all(p, len);
		if (n < 0)
			break;
		len -= (size_t)n;
		if (n && len)
			memmove(p, p + n, len);
	}
	free(buf);
	finish();
	return NULL;
}

/* ---- start, pause ---------------------------------------------------------------------
 */

static void woken(int sig)
{
	(void)sig;
}

static int start_thread(pthread_t *t, void *(*run)(void *), void *arg)
{
	pthread_attr_t a;
	int r;

	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, THREAD_STACK);
	pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
	r = pthread_create(t, &a, run, arg);
	pthread_attr_destroy(&a);
	return -r;
}

/* Signals are the main thread's, but for the one that wakes `out`. */
static int start_threads(uint8_t *in_buf, uint8_t *out_buf, bool shrinks)
{
	struct sigaction a = {.sa_handler = woken};
	sigset_t all, old;
	pthread_t in;
	int r;

	sigaction(WAKE, &a, NULL);
	sigfillset(&all);
	sigdelset(&all, WAKE);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = hear_start(shrinks);
	if (r == 0)
		r = start_thread(&pump.tell, run_tell, NULL);
	if (r == 0)
		r = start_thread(&pump.out, run_out, out_buf);
	if (r == 0)
		r = start_thread(&in, run_in, in_buf);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r;
}

int fusepump_start(int fuse_fd, int port_fd, int window_fd, bool shrinks)
{
	uint8_t *in_buf = malloc(FUSEMSG_MAX), *out_buf = malloc(FUSEMSG_MAX);

	pump.fuse = fuse_fd;
	pump.port = port_fd;
	pump.last = &pump.first;
	if (window_use(window_fd) == 0 && in_buf && out_buf)
		return start_threads(in_buf, out_buf, shrinks);
	free(in_buf);
	free(out_buf);
	return -ENOMEM;
}

int fusepump_pause(int timeout_ms)
{
	struct timespec until;
	int r = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += timeout_ms / 1000;
	until.tv_nsec += timeout_ms % 1000 * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&pump.lock);
	pump.paused = true;
	while (r == 0 && (pump.unanswered || pump.n_notices) && !pump.done)
		r = -pthread_cond_timedwait(&pump.change, &pump.lock, &until);
	if (r < 0)
		pump.paused = false;
	pthread_cond_broadcast(&pump.change);
	pthread_mutex_unlock(&pump.lock);
	return r;
}

void fusepump_resume(void)
{
	pthread_mutex_lock(&pump.lock);
	pump.paused = false;
	pthread_cond_broadcast(&pump.change);
	pthread_mutex_unlock(&pump.lock);
}
