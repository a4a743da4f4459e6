/* SPDX-License-Identifier: Apache-2.0 */
/* data - requests that move the bytes of a regular file. */
#include "base/fusemsg.h"
#include "base/util.h"
#include "fs/fresh.h"
#include "fs/impl.h"

#include <assert.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define RWF_APPEND_ 0x10 /* <linux/fs.h>, which not every libc goes together with */
static_assert(FS_WRITE_MAX <= FUSEMSG_SLOT, "a READ fits into a slot");

#define COPY_MAX (16u << 20) /* of one request: nobody else is served meanwhile */

static ssize_t moved(ssize_t n, uint8_t *out)
{
	struct fusemsg_moved answer = {.size = (uint32_t)n};

	memcpy(out, &answer, sizeof(answer));
	return sizeof(answer);
}

ssize_t do_read(struct fs *fs, struct request *q, uint8_t *out)
{
	struct fuse_read_in in;
	ssize_t n;
	int fd;

	request_take(q, &in);
	if (in.offset > INT64_MAX)
		return -EINVAL;
	fd = open_file(fs, q->node, false);
	if (fd < 0)
		return fd;
	fresh_read(q->node, fd);
	n = pread(fd, q->slot ? q->slot : out, min_size(in.size, fs->max_data),
		  (off_t)in.offset);
	if (n < 0)
		return -errno;
	return q->slot ? moved(n, out) : n;
}

/* Not a page that the guest's kernel writes back, which knows where it belongs. */
static bool appends(const struct fuse_write_in *in)
{
	return in->flags & O_APPEND && !(in->write_flags & FUSE_WRITE_CACHE);
}

/* Where a file ends that is only ever appended to, its host knows: another program may
 * write there too. */
static ssize_t write_at(int fd, const struct fuse_write_in *in, const uint8_t *data)
{
	struct iovec v = {.iov_len = in->size};

	if (!appends(in))
		return pwrite(fd, data, in->size, (off_t)in->offset);
	memcpy(&v.iov_base, &data, sizeof(data)); /* const: it is only read */
	return syscall(SYS_pwritev2, fd, &v, 1L, (long)in->offset, 0L, (long)RWF_APPEND_);
}

ssize_t do_write(struct fs *fs, struct request *q, uint8_t *out)
{
	struct fuse_write_out answer = {0};
	struct fuse_write_in in;
	ssize_t n;
	int fd;

	request_take(q, &in);
	if (in.size > q->n - sizeof(in) || in.offset > INT64_MAX)
		return -EINVAL;
	fd = open_file(fs, q->node, true);
	if (fd < 0)
		return fd;
	fresh_before(fs, q->node, fd);
	n = write_at(fd, &in, q->arg + sizeof(in));
	if (n < 0)
		return -errno;
	fresh_after(fs, q->node, fd);
	if (q->node->seen.size != in.offset + (uint64_t)n && appends(&in))
		notice_inode(fs, q->node, true); /* it landed elsewhere */
	answer.size = (uint32_t)n;
	memcpy(out, &answer, sizeof(answer));
	return sizeof(answer);
}

ssize_t do_fsync(struct fs *fs, struct request *q, uint8_t *out)
{
	struct fuse_fsync_in in;
	int fd;

	(void)out;
	request_take(q, &in);
	fd = open_file(fs, q->node, false);
	if (fd < 0)
		return fd;
	return (in.fsync_flags & FUSE_FSYNC_FDATASYNC ? fdatasync(fd) : fsync(fd)) < 0
		       ? -errno
		       : 0;
}

ssize_t do_syncfs(struct fs *fs, struct request *q, uint8_t *out)
{
	int fd;

	(void)out;
	fd = open_dir_stream(fs, q->node);
	if (fd < 0)
		return fd;
	return syncfs(fd) < 0 ? -errno : 0;
}

ssize_t do_fallocate(struct fs *fs, struct request *q, uint8_t *out)
{
	struct fuse_fallocate_in in;
	int fd;

	(void)out;
	request_take(q, &in);
	if (in.offset > INT64_MAX || in.length > INT64_MAX)
		return -EINVAL;
	if (in.mode & ~(uint32_t)(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE |
				  FALLOC_FL_ZERO_RANGE))
		return -EOPNOTSUPP;
	fd = open_file(fs, q->node, true);
	if (fd < 0)
		return fd;
	fresh_before(fs, q->node, fd);
	if (fallocate(fd, (int)in.mode, (off_t)in.offset, (off_t)in.length) < 0)
		return -errno;
	fresh_after(fs, q->node, fd);
	return 0;
}

/* SEEK_DATA and SEEK_HOLE; the others never leave the guest. */
ssize_t do_lseek(struct fs *fs, struct request *q, uint8_t *out)
{
	struct fuse_lseek_out answer;
	struct fuse_lseek_in in;
	off_t at;
	int fd;

	request_take(q, &in);
	if ((in.whence != SEEK_DATA && in.whence != SEEK_HOLE) || in.offset > INT64_MAX)
		return -EINVAL;
	fd = open_file(fs, q->node, false);
	if (fd < 0)
		return fd;
	at = lseek(fd, (off_t)in.offset, (int)in.whence);
	if (at < 0)
		return -errno;
	answer.offset = (uint64_t)at;
	memcpy(out, &answer, sizeof(answer));
	return sizeof(answer);
}

static ssize_t copy_range(struct fs *fs, struct node *from, struct node *to,
			  const struct fuse_copy_file_range_in *in)
{
	loff_t off_in = (loff_t)in->off_in, off_out = (loff_t)in->off_out;
	int src, dst = open_file(fs, to, true);
	bool was = to->desc.pinned;
	ssize_t n;

	if (dst < 0)
		return dst;
	/* While the second is opened, the cache may not close the first: it would be
	 * the same number. One file has one descriptor, which may have to do both. */
	desc_keep(&fs->descs, &to->desc);
	src = open_file(fs, from, false);
	dst = to->desc.fd;
	if (!was)
		desc_unpin(&fs->descs, &to->desc);
	if (src < 0 || !to->writes)
		return src < 0 ? src : -EACCES;
	fresh_before(fs, to, dst);
	n = syscall(SYS_copy_file_range, src, &off_in, dst, &off_out,
		    min_size(in->len, COPY_MAX), 0);
	if (n < 0)
		return -errno;
	fresh_after(fs, to, dst);
	return n;
}

ssize_t do_copy(struct fs *fs, struct request *q, uint8_t *out)
{
	struct fuse_write_out answer = {0};
	struct fuse_copy_file_range_in in;
	struct node *to;
	ssize_t n;

	request_take(q, &in);
	to = node_find(fs, in.nodeid_out);
	if (!to)
		return -ESTALE;
	if (in.flags || in.off_in > INT64_MAX || in.off_out > INT64_MAX)
		return -EINVAL;
	n = copy_range(fs, q->node, to, &in);
	if (n < 0)
		return n;
	answer.size = (uint32_t)n;
	memcpy(out, &answer, sizeof(answer));
	return sizeof(answer);
}
