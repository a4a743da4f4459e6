/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/fresh.h"

#include "fs/impl.h"
#include "fs/notice.h"
#include "fs/watch.h"

static void remember(struct node *n, const struct fs_stat *st)
{
	n->seen = (struct seen){st->size, st->mtime, st->ctime, true};
}

static bool content_differs(const struct seen *s, const struct fs_stat *st)
{
	return s->size != st->size || !fs_time_equal(s->mtime, st->mtime);
}

void fresh_told(struct fs *fs, struct node *n, const struct fs_stat *st)
{
	if (n->seen.known && content_differs(&n->seen, st))
		notice_inode(fs, n, true);
	remember(n, st);
}

enum fresh_news fresh_compare(struct fs *fs, struct node *n, const struct fs_stat *st)
{
	bool data = content_differs(&n->seen, st);

	if (!n->seen.known || (!data && fs_time_equal(n->seen.ctime, st->ctime)))
		return FRESH_SAME;
	notice_inode(fs, n, data);
	/* Until the guest looks again, it needs no second notice. */
	n->seen.known = false;
	return data ? FRESH_DATA : FRESH_ATTR;
}

void fresh_read(struct node *n, int fd)
{
	struct fs_stat st;

	if (!n->seen.known && fs_stat_at(fd, "", &st) == 0)
		remember(n, &st);
}

void fresh_changed(struct fs *fs, struct node *n, const struct fs_stat *st)
{
	remember(n, st);
	for (struct node *other = NULL; (other = node_alias(fs, n, other));)
		notice_inode(fs, other, true);
}

void fresh_before(struct fs *fs, struct node *n, int fd)
{
	struct fs_stat st;

	if (n->seen.known && fs_stat_at(fd, "", &st) == 0)
		fresh_compare(fs, n, &st);
}

void fresh_after(struct fs *fs, struct node *n, int fd)
{
	struct fs_stat st;

	if (fs_stat_at(fd, "", &st) == 0)
		fresh_changed(fs, n, &st);
}

/* ---- how long ------------------------------------------------------------------------
 */

bool fresh_is_watched(const struct node *dir)
{
	return dir && (dir->watch >= 0 || dir->watch == WATCH_NOT_NEEDED);
}

uint32_t fresh_entry(const struct fs *fs, const struct node *n, const struct fs_stat *st)
{
	(void)st;
	if (n == fs->nodes.root)
		return VALID_LONG;
	/* A directory that nobody watches is looked at again before it is read. */
	if (node_is_dir(n) && !fresh_is_watched(n))
		return VALID_SHORT;
	return fresh_is_watched(n->parent) ? VALID_LONG : VALID_SHORT;
}

bool fresh_is_brief(const struct fs *fs, const struct node *n)
{
	return fs->for_template && n->device->brief && n != fs->nodes.root &&
	       (node_is_dir(n) || node_is_link(n));
}

/* A file with several names may be changed under one that we do not watch. */
uint32_t fresh_attr(const struct fs *fs, const struct node *n, const struct fs_stat *st)
{
	if (fresh_is_brief(fs, n))
		return 0;
	if (node_is_dir(n) || watch_is_mount(n))
		return fresh_is_watched(n) ? VALID_LONG : VALID_SHORT;
	return fresh_is_watched(n->parent) && st->nlink == 1 ? VALID_LONG : VALID_SHORT;
}
