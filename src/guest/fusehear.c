/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/fusehear.h"

#include "guest/watched.h"

#include "base/fusemsg.h"
#include "base/util.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define HANDLE_TYPE 0x81   /* FUSE: two words of node number, one of generation */
#define FORGET_QUIETLY "7" /* pages, entries and inodes; no line in the kernel's log */
#define NO_SLOT UINT32_MAX /* of a node number that the server never gives out */

static struct hear {
	bool shrinks;
	int fd;               /* of the mount; the thread's alone */
	pthread_mutex_t lock; /* of everything below */
	pthread_cond_t change;
	struct fusemsg_heard ring[HEAR_MAX];
	unsigned first, n;
	bool shrink, done;
	int view;                     /* of the mount too, but O_PATH; -1: not yet */
	uint32_t tid;                 /* 0: the thread does not run yet */
	struct fusemsg_heard playing; /* what: 0, nothing */
	uint32_t n_invented;
} hear = {
	.fd = -1,
	.view = -1,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.change = PTHREAD_COND_INITIALIZER,
};

/* ---- what the thread's own requests become ------------------------------------------
 */

static size_t answer_with(const struct fuse_in_header *h, int error, const void *body,
			  size_t n, uint8_t *answer)
{
	struct fuse_out_header out = {
		.len = (uint32_t)(sizeof(out) + n), .error = error, .unique = h->unique};

	memcpy(answer, &out, sizeof(out));
	if (n)
		memcpy(answer + sizeof(out), body, n);
	return out.len;
}

/* A name that is gone, as something that can be removed once more. The server does not
 * know its number, and nothing is kept. */
static size_t invent(const struct fuse_in_header *h, uint32_t type, uint8_t *answer)
{
	struct fuse_entry_out e = {0};

	e.nodeid = (uint64_t)++hear.n_invented << 32 | NO_SLOT;
	e.attr.ino = e.nodeid;
	e.attr.mode = type;
	e.attr.nlink = 1;
	return answer_with(h, 0, &e, sizeof(e), answer);
}

/* The message becomes a LOOKUP of the name that begins after `fixed` bytes. */
static size_t look_instead(uint8_t *msg, size_t *n, size_t fixed)
{
	struct fuse_in_header h;
	const char *name = (const char *)msg + sizeof(h) + fixed;
	size_t len = strnlen(name, *n - sizeof(h) - fixed);

	memcpy(&h, msg, sizeof(h));
	memmove(msg + sizeof(h), name, len);
	msg[sizeof(h) + len] = '\0';
	*n = sizeof(h) + len + 1;
	h.opcode = FUSE_LOOKUP;
	h.len = (uint32_t)*n;
	memcpy(msg, &h, sizeof(h));
	return 0;
}

static size_t getattr_instead(uint8_t *msg, size_t *n)
{
	struct fuse_getattr_in in = {0};
	struct fuse_in_header h;

	memcpy(&h, msg, sizeof(h));
	*n = sizeof(h) + sizeof(in);
	h.opcode = FUSE_GETATTR;
	h.len = (uint32_t)*n;
	memcpy(msg, &h, sizeof(h));
	memcpy(msg + sizeof(h), &in, sizeof(in));
	return 0;
}

/* Does the request belong to the event, and not to the way there? */
static bool is_about(const struct fuse_in_header *h, uint32_t what)
{
	return hear.playing.what == what && (h->nodeid == hear.playing.dir ||
					     what == HEARD_DATA || what == HEARD_ATTR);
}

static size_t own_lookup(const struct fuse_in_header *h, uint8_t *answer)
{
	if (is_about(h, HEARD_CAME)) /* so that it can be made */
		return answer_with(h, -ENOENT, NULL, 0, answer);
	if (is_about(h, HEARD_GONE))
		return invent(h, hear.playing.type, answer);
	return 0;
}

