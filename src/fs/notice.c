/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/notice.h"

#include "base/fusemsg.h"
#include "base/util.h"
#include "fs/impl.h"

static bool put(struct fs *fs, struct notice one)
{
	struct notices *q = &fs->notices;

	if (q->n == NOTICES_MAX) {
		notices_lost(fs);
		return false;
	}
	q->ring[(q->first + q->n++) % NOTICES_MAX] = one;
	return true;
}

static struct notice *last(struct notices *q)
{
	return q->n ? &q->ring[(q->first + q->n - 1) % NOTICES_MAX] : NULL;
}

void notices_lost(struct fs *fs)
{
	fs->notices.lost = fs->notices.shrink = true;
}

void notice_shrink(struct fs *fs)
{
	fs->notices.shrink = true;
}

bool notices_have_room(const struct fs *fs)
{
	return fs->notices.n < NOTICES_MAX / 2;
}

void notice_inode(struct fs *fs, struct node *n, bool data)
{
	uint8_t mark = data ? NOTICED_DATA : NOTICED_ATTR;
	struct notice one = {.node = node_number(fs, n),
			     .kind = data ? NOTICE_DATA : NOTICE_ATTR};

	if (!fs->ready || n->noticed >= mark) /* it is on its way, or more is */
		return;
	if (put(fs, one))
		n->noticed = mark;
	else if (n->missed < mark)
		n->missed = mark;
}

static bool same_entry(const struct notice *a, uint64_t dir, const char *name,
		       enum notice_kind kind)
{
	return a && a->kind == kind && a->node == dir && strcmp(a->name, name) == 0;
}

/* Whoever has not greeted knows nothing, and is told nothing. */
static bool put_named(struct fs *fs, struct notice one, const char *name)
{
	one.name = strdup(name);
	if (!one.name)
		notices_lost(fs);
	if (one.name && fs->ready && put(fs, one))
		return true;
	free(one.name);
	return !fs->ready;
}

bool notice_entry(struct fs *fs, const struct node *dir, const char *name)
{
	struct notice one = {.node = node_number(fs, dir), .kind = NOTICE_ENTRY};

	if (same_entry(last(&fs->notices), one.node, name, one.kind))
		return true;
	return put_named(fs, one, name);
}

void notice_heard(struct fs *fs, const struct node *dir, const char *name,
		  const struct node *n, uint32_t what, uint32_t type)
{
	const struct notice *before = last(&fs->notices);
	struct notice one = {.node = node_number(fs, dir),
			     .child = n ? node_number(fs, n) : 0,
			     .what = what,
			     .type = type,
			     .kind = NOTICE_HEARD};

	/* The other half of the ring is for what must not be lost. */
	if (!notices_have_room(fs) || strlen(name) > FUSEMSG_NAME_MAX ||
	    (same_entry(before, one.node, name, one.kind) && before->what == what))
		return;
	put_named(fs, one, name);
}

void notices_clear(struct fs *fs)
{
	struct notices *q = &fs->notices;

	for (; q->n; q->n--, q->first = (q->first + 1) % NOTICES_MAX)
		free(q->ring[q->first].name);
	q->first = q->in_flight = 0;
	q->lost = q->shrink = false;
}

/* ---- as bytes ------------------------------------------------------------------------
 */

static size_t encode_inode(const struct notice *one, uint8_t *out)
{
	struct fuse_notify_inval_inode_out body = {
		.ino = one->node, .off = one->kind == NOTICE_DATA ? 0 : -1};

	memcpy(out, &body, sizeof(body));
	return sizeof(body);
}

static size_t encode_entry(const struct notice *one, uint8_t *out)
{
	size_t n = strlen(one->name);
	struct fuse_notify_inval_entry_out body = {.parent = one->node,
						   .namelen = (uint32_t)n};

	memcpy(out, &body, sizeof(body));
	memcpy(out + sizeof(body), one->name, n + 1);
	return sizeof(body) + n + 1;
}

static size_t encode_heard(const struct notice *one, uint8_t *out)
{
	struct fusemsg_heard body = {.dir = one->node,
				     .node = one->child,
				     .what = one->what,
				     .type = one->type};

	memcpy(body.name, one->name, strlen(one->name) + 1);
	memcpy(out, &body, sizeof(body));
	return sizeof(body);
}

static const struct {
	int32_t code;
	size_t (*encode)(const struct notice *one, uint8_t *out);
} kinds[] = {
	[NOTICE_ATTR] = {FUSE_NOTIFY_INVAL_INODE, encode_inode},
	[NOTICE_DATA] = {FUSE_NOTIFY_INVAL_INODE, encode_inode},
	[NOTICE_ENTRY] = {FUSE_NOTIFY_INVAL_ENTRY, encode_entry},
	[NOTICE_HEARD] = {FUSEMSG_HEARD,           encode_heard},
};

/* false: the guest has forgotten the node since, and all that it knew of it. */
static bool still_known(struct fs *fs, const struct notice *one)
{
	struct node *n = node_find(fs, one->node);

	if (n && !one->name)
		n->noticed = 0;
	return n;
}

static size_t finish(struct fs *fs, int32_t code, size_t n, uint8_t *out)
{
	struct fuse_out_header head = {.len = (uint32_t)(sizeof(head) + n),
				       .error = code};

	memcpy(out, &head, sizeof(head));
	fs->notices.in_flight++;
	return head.len;
}

size_t fs_notice(struct fs *fs, uint8_t *out)
{
	struct notices *q = &fs->notices;

	if (q->shrink && fs->ready && q->in_flight < FUSEMSG_TOLD_MAX) {
		q->shrink = false;
		return finish(fs, FUSEMSG_SHRINK, 0, out);
	}
	while (q->n && q->in_flight < FUSEMSG_TOLD_MAX) {
		struct notice one = q->ring[q->first];
		size_t n = 0;

		q->first = (q->first + 1) % NOTICES_MAX;
		q->n--;
		if (still_known(fs, &one))
			n = kinds[one.kind].encode(&one,
						   out + sizeof(struct fuse_out_header));
		free(one.name);
		if (n)
			return finish(fs, kinds[one.kind].code, n, out);
	}
	return 0;
}

bool fs_told_all(const struct fs *fs)
{
	return fs->notices.in_flight == 0;
}

bool fs_settled(const struct fs *fs)
{
	const struct notices *q = &fs->notices;

	return fs_told_all(fs) && q->n == 0 && !q->lost && !q->shrink && !fs->watch.sweep;
}
