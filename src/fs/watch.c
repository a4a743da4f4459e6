/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/watch.h"

#include "base/fusemsg.h"
#include "base/util.h"
#include "fs/fresh.h"
#include "fs/impl.h"
#include "fs/notice.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#define EVENTS_NAME (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)
#define EVENTS_FILE (IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE)
#define WATCHED (EVENTS_NAME | EVENTS_FILE | IN_ONLYDIR | IN_EXCL_UNLINK)

/* Bytes of one read(): what comes of them fits into half of the ring of notices. */
#define EVENTS_AT_ONCE (16u * 1024)
#define SWEEP_AT_ONCE 64 /* nodes */

/* ---- watches -------------------------------------------------------------------------
 */

static uint64_t watch_hash(int wd)
{
	return table_mix((uint64_t)(unsigned)wd);
}

/* The first node after n that has this watch: the same directory may be two nodes, under
 * two mounts. */
static struct node *watching(struct fs *fs, int wd, const struct node *n)
{
	struct entry *e =
		table_next(&fs->watch.by_wd, n ? &n->by_watch : NULL, watch_hash(wd));

	while (e && container_of(e, struct node, by_watch)->watch != wd)
		e = table_next(&fs->watch.by_wd, e, watch_hash(wd));
	return e ? container_of(e, struct node, by_watch) : NULL;
}

/* Watches what is called so from where the process stands. */
static void watch_here(struct fs *fs, struct node *n, const char *name, uint32_t what)
{
	int wd = inotify_add_watch(fs->watch.fd, name, what);

	if (wd < 0) {
		if (errno == ENOSPC)
			fs->watch.full = true;
		else
			n->watch = WATCH_REFUSED;
		return;
	}
	n->watch = wd;
	table_add(&fs->watch.by_wd, &n->by_watch, watch_hash(wd));
}

void watch_stop(struct fs *fs, struct node *n)
{
	int wd = n->watch;

	n->watch = WATCH_NONE;
	if (wd < 0)
		return;
	table_remove(&fs->watch.by_wd, &n->by_watch);
	if (!watching(fs, wd, NULL))
		inotify_rm_watch(fs->watch.fd, wd);
	fs->watch.full = false;
}

/* ---- directories of an overlay --------------------------------------------------------
 */

static const struct source *source_of(const struct fs *fs, const struct device *d)
{
	for (uint32_t i = 0; i < fs->watch.n_sources; i++)
		if (fs->watch.source[i].dev == d->dev)
			return &fs->watch.source[i];
	return NULL;
}

/* Goes to the directory below the source that has the node's path below the overlay's
 * root. -ENOENT: it is in the upper layer alone. */