/* Whatever changes something stops here, whether it was foreseen or not. */
static size_t own_request(uint8_t *msg, size_t *n, uint8_t *answer)
{
	struct fuse_in_header h;

	memcpy(&h, msg, sizeof(h));
	switch (h.opcode) {
	case FUSE_LOOKUP:
		return own_lookup(&h, answer);
	case FUSE_MKNOD:
		if (is_about(&h, HEARD_CAME))
			return look_instead(msg, n, sizeof(struct fuse_mknod_in));
		break;
	case FUSE_MKDIR:
		if (is_about(&h, HEARD_CAME))
			return look_instead(msg, n, sizeof(struct fuse_mkdir_in));
		break;
	case FUSE_SYMLINK:
		if (is_about(&h, HEARD_CAME))
			return look_instead(msg, n, 0);
		break;
	case FUSE_UNLINK:
	case FUSE_RMDIR:
		return answer_with(&h, is_about(&h, HEARD_GONE) ? 0 : -EIO, NULL, 0,
				   answer);
	case FUSE_FALLOCATE:
		return answer_with(&h, is_about(&h, HEARD_DATA) ? 0 : -EIO, NULL, 0,
				   answer);
	case FUSE_SETATTR:
		if (is_about(&h, HEARD_ATTR))
			return getattr_instead(msg, n);
		break;
	case FUSE_GETATTR:
	case FUSE_OPEN:
	case FUSE_OPENDIR:
	case FUSE_GETXATTR:
	case FUSE_FLUSH:
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		return 0;
	}
	return answer_with(&h, -EIO, NULL, 0, answer);
}

size_t hear_request(uint8_t *msg, size_t *n, uint8_t *answer)
{
	struct fuse_in_header h;
	size_t len;

	memcpy(&h, msg, sizeof(h));
	/* Nearly all of them are somebody else's. */
	if (!h.pid || h.pid != __atomic_load_n(&hear.tid, __ATOMIC_ACQUIRE))
		return 0;
	pthread_mutex_lock(&hear.lock);
	len = own_request(msg, n, answer);
	pthread_mutex_unlock(&hear.lock);
	return len;
}

/* ---- events --------------------------------------------------------------------------
 */

static int view(void)
{
	int fd;

	pthread_mutex_lock(&hear.lock);
	fd = hear.view;
	pthread_mutex_unlock(&hear.lock);
	return fd;
}

