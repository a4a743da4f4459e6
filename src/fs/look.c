/* SPDX-License-Identifier: Apache-2.0 */
/* look - requests that look at a file and change nothing. */
#include "base/util.h"
#include "fs/fresh.h"
#include "fs/impl.h"
#include "fs/watch.h"

#include <limits.h>
#include <sys/statfs.h>

/* That a name is not there may be kept too, where we would hear of its appearance. */
static ssize_t absent_answer(const struct fs *fs, struct node *dir, uint8_t *out)
{
	struct fuse_entry_out none = {.entry_valid = VALID_ABSENT};

	if (fs->for_template || !fresh_is_watched(dir))
		return -ENOENT;
	dir->told_absent = true;
	memcpy(out, &none, sizeof(none));
	return sizeof(none);
}

ssize_t do_lookup(struct fs *fs, struct request *q, uint8_t *out)
{
	size_t at = 0;
	int err;
	const char *name = request_name(q, &at, &err);
	ssize_t r;

	if (!name)
		return err;
	if (q->node->device->hidden)
		return -ENOENT;
	watch_dir(fs, q->node); /* before looking: a change in between is seen */
	r = entry_answer(fs, q->node, name, out);
	return r == -ENOENT ? absent_answer(fs, q->node, out) : r;
}

ssize_t do_forget(struct fs *fs, struct request *q, uint8_t *out)
{
	struct fuse_forget_in in;

	(void)out;
	request_take(q, &in);
	if (q->node)
		node_forget(fs, q->node, in.nlookup);
	return NO_REPLY;
}

ssize_t do_batch_forget(struct fs *fs, struct request *q, uint8_t *out)
{
	struct fuse_batch_forget_in in;
	struct fuse_forget_one one;

	(void)out;
	request_take(q, &in);
	for (size_t at = sizeof(in); in.count > 0 && q->n - at >= sizeof(one);
	     at += sizeof(one), in.count--) {
		struct node *n;

		memcpy(&one, q->arg + at, sizeof(one));
		n = node_find(fs, one.nodeid);
		if (n)
			node_forget(fs, n, one.nlookup);
	}
	return NO_REPLY;
}

ssize_t do_getattr(struct fs *fs, struct request *q, uint8_t *out)
{
	struct fs_stat st;
	int r = node_stat(fs, q->node, &st);

	return r < 0 ? r : attr_answer(fs, q->node, &st, out);
}

ssize_t do_readlink(struct fs *fs, struct request *q, uint8_t *out)
{
	const char *name;
	int dir = open_at(fs, q->node, &name);
	ssize_t n;

	if (dir < 0)
		return dir;
	n = readlinkat(dir, name, (char *)out, PATH_MAX);
	return n < 0 ? -errno : n;
}

ssize_t do_statfs(struct fs *fs, struct request *q, uint8_t *out)
{
	struct fuse_statfs_out answer = {0};
	const char *name;
	int fd = open_at(fs, q->node, &name); /* the file's, or its directory's */
	struct statfs s;

	if (fd < 0)
		return fd;
	if (fstatfs(fd, &s) < 0)
		return -errno;
	answer.st = (struct fuse_kstatfs){
		.blocks = s.f_blocks,
		.bfree = s.f_bfree,
		.bavail = s.f_bavail,
		.files = s.f_files,
		.ffree = s.f_ffree,
		.bsize = (uint32_t)s.f_bsize,
		.namelen = NAME_LENGTH_MAX,
		.frsize = (uint32_t)s.f_frsize,
	};
	memcpy(out, &answer, sizeof(answer));
	return sizeof(answer);
}
