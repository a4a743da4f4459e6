/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pump - one direction of a connection: recv() and send() for a little, splice() for a
 * lot.
 *
 * Nothing is read before everything read earlier was written, so a pump holds at most
 * one read: SMALL bytes of memory, or a pipe. A pipe without bytes goes back at the end
 * of each run; the number of pipes in use is the number of stalled bulk transfers.
 */
#include "egress/pass.h"

#include "base/util.h"

#include <fcntl.h>
#include <sys/socket.h>

#define SMALL (16u << 10)      /* one read of the copying way; a full one means bulk */
#define BULK_STAYS (64u << 10) /* moved in one run: the next one begins with splice */
#define SHARE (1u << 20)       /* bytes of one run, so that no pump starves others */
#define PIPE_BYTES (1 << 20)
#define PIPE_BYTES_LEAST (64 << 10) /* the kernel gives less beyond a user's quota */
#define PIPES_MAX 128
#define PIPES_KEPT 32

struct pipe_pair {
	struct pump_pool *pool;
	struct pipe_pair *next;
	int rd, wr;
	uint32_t size;
};

struct pump_pool {
	struct pipe_pair *free;
	unsigned n, n_free;
	char buf[PUMP_BUF];
};

static struct pump_pool *pool_of(struct egress *e)
{
	if (!e->pumps)
		e->pumps = calloc(1, sizeof(*e->pumps));
	return e->pumps;
}

char *pump_buf(struct egress *e)
{
	struct pump_pool *pool = pool_of(e);

	return pool ? pool->buf : NULL;
}

/* ---- pipes ---------------------------------------------------------------------- */

static void pipe_close(struct pipe_pair *p)
{
	p->pool->n--;
	close(p->rd);
	close(p->wr);
	free(p);
}

static struct pipe_pair *pipe_open(struct pump_pool *pool)
{
	struct pipe_pair *p = pool->n < PIPES_MAX ? calloc(1, sizeof(*p)) : NULL;
	int fd[2], size;

	if (!p)
		return NULL;
	if (pipe2(fd, O_NONBLOCK | O_CLOEXEC) < 0) {
		free(p);
		return NULL;
	}
	p->pool = pool;
	p->rd = fd[0];
	p->wr = fd[1];
	pool->n++;
	size = fcntl(p->wr, F_SETPIPE_SZ, PIPE_BYTES);
	if (size < 0)
		size = fcntl(p->wr, F_GETPIPE_SZ);
	if (size < PIPE_BYTES_LEAST) {
		pipe_close(p);
		return NULL;
	}
	p->size = (uint32_t)size;
	return p;
}

static struct pipe_pair *pipe_take(struct pump_pool *pool)
{
	struct pipe_pair *p = pool->free;

	if (!p)
		return pipe_open(pool);
	pool->free = p->next;
	pool->n_free--;
	return p;
}

static void pipe_give(struct pump *p)
{
	struct pipe_pair *pipe = take_ptr(p->pipe);

	if (!pipe)
		return;
	/* Bytes of another connection must never be found in it. */
	if (p->in_pipe || pipe->pool->n_free >= PIPES_KEPT) {
		p->in_pipe = 0;
		pipe_close(pipe);
		return;
	}
	pipe->next = pipe->pool->free;
	pipe->pool->free = pipe;
	pipe->pool->n_free++;
}

void pump_pool_free(struct egress *e)
{
	struct pump_pool *pool = take_ptr(e->pumps);

	while (pool && pool->free) {
		struct pipe_pair *p = pool->free;

		pool->free = p->next;
		pipe_close(p);
	}
	free(pool);
}

/* ---- one direction -------------------------------------------------------------- */

void pump_init(struct pump *p, int from, int to, uint64_t left, uint64_t *count)
{
	*p = (struct pump){.from = from, .to = to, .left = left, .count = count};
}

void pump_clear(struct pump *p)
{
	pipe_give(p);
	free(take_ptr(p->rest));
	p->rest_n = 0;
}

static enum pump_state failed(struct pump *p, int error, bool writing)
{
	p->error = error;
	p->write_failed = writing;
	return PUMP_FAILED;
}

static size_t clip(const struct pump *p, size_t n)
{
	return p->left < n ? (size_t)p->left : n;
}

static void took(struct pump *p, size_t n)
{
	if (p->left != PUMP_ALL)
		p->left -= n;
}

