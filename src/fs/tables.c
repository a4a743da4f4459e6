/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layout, in the byte order of the host, which does not leave it:
 *
 *	struct head, u32 generation[n_slots], then n_nodes times struct record, a name and
 *	the target of a symlink
 *
 * A directory comes before what lies in it. A target is there when the time of the inode
 * says nothing, since it is another one at every start: then that is what is compared.
 */
#include "fs/tables.h"

#include "base/io.h"
#include "base/util.h"
#include "fs/fresh.h"
#include "fs/impl.h"
#include "fs/watch.h"

#include <sys/stat.h>

#define MAGIC 0x3242415453464f43u
#define OUT_SIZE (64u * 1024)
#define TARGET_MAX 255

struct head {
	uint64_t magic;
	uint32_t minor, max_data;
	uint32_t n_slots, n_nodes;
};

struct record {
	uint64_t id, parent; /* parent 0: it has no name; FUSE_ROOT_ID: the root */
	uint64_t lookups;
	struct seen seen;
	uint32_t type;
	uint16_t n_name, n_target; /* n_target 0: compared by the inode's time */
	uint8_t told_absent, watched, known; /* known: of seen, which is a bool */
};

/* ---- saving --------------------------------------------------------------------- */

struct writer {
	struct fs *fs;
	int fd, error;
	size_t n;
	uint8_t *buf;
	uint8_t *done; /* by slot */
};

static void put(struct writer *w, const void *data, size_t n)
{
	const uint8_t *p = data;

	while (n && !w->error) {
		size_t some = min_size(n, OUT_SIZE - w->n);

		memcpy(w->buf + w->n, p, some);
		w->n += some;
		p += some;
		n -= some;
		if (w->n < OUT_SIZE)
			continue;
		w->error = write_all(w->fd, w->buf, w->n);
		w->n = 0;
	}
}

/* The length of what the symlink says; 0: not to be had, or too long. */
static size_t read_target(struct fs *fs, struct node *dir, const char *name, char *target)
{
	int at = dir ? open_dir(fs, dir) : -1;
	ssize_t n = at < 0 ? -1 : readlinkat(at, name, target, TARGET_MAX + 1);

	return n <= 0 || n > TARGET_MAX ? 0 : (size_t)n;
}

static void put_node(struct writer *w, const struct node *n)
{
	char target[TARGET_MAX + 1];
	struct record r;

	memset(&r, 0, sizeof(r)); /* with what lies between the fields */
	r.id = n->id;
	r.parent = n->parent ? node_number(w->fs, n->parent) : 0;
	r.lookups = n->lookups;
	r.seen = n->seen;
	r.type = n->type;
	if (node_is_link(n) && fresh_is_brief(w->fs, n))
		r.n_target = (uint16_t)read_target(w->fs, n->parent, n->name, target);
	r.known = n->seen.known && !(node_is_dir(n) && fresh_is_brief(w->fs, n));
	r.n_name = (uint16_t)(n->name ? strlen(n->name) : 0);
	r.told_absent = n->told_absent;
	r.watched = n->watch != WATCH_NONE;
	put(w, &r, sizeof(r));
	if (r.n_name)
		put(w, n->name, r.n_name);
	put(w, target, r.n_target);
	w->done[(uint32_t)n->id] = 1;
}

/* Its directories first, as far as they are not there yet. */
static void put_chain(struct writer *w, struct node *n)
{
	size_t depth = 0;

	for (; n && n != w->fs->nodes.root && !w->done[(uint32_t)n->id]; n = n->parent) {
		if (depth == DEPTH_MAX) {
			w->error = -ENAMETOOLONG;
			return;
		}
		w->fs->chain[depth++] = n;
	}
	while (depth > 0)
		put_node(w, w->fs->chain[--depth]);
}

static void put_all(struct writer *w)
{
	const struct nodes *all = &w->fs->nodes;
	struct head h = {.magic = MAGIC,
			 .minor = w->fs->minor,
			 .max_data = w->fs->max_data,
			 .n_slots = all->n_slots,
			 .n_nodes = all->n - 1};

	put(w, &h, sizeof(h));
	for (uint32_t i = 0; i < all->n_slots; i++)
		put(w, &all->slot[i].generation, sizeof(uint32_t));
	for (uint32_t i = 0; i < all->n_slots; i++)
		if (all->slot[i].node)
			put_chain(w, all->slot[i].node);
	if (!w->error)
		w->error = write_all(w->fd, w->buf, w->n);
}

int fs_tables_save(struct fs *fs, int fd)
{
	struct writer w = {.fs = fs, .fd = fd};

	if (!fs->ready)
		return -EAGAIN;
	w.buf = malloc(OUT_SIZE);
	w.done = calloc(1, fs->nodes.n_slots);
	if (w.buf && w.done)
		put_all(&w);
	else
		w.error = -ENOMEM;
	free(w.buf);
	free(w.done);
	return w.error;
}

/* ---- loading -------------------------------------------------------------------- */

struct reader {
	struct fs *fs;
	int fd;
	size_t at, end;
	uint8_t *buf;
};

static int take(struct reader *r, void *data, size_t n)
{
	uint8_t *p = data;

	while (n) {
		size_t some = min_size(n, r->end - r->at);
		ssize_t got;

		memcpy(p, r->buf + r->at, some);
		r->at += some;
		p += some;
		n -= some;
		if (!n)
			break;
		do
			got = read(r->fd, r->buf, OUT_SIZE);
		while (got < 0 && errno == EINTR);
		if (got <= 0)
			return got < 0 ? -errno : -EBADMSG;
		r->at = 0;
		r->end = (size_t)got;
	}
	return 0;
}