static int enter_source(struct fs *fs, const struct source *s, struct node *n)
{
	size_t depth = 0;
	cleanup_fd int at = fcntl(s->fd, F_DUPFD_CLOEXEC, 3);

	for (; n->parent && n->parent->device == n->device; n = n->parent) {
		if (depth == DEPTH_MAX)
			return -ENAMETOOLONG;
		fs->chain[depth++] = n;
	}
	while (depth > 0 && at >= 0) {
		int next = openat(at, fs->chain[--depth]->name,
				  O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (next < 0)
			return -errno;
		close(at);
		at = next;
	}
	return at < 0 || fchdir(at) < 0 ? -errno : 0;
}

static void watch_source(struct fs *fs, struct node *n)
{
	const struct source *s = source_of(fs, n->device);
	int r = s ? enter_source(fs, s, n) : -EXDEV;

	if (r == 0)
		watch_here(fs, n, ".", WATCHED);
	else
		n->watch =
			r == -ENOENT || r == -ENOTDIR ? WATCH_NOT_NEEDED : WATCH_REFUSED;
}

static bool may_watch(struct fs *fs, const struct node *n)
{
	if (n->watch != WATCH_NONE || fs->watch.full || fs->watch.fd < 0 ||
	    n->device->hidden)
		return false;
	fs->watch.full = fs->watch.by_wd.n >= fs->watch.max;
	return !fs->watch.full;
}

void watch_dir(struct fs *fs, struct node *n)
{
	int dir;

	if (!node_is_dir(n) || !may_watch(fs, n))
		return;
	if (n->device->overlay) {
		watch_source(fs, n);
		return;
	}
	dir = open_dir(fs, n);
	if (dir >= 0 && fchdir(dir) == 0)
		watch_here(fs, n, ".", WATCHED);
}

bool watch_is_mount(const struct node *n)
{
	return n->type == S_IFREG && n->parent &&
	       n->ident.mount != n->parent->ident.mount;
}

bool watch_file(struct fs *fs, struct node *n)
{
	int dir;

	if (!watch_is_mount(n) || !may_watch(fs, n))
		return false;
	dir = open_dir(fs, n->parent);
	if (dir >= 0 && fchdir(dir) == 0)
		watch_here(fs, n, n->name, EVENTS_FILE | IN_DONT_FOLLOW);
	return n->watch >= 0;
}

/* ---- events ---------------------------------------------------------------------------
 */

/* What the guest takes away itself is an event too, and no news. */
void watch_own_removal(struct fs *fs, const struct node *dir, const char *name)
{
	struct watch *w = &fs->watch;

	if (fresh_is_watched(dir))
		w->own[w->n_own++ % OWN_MAX] = node_name_hash(dir, name);
}

static bool own_removal(struct fs *fs, const struct node *dir, const char *name)
{
	uint64_t h = node_name_hash(dir, name);

	for (size_t i = 0; i < OWN_MAX; i++) {
		if (fs->watch.own[i] != h)
			continue;
		fs->watch.own[i] = 0;
		return true;
	}
	return false;
}

/* A change of the host's in dir. mask: what inotify says of it, 0 in a sweep. */
struct change {
	struct node *dir;
	const char *name;
	uint32_t mask;
};

static void heard(struct fs *fs, const struct change *c, const struct node *n,
		  uint32_t what, uint32_t type)
{
	if (c->mask)
		notice_heard(fs, c->dir, c->name, n, what, type);
}

/* The file that the guest knows, or none does, is still there. Whatever happens to one
 * that the guest has no node of, or was told of before and has not looked at since, is
 * the host's doing too. */
static void still_there(struct fs *fs, const struct change *c, struct node *n,
			const struct fs_stat *st)
{
	bool known = n && n->seen.known;
	enum fresh_news news = n ? fresh_compare(fs, n, st) : FRESH_SAME;

	if (known ? news == FRESH_DATA : c->mask & (IN_MODIFY | IN_CLOSE_WRITE))
		heard(fs, c, n, HEARD_DATA, st->mode & S_IFMT);
	else if (known ? news == FRESH_ATTR : c->mask & IN_ATTRIB)
		heard(fs, c, n, HEARD_ATTR, st->mode & S_IFMT);
}

/* Is it the file that the guest knows by this name? An overlay's directory is, whatever
 * it is by now, unless the host put another there. */
static bool is_same(struct fs *fs, const struct change *c, struct node *n,
		    const struct fs_stat *st)
{
	bool put_there = c->mask & (IN_CREATE | IN_MOVED_TO);

	if (n->device->overlay && node_is_dir(n) && put_there) {
		watch_stop(fs, n);
		return false;
	}
	if (fs_ident_equal(&n->ident, &st->id))
		return true;
	if (!node_same_dir(n, st))
		return false;
	node_identify(fs, n, &st->id);
	return true;
}

/* A name of which we knew nothing. */
static void unknown_gone(struct fs *fs, const struct change *c)
{
	if (c->mask & (IN_DELETE | IN_MOVED_FROM) && !own_removal(fs, c->dir, c->name))
		heard(fs, c, NULL, HEARD_GONE, c->mask & IN_ISDIR ? S_IFDIR : S_IFREG);
}

/* What is at dir/name now, compared with what the guest was told. */
static void look_at_entry(struct fs *fs, const struct change *c)
{
	struct node *n = node_child(fs, c->dir, c->name);
	struct fs_stat st;
	int fd = open_dir(fs, c->dir);
	int r = fd < 0 ? fd : fs_stat_at(fd, c->name, &st);
	bool came = c->mask & EVENTS_NAME;

	if (r < 0 && !n) {
		unknown_gone(fs, c);
		return;
	}
	if (r == 0 && (n ? is_same(fs, c, n, &st) : !came)) {
		still_there(fs, c, n, &st);
		return;
	}
	/* It appeared, was replaced, or is gone: and not by the guest, for its own
	 * changes are in our table already. What it was not told stays there. */
	if ((n || c->dir->told_absent) && !notice_entry(fs, c->dir, c->name))
		return;
	if (n)
		heard(fs, c, NULL, HEARD_GONE, n->type);
	if (r == 0)
		heard(fs, c, NULL, HEARD_CAME, st.mode & S_IFMT);
	if (n)
		node_detach(fs, n);
}

static void look_at_dir(struct fs *fs, struct node *dir)
{
	struct fs_stat st;
	int fd = open_dir(fs, dir);

	if (fd >= 0 && fs_stat_at(fd, "", &st) == 0)
		fresh_compare(fs, dir, &st);
}

static void file_event(struct fs *fs, struct node *n, uint32_t mask)
{
	struct change c = {.dir = n->parent, .name = n->name, .mask = mask};

	if (!n->parent) /* its name is gone: nobody looks at it again */
		return;
	node_hold(n);
	node_hold(c.dir);
	look_at_entry(fs, &c);
	node_drop(fs, c.dir);
	node_drop(fs, n);
}

static void event_for(struct fs *fs, struct node *dir, const struct inotify_event *e)
{
	struct change c = {.dir = dir, .name = e->name, .mask = e->mask};

	if (e->mask & IN_IGNORED) { /* it is gone, or its file system */
		table_remove(&fs->watch.by_wd, &dir->by_watch);
		dir->watch = WATCH_REFUSED;
		return;
	}
	if (!node_is_dir(dir)) {
		file_event(fs, dir, e->mask);
		return;
	}
	node_hold(dir);
	/* The attributes of a merged directory are those of its upper half. */
	if (dir->device->overlay && e->mask & EVENTS_NAME)
		notice_inode(fs, dir, true);
	if (e->len && strlen(e->name) <= NAME_LENGTH_MAX)
		look_at_entry(fs, &c);
	if (!e->len || e->mask & EVENTS_NAME)
		look_at_dir(fs, dir);
	node_drop(fs, dir);
}

static void event(struct fs *fs, const struct inotify_event *e)
{
	struct node *n, *next;

	if (e->mask & IN_Q_OVERFLOW) {
		notices_lost(fs);
		return;
	}
	/* The next is held while this one is dealt with, and this one until the next was
	 * asked for its own: one may be the other's directory. */
	n = watching(fs, e->wd, NULL);
	if (n)
		node_hold(n);
	for (; n; n = next) {
		next = watching(fs, e->wd, n);
		if (next)
			node_hold(next);
		event_for(fs, n, e);
		node_drop(fs, n);
	}
}

/* A write makes one event for each call; they all ask the same question. */
static bool same_question(const struct inotify_event *a, const struct inotify_event *b)
{
	return a->wd == b->wd && a->len == b->len && a->len &&
	       !((a->mask | b->mask) & (IN_IGNORED | IN_Q_OVERFLOW)) &&
	       !(a->mask & EVENTS_NAME & ~b->mask) && strcmp(a->name, b->name) == 0;
}

static void events(struct fs *fs, const char *p, size_t n)
{
	const struct inotify_event *e, *next;

	for (size_t at = 0; at < n; at += sizeof(*e) + e->len) {
		size_t after;

		e = (const void *)(p + at);
		after = at + sizeof(*e) + e->len;
		next = after < n ? (const void *)(p + after) : NULL;
		if (!next || !same_question(e, next))
			event(fs, e);
	}
}

/* ---- after a loss ---------------------------------------------------------------------
 */

static void sweep_one(struct fs *fs, struct node *n)
{
	struct change c = {.dir = n->parent, .name = n->name};
	uint8_t missed = n->missed;

	node_hold(n);
	n->missed = 0;
	if (missed)
		notice_inode(fs, n, missed == NOTICED_DATA);
	if (c.dir) {
		node_hold(c.dir);
		look_at_entry(fs, &c);
		node_drop(fs, c.dir);
	}
	if (node_is_dir(n))
		look_at_dir(fs, n);
	node_drop(fs, n);
}

/* Some events or notices were lost: every node is compared with its file, a few at a time
 * and only while there is room for what that finds. */
static bool sweep(struct fs *fs)
{
	const struct nodes *all = &fs->nodes;
	uint32_t *at = &fs->watch.sweep;

	if (fs->notices.lost) {
		fs->notices.lost = false;
		*at = 1;
	}
	for (int i = 0; *at && i < SWEEP_AT_ONCE && notices_have_room(fs); i++) {
		struct node *n = *at < all->n_slots ? all->slot[*at].node : NULL;

		*at = *at < all->n_slots ? *at + 1 : 0;
		if (n)
			sweep_one(fs, n);
	}
	return *at && notices_have_room(fs); /* else: when some are told */
}

bool fs_changes_wait(const struct fs *fs)
{
	return (fs->watch.sweep || fs->notices.lost) && notices_have_room(fs);
}

bool fs_host_changes(struct fs *fs)
{
	static char buf[EVENTS_AT_ONCE] __attribute__((aligned(8)));
	int fd = fs_watch_fd(fs);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf));

	if (n > 0)
		events(fs, buf, (size_t)n);
	return sweep(fs) || n > (ssize_t)sizeof(buf) / 2;
}

/* ---- life
 * ------------------------------------------------------------------------------ */

int watch_init(struct fs *fs, uint32_t max)
{
	fs->watch.fd = max ? inotify_init1(IN_NONBLOCK | IN_CLOEXEC) : -1;
	fs->watch.max = max;
	return table_init(&fs->watch.by_wd);
}

void watch_clear(struct fs *fs)
{
	close_fd(&fs->watch.fd);
	table_clear(&fs->watch.by_wd);
	for (uint32_t i = 0; i < fs->watch.n_sources; i++)
		close_fd(&fs->watch.source[i].fd);
	fs->watch.n_sources = 0;
}

int fs_watch_fd(const struct fs *fs)
{
	return notices_have_room(fs) ? fs->watch.fd : -1;
}

int fs_source(struct fs *fs, const char *path, int *fd)
{
	struct watch *w = &fs->watch;
	struct fs_stat st;
	int r = fs_stat_at(fs->nodes.root->desc.fd, *path == '/' ? path + 1 : path, &st);

	if (r < 0)
		return r;
	if (w->n_sources == SOURCES_MAX)
		return -ENOSPC;
	w->source[w->n_sources++] = (struct source){.dev = st.id.dev, .fd = take_fd(fd)};
	return 0;
}