/* Writes what an earlier run could not. PUMP_END: nothing is left over. */
static enum pump_state flush_rest(struct pump *p)
{
	while (p->rest_at < p->rest_n) {
		ssize_t n = send(p->to, p->rest + p->rest_at, p->rest_n - p->rest_at,
				 MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? PUMP_WRITE : failed(p, errno, true);
		p->rest_at += (uint32_t)n;
		*p->count += (uint64_t)n;
	}
	free(take_ptr(p->rest));
	p->rest_at = p->rest_n = 0;
	return PUMP_END;
}

static enum pump_state flush_pipe(struct pump *p)
{
	while (p->in_pipe) {
		ssize_t n = splice(p->pipe->rd, NULL, p->to, NULL, p->in_pipe,
				   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? PUMP_WRITE : failed(p, errno, true);
		if (n == 0) /* cannot be: the bytes are there */
			return failed(p, EIO, true);
		p->in_pipe -= (uint32_t)n;
		*p->count += (uint64_t)n;
	}
	return PUMP_END;
}

static enum pump_state read_failed(struct pump *p, ssize_t n)
{
	if (n == 0) {
		p->eof = true;
		return PUMP_END;
	}
	if (errno == EINTR)
		return PUMP_MORE;
	return errno == EAGAIN ? PUMP_READ : failed(p, errno, false);
}

static enum pump_state keep_rest(struct pump *p, const char *buf, size_t n)
{
	p->rest = malloc(n);
	if (!p->rest)
		return failed(p, ENOMEM, true);
	memcpy(p->rest, buf, n);
	p->rest_at = 0;
	p->rest_n = (uint32_t)n;
	return PUMP_WRITE;
}

/* PUMP_MORE: n bytes went through, go on. */
static enum pump_state copy_once(struct pump_pool *pool, struct pump *p, size_t *ret_n)
{
	size_t want = clip(p, SMALL);
	ssize_t n = recv(p->from, pool->buf, want, MSG_DONTWAIT), sent;

	if (n <= 0)
		return read_failed(p, n);
	*ret_n = (size_t)n;
	took(p, (size_t)n);
	do
		sent = send(p->to, pool->buf, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (sent < 0 && errno == EINTR);
	if (sent < 0 && errno != EAGAIN)
		return failed(p, errno, true);
	if (sent > 0)
		*p->count += (uint64_t)sent;
	if (sent < n)
		return keep_rest(p, pool->buf + (sent > 0 ? sent : 0),
				 (size_t)(n - (sent > 0 ? sent : 0)));
	/* A short read emptied the socket; if its end had come, the event would say. */
	return (size_t)n < want && !p->hup && !p->urgent && p->left ? PUMP_READ
								    : PUMP_MORE;
}

static enum pump_state splice_once(struct pump *p, size_t *ret_n)
{
	ssize_t n = splice(p->from, NULL, p->pipe->wr, NULL, clip(p, p->pipe->size),
			   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	enum pump_state s;

	if (n <= 0)
		return read_failed(p, n);
	*ret_n = (size_t)n;
	took(p, (size_t)n);
	p->in_pipe = (uint32_t)n;
	s = flush_pipe(p);
	return s == PUMP_END ? PUMP_MORE : s;
}

static enum pump_state run(struct pump_pool *pool, struct pump *p)
{
	size_t moved = 0, n = 0;
	enum pump_state s = flush_rest(p);

	if (s == PUMP_END)
		s = flush_pipe(p);
	if (s != PUMP_END)
		return s;
	for (s = PUMP_MORE; s == PUMP_MORE && moved < SHARE; moved += n) {
		if (!p->left || p->eof)
			return PUMP_END;
		if (p->bulk && !p->pipe && !p->urgent) /* splice() stops there too */
			p->pipe = pipe_take(pool);
		n = 0;
		s = p->pipe ? splice_once(p, &n) : copy_once(pool, p, &n);
		p->bulk = p->bulk || n == SMALL;
	}
	/* What waits for the writer has shown that it is bulk, however little it was. */
	if (s == PUMP_READ && moved < BULK_STAYS)
		p->bulk = false;
	return s;
}

enum pump_state pump_run(struct egress *e, struct pump *p)
{
	struct pump_pool *pool = pool_of(e);
	enum pump_state s;

	if (!pool)
		return failed(p, ENOMEM, false);
	s = run(pool, p);
	if (!p->in_pipe)
		pipe_give(p);
	return s;
}
