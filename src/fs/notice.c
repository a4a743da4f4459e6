/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/notice.h"

#include "base/fusemsg.h"
#include "base/util.h"
#include "fs/impl.h"

static bool put(struct fs *fs, struct notice one)
{
	struct notices *q = &fs->notices;

	if (!fs->ready || q->n == NOTICES_MAX) {
		q->lost = fs->ready;
		return false;
	}
	q->ring[(q->first + q->n++) % NOTICES_MAX] = one;
	return true;
}

static struct notice *last(struct notices *q)
{
	return q->n ? &q->ring[(q->first + q->n - 1) % NOTICES_MAX] : NULL;
}

void notice_inode(struct fs *fs, struct node *n, bool data)
{
	uint8_t mark = data ? NOTICED_DATA : NOTICED_ATTR;

	if (n->noticed >= mark) /* it is on its way, or more is */
		return;
	if (put(fs, (struct notice){.node = node_number(fs, n), .data = data}))
		n->noticed = mark;
}

void notice_entry(struct fs *fs, const struct node *dir, const char *name)
{
	const struct notice *before = last(&fs->notices);
	uint64_t number = node_number(fs, dir);
	char *copy;

	if (before && before->node == number && before->name &&
	    strcmp(before->name, name) == 0)
		return;
	copy = strdup(name);
	if (!copy || !put(fs, (struct notice){.node = number, .name = copy})) {
		fs->notices.lost |= !copy;
		free(copy);
	}
}

void notices_clear(struct fs *fs)
{
	struct notices *q = &fs->notices;

	for (; q->n; q->n--, q->first = (q->first + 1) % NOTICES_MAX)
		free(q->ring[q->first].name);
	q->first = q->in_flight = 0;
	q->lost = false;
}

/* ---- as bytes ------------------------------------------------------------------------
 */

static size_t encode_inode(const struct notice *one, uint8_t *out)
{
	struct fuse_notify_inval_inode_out body = {.ino = one->node,
						   .off = one->data ? 0 : -1};

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

/* false: the guest has forgotten the node since, and all that it knew of it. */
static bool still_known(struct fs *fs, const struct notice *one)
{
	struct node *n = node_find(fs, one->node);

	if (n && !one->name)
		n->noticed = 0;
	return n;
}

size_t fs_notice(struct fs *fs, uint8_t *out)
{
	struct notices *q = &fs->notices;
	struct fuse_out_header head = {0};

	while (q->n && q->in_flight < FUSEMSG_TOLD_MAX) {
		struct notice one = q->ring[q->first];
		size_t n;

		q->first = (q->first + 1) % NOTICES_MAX;
		q->n--;
		if (!still_known(fs, &one)) {
			free(one.name);
			continue;
		}
		n = (one.name ? encode_entry : encode_inode)(&one, out + sizeof(head));
		head.len = (uint32_t)(sizeof(head) + n);
		head.error = one.name ? FUSE_NOTIFY_INVAL_ENTRY : FUSE_NOTIFY_INVAL_INODE;
		memcpy(out, &head, sizeof(head));
		free(one.name);
		q->in_flight++;
		return head.len;
	}
	return 0;
}

bool fs_told_all(const struct fs *fs)
{
	return fs->notices.in_flight == 0;
}