static int open_node(uint64_t node, int flags)
{
	struct {
		struct file_handle head;
		uint32_t word[3];
	} h = {
		.head = {.handle_bytes = sizeof(h.word), .handle_type = HANDLE_TYPE}
        };

	h.word[0] = (uint32_t)(node >> 32);
	h.word[1] = (uint32_t)node;
	if (hear.fd < 0)
		hear.fd = openat(view(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return hear.fd < 0 ? -1
			   : (int)syscall(SYS_open_by_handle_at, hear.fd, &h.head,
					  flags | O_CLOEXEC);
}

static void set_playing(const struct fusemsg_heard *h)
{
	pthread_mutex_lock(&hear.lock);
	hear.playing = h ? *h : (struct fusemsg_heard){0};
	pthread_mutex_unlock(&hear.lock);
}

/* Opened for writing and closed, as whoever wrote did. */
static void play_data(int dir, const struct fusemsg_heard *h)
{
	int flags = O_WRONLY | O_NONBLOCK | O_NOCTTY;
	cleanup_fd int fd =
		h->node ? open_node(h->node, flags)
			: openat(dir, h->name, flags | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		(void)!fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 1);
}

static int play_came(int dir, const struct fusemsg_heard *h)
{
	if (h->type == S_IFDIR)
		return mkdirat(dir, h->name, 0700);
	if (h->type == S_IFLNK)
		return symlinkat("-", dir, h->name);
	return mknodat(dir, h->name, h->type | 0600, 0);
}

static void play_one(int dir, const struct fusemsg_heard *h)
{
	struct fusemsg_heard data = *h;

	set_playing(h);
	switch (h->what) {
	case HEARD_CAME:
		(void)!play_came(dir, h);
		if (h->type != S_IFREG)
			break;
		/* And it has content; if somebody saw it before us, that is all. */
		data.what = HEARD_DATA;
		data.node = 0;
		set_playing(&data);
		play_data(dir, &data);
		break;
	case HEARD_GONE:
		(void)!unlinkat(dir, h->name, h->type == S_IFDIR ? AT_REMOVEDIR : 0);
		break;
	case HEARD_DATA:
		if (h->type == S_IFREG)
			play_data(dir, h);
		break;
	case HEARD_ATTR:
		(void)!utimensat(dir, h->name, NULL, AT_SYMLINK_NOFOLLOW);
		break;
	}
	set_playing(NULL);
}

static bool type_ok(uint32_t type)
{
	return type == S_IFREG || type == S_IFDIR || type == S_IFLNK || type == S_IFIFO ||
	       type == S_IFSOCK;
}

static void play(const struct watched *w, const struct fusemsg_heard *h)
{
	cleanup_fd int dir = -1;

	if (!type_ok(h->type) || (!watched_has(w, h->dir) && !watched_has(w, h->node)))
		return;
	dir = open_node(h->dir, O_PATH | O_DIRECTORY);
	if (dir >= 0 || (h->what == HEARD_DATA && h->node))
		play_one(dir, h);
}

/* ---- the thread ----------------------------------------------------------------------
 */

static void shrink(void)
{
	cleanup_fd int fd =
		hear.shrinks ? open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC)
			     : -1;

	if (fd >= 0)
		(void)!write(fd, FORGET_QUIETLY, strlen(FORGET_QUIETLY));
}

/* Everything that waits, at once: who watches is asked once for all. -1: the end. */
static int take_all(struct fusemsg_heard *all, bool *ret_shrink)
{
	int n;

	pthread_mutex_lock(&hear.lock);
	while (!hear.n && !hear.shrink && !hear.done)
		pthread_cond_wait(&hear.change, &hear.lock);
	for (n = 0; hear.n; n++, hear.n--) {
		all[n] = hear.ring[hear.first];
		hear.first = (hear.first + 1) % HEAR_MAX;
	}
	*ret_shrink = hear.shrink;
	hear.shrink = false;
	n = hear.done ? -1 : n;
	pthread_mutex_unlock(&hear.lock);
	return n;
}

static void *run(void *arg)
{
	static struct fusemsg_heard all[HEAR_MAX];
	static struct watched w;
	bool forget;
	int n;

	(void)arg;
	__atomic_store_n(&hear.tid, (uint32_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	while ((n = take_all(all, &forget)) >= 0) {
		if (forget)
			shrink();
		if (n)
			watched_find(&w);
		for (int i = 0; i < n && w.n; i++)
			play(&w, &all[i]);
	}
	return NULL;
}

bool hear_take(const uint8_t *msg, size_t n)
{
	struct fuse_out_header head;
	struct fusemsg_heard h;

	memcpy(&head, msg, sizeof(head));
	if (head.error != FUSEMSG_HEARD && head.error != FUSEMSG_SHRINK)
		return false;
	pthread_mutex_lock(&hear.lock);
	if (head.error == FUSEMSG_SHRINK) {
		hear.shrink = true;
	} else if (n == sizeof(head) + sizeof(h) && hear.n < HEAR_MAX) {
		memcpy(&h, msg + sizeof(head), sizeof(h));
		h.name[FUSEMSG_NAME_MAX] = '\0';
		hear.ring[(hear.first + hear.n++) % HEAR_MAX] = h;
	}
	pthread_cond_signal(&hear.change);
	pthread_mutex_unlock(&hear.lock);
	return true;
}

void hear_stop(void)
{
	pthread_mutex_lock(&hear.lock);
	hear.done = true;
	pthread_cond_broadcast(&hear.change);
	pthread_mutex_unlock(&hear.lock);
}

void hear_mount(int fd)
{
	pthread_mutex_lock(&hear.lock);
	hear.view = fd;
	pthread_mutex_unlock(&hear.lock);
}

int hear_start(bool shrinks)
{
	pthread_attr_t a;
	pthread_t t;
	int r;

	hear.shrinks = shrinks;
	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, 64u * 1024);
	pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&t, &a, run, NULL);
	pthread_attr_destroy(&a);
	return -r;
}
