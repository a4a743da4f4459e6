/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remove - requests that take names away: UNLINK, RMDIR, RENAME.
 *
 * The guest may have open what loses its name, and we do not know: so it is kept open
 * here until the guest forgets it, which it does at once if nobody has it open.
 */
#include "base/io.h"
#include "base/util.h"
#include "fs/fresh.h"
#include "fs/impl.h"
#include "fs/watch.h"

#include <fcntl.h>
#include <linux/fs.h>

static ssize_t remove_name(struct fs *fs, struct request *q, int flags)
{
	size_t at = 0;
	int err, dir, r;
	const char *name = request_name(q, &at, &err);
	struct node *n;

	if (!name)
		return err;
	n = node_child(fs, q->node, name);
	if (n)
		node_keep_open(fs, n);
	dir = dir_changing(fs, q->node);
	r = dir < 0 ? dir : unlinkat(dir, name, flags) < 0 ? -errno : 0;
	if (r == 0) {
		watch_own_removal(fs, q->node, name);
		dir_changed(fs, q->node);
	}
	if (n && r == 0)
		node_detach(fs, n);
	else if (n)
		desc_unpin(&fs->descs, &n->desc);
	return r;
}

ssize_t do_unlink(struct fs *fs, struct request *q, uint8_t *out)
{
	(void)out;
	return remove_name(fs, q, 0);
}

ssize_t do_rmdir(struct fs *fs, struct request *q, uint8_t *out)
{
	(void)out;
	return remove_name(fs, q, AT_REMOVEDIR);
}

struct rename {
	struct node *from_dir, *to_dir;
	const char *from, *to;
	unsigned flags;
};

/* Its new name changed the file's ctime, and the guest knows that. */
static void took_name(struct fs *fs, struct node *n)
{
	struct fs_stat st;

	if (!n)
		return;
	if (n->parent && node_stat_changed(fs, n, &st) == 0)
		fresh_changed(fs, n, &st);
	node_drop(fs, n);
}

/* The nodes take over what happened to the names. */
static void renamed(struct fs *fs, const struct rename *m)
{
	struct node *n = node_child(fs, m->from_dir, m->from);
	struct node *other = node_child(fs, m->to_dir, m->to);
	bool swap = m->flags & RENAME_EXCHANGE;

	dir_changed(fs, m->from_dir);
	if (m->to_dir != m->from_dir)
		dir_changed(fs, m->to_dir);
	if (n == other)
		return;
	if (n)
		node_hold(n);
	if (other)
		node_hold(other);
	if (n)
		node_move(fs, n, m->to_dir, m->to);
	else if (other)
		node_detach(fs, other);
	if (other && swap)
		node_move(fs, other, m->from_dir, m->from);
	took_name(fs, n);
	took_name(fs, other);
}

static int rename_node(struct fs *fs, const struct rename *m)
{
	struct node *gone = node_child(fs, m->to_dir, m->to);
	int from, to, r;

	if (m->flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE))
		return -EINVAL; /* a whiteout is a device node */
	if (gone && !m->flags)
		node_keep_open(fs, gone);
	r = dir_changing(fs, m->from_dir);
	if (r >= 0)
		r = dir_changing(fs, m->to_dir);
	if (r >= 0)
		r = open_two(fs, m->from_dir, m->to_dir, &from, &to);
	if (r == 0)
		r = rename_at(from, m->from, to, m->to, m->flags);
	if (r == 0) {
		watch_own_removal(fs, m->from_dir, m->from);
		renamed(fs, m);
	} else if (gone)
		desc_unpin(&fs->descs, &gone->desc);
	return r;
}

static ssize_t rename_request(struct fs *fs, struct request *q, size_t at,
			      uint64_t newdir, uint32_t flags)
{
	struct rename m = {.from_dir = q->node, .flags = flags};
	int err, r;

	m.from = request_name(q, &at, &err);
	m.to = m.from ? request_name(q, &at, &err) : NULL;
	if (!m.to)
		return err;
	m.to_dir = node_find(fs, newdir);
	if (!m.to_dir)
		return -ESTALE;
	node_hold(m.to_dir);
	r = rename_node(fs, &m);
	node_drop(fs, m.to_dir);
	return r;
}

ssize_t do_rename(struct fs *fs, struct request *q, uint8_t *out)
{
	struct fuse_rename_in in;

	(void)out;
	request_take(q, &in);
	return rename_request(fs, q, sizeof(in), in.newdir, 0);
}

ssize_t do_rename2(struct fs *fs, struct request *q, uint8_t *out)
{
	struct fuse_rename2_in in;

	(void)out;
	request_take(q, &in);
	return rename_request(fs, q, sizeof(in), in.newdir, in.flags);
}