static bool name_ok(const char *name, size_t n)
{
	return n > 0 && n <= NAME_LENGTH_MAX && !memchr(name, '/', n) &&
	       !memchr(name, '\0', n) && strcmp(name, ".") != 0 &&
	       strcmp(name, "..") != 0;
}

static bool type_ok(uint32_t type)
{
	static const uint32_t types[] = {S_IFREG,  S_IFDIR, S_IFLNK, S_IFIFO,
					 S_IFSOCK, S_IFCHR, S_IFBLK};

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (types[i] == type)
			return true;
	return false;
}

/* What lies there now, if it is of the type that the guest knows. */
static const struct device *look(struct fs *fs, struct node *dir, const char *name,
				 uint32_t type, struct fs_stat *st)
{
	int at = dir ? open_dir(fs, dir) : -ESTALE;
	const struct device *d;

	if (at < 0 || fs_stat_at(at, name, st) < 0 || (st->mode & S_IFMT) != type)
		return NULL;
	d = device_of(fs, at, name, st->id.dev);
	return d && !(d->hidden && type != S_IFDIR) ? d : NULL;
}

/* Between then and now anything may have been put in its place, with the size and the
 * time of what was there: only the change of an inode cannot be set back. And of what the
 * guest holds for absent in a directory that has changed, only it knows the names. */
static void compare(struct fs *fs, struct node *n, const struct fs_stat *st)
{
	if (!n->seen.known || fs_time_equal(n->seen.ctime, st->ctime))
		return;
	notice_inode(fs, n, true);
	n->seen.known = false;
	if (n->told_absent)
		notice_shrink(fs);
}

/* What the guest keeps of such a symlink is where it leads; attributes it asks for. */
static void compare_target(struct fs *fs, struct node *n, const char *target, size_t len)
{
	char now[TARGET_MAX + 1];

	if (read_target(fs, n->parent, n->name, now) != len ||
	    memcmp(now, target, len) != 0)
		notice_inode(fs, n, true);
	n->seen.known = false;
}

static int load_node(struct fs *fs, const struct record *r, const char *name,
		     const char *target)
{
	struct node *dir = r->parent ? node_find(fs, r->parent) : NULL, *n;
	struct fs_stat st = {.mode = r->type};
	const struct device *d;

	if (!type_ok(r->type) || (r->parent && (!dir || !node_is_dir(dir))))
		return -EBADMSG;
	d = look(fs, dir, name, r->type, &st);
	if (!d)
		st = (struct fs_stat){.mode = r->type};
	n = node_place(fs, r->id, &st, d ? d : fs->nodes.root->device);
	if (!n)
		return -EBADMSG;
	n->lookups = r->lookups;
	memcpy(&n->seen, &r->seen, offsetof(struct seen, known));
	n->seen.known = r->known != 0;
	n->told_absent = r->told_absent != 0;
	if (d) {
		node_move(fs, n, dir, name);
		if (r->n_target)
			compare_target(fs, n, target, r->n_target);
		else
			compare(fs, n, &st);
		if (r->watched && node_is_dir(n))
			watch_dir(fs, n);
		else
			watch_file(fs, n);
	} else if (dir) {
		notice_entry(fs, dir, name);
	}
	return 0;
}

static int load_nodes(struct reader *r, uint32_t n)
{
	int e = 0;

	for (uint32_t i = 0; e == 0 && i < n; i++) {
		char name[NAME_LENGTH_MAX + 1] = "", target[TARGET_MAX];
		struct record rec = {0};

		e = take(r, &rec, sizeof(rec));
		if (e == 0 &&
		    (rec.n_name > NAME_LENGTH_MAX || rec.n_target > TARGET_MAX ||
		     (rec.n_target && rec.type != S_IFLNK)))
			e = -EBADMSG;
		if (e == 0)
			e = take(r, name, rec.n_name);
		if (e == 0)
			e = take(r, target, rec.n_target);
		if (e == 0 && (rec.parent != 0) != name_ok(name, rec.n_name))
			e = -EBADMSG;
		if (e == 0)
			e = load_node(r->fs, &rec, name, target);
	}
	return e;
}

static int load_generations(struct reader *r, uint32_t n)
{
	uint32_t *generation;
	int e;

	if (n > r->fs->nodes.max)
		return -EBADMSG;
	generation = calloc(n ? n : 1, sizeof(*generation));
	if (!generation)
		return -ENOMEM;
	e = take(r, generation, n * sizeof(*generation));
	if (e == 0)
		e = nodes_set_generations(r->fs, generation, n);
	free(generation);
	return e == -EINVAL ? -EBADMSG : e;
}

static int load_all(struct reader *r)
{
	struct fs *fs = r->fs;
	struct head h = {0};
	int e = take(r, &h, sizeof(h));

	if (e == 0 && (h.magic != MAGIC || h.minor < PROTOCOL_MINOR_MIN ||
		       h.minor > FUSE_KERNEL_MINOR_VERSION ||
		       h.max_data != fs->max_data || h.n_nodes > fs->nodes.max))
		e = -EBADMSG;
	if (e == 0)
		e = load_generations(r, h.n_slots);
	if (e < 0)
		return e;
	fs->minor = h.minor;
	fs->ready = true;
	e = load_nodes(r, h.n_nodes);
	nodes_list_free(fs);
	fs->notices.lost = true; /* what differs from what the guest saw is found now */
	return e;
}

int fs_tables_load(struct fs *fs, int fd)
{
	struct reader r = {.fs = fs, .fd = fd};
	int e;

	r.buf = malloc(OUT_SIZE);
	if (!r.buf)
		return -ENOMEM;
	e = load_all(&r);
	free(r.buf);
	if (e < 0)
		fs_reset(fs);
	return e;
}
