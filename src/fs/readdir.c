/* SPDX-License-Identifier: Apache-2.0 */
/*
 * readdir - directories, read in pieces of the guest's choice.
 *
 * An offset is the host file system's own (d_off), so it stays good while entries come
 * and go. Nobody opens a directory here (fs.h): a request says node and offset, and is
 * served from the stream that stands exactly there, if there is one, with the rest of
 * what it read last time; otherwise from a new one that is moved there. So two readers of
 * one directory do not disturb each other, and a reader in the middle of a large
 * directory of an overlay (whose offsets count entries) keeps its view while entries are
 * removed. STREAMS_MAX are kept; the one unused for longest goes.
 */
#include "base/util.h"
#include "fs/fresh.h"
#include "fs/impl.h"
#include "fs/watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* getdents64(2)'s record; libc's dirent64 is the same, where it is declared. */
struct record {
	uint64_t ino;
	int64_t off;
	uint16_t len;
	uint8_t type;
	char name[];
};

/* ---- streams ------------------------------------------------------------------------
 */

static void stream_close(struct dirstream *s)
{
	close_fd(&s->fd);
	s->node = 0;
	s->at = s->len = 0;
}

void streams_clear(struct fs *fs)
{
	for (size_t i = 0; i < STREAMS_MAX; i++) {
		stream_close(&fs->stream[i]);
		free(fs->stream[i].buf);
		fs->stream[i].buf = NULL;
	}
}

void streams_forget(struct fs *fs, uint64_t node)
{
	for (size_t i = 0; i < STREAMS_MAX; i++)
		if (fs->stream[i].node == node)
			stream_close(&fs->stream[i]);
}

static struct dirstream *stream_standing_at(struct fs *fs, uint64_t node, uint64_t off)
{
	for (size_t i = 0; i < STREAMS_MAX; i++)
		if (fs->stream[i].node == node && fs->stream[i].next == off)
			return &fs->stream[i];
	return NULL;
}

static struct dirstream *stream_unused(struct fs *fs)
{
	struct dirstream *oldest = &fs->stream[0];

	for (size_t i = 1; i < STREAMS_MAX; i++)
		if (fs->stream[i].used < oldest->used)
			oldest = &fs->stream[i];
	stream_close(oldest);
	if (!oldest->buf)
		oldest->buf = malloc(STREAM_BUFFER);
	return oldest;
}

int stream_at(struct fs *fs, struct node *n, uint64_t off, struct dirstream **ret)
{
	struct dirstream *s = stream_standing_at(fs, n->id, off);
	int dir;

	if (!s) {
		s = stream_unused(fs);
		if (!s->buf)
			return -ENOMEM;
		dir = open_dir(fs, n);
		if (dir < 0)
			return dir;
		s->fd = open_entry(fs, dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
		if (s->fd < 0)
			return take_fd(&s->fd);
		if (off && lseek(s->fd, (off_t)off, SEEK_SET) < 0)
			return -errno;
		s->node = n->id;
		s->next = off;
	}
	s->used = fs->n_requests;
	*ret = s;
	return 0;
}

int open_dir_stream(struct fs *fs, struct node *n)
{
	struct dirstream *s;
	int r = stream_at(fs, n, 0, &s);

	return r < 0 ? r : s->fd;
}

/* The next entry, or NULL at the end and on an error (*err). */
static const struct record *stream_peek(struct dirstream *s, int *err)
{
	long n;

	*err = 0;
	if (s->at == s->len) {
		n = syscall(SYS_getdents64, s->fd, s->buf, STREAM_BUFFER);
		if (n <= 0) {
			*err = n < 0 ? -errno : 0;
			return NULL;
		}
		s->at = 0;
		s->len = (size_t)n;
	}
	return (const struct record *)(const void *)(s->buf + s->at);
}

static void stream_pass(struct dirstream *s, const struct record *d)
{
	s->next = (uint64_t)d->off;
	s->at += d->len;
}

/* ---- answers -------------------------------------------------------------------------
 */

static bool is_dots(const char *name)
{
	return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

static size_t put_dirent(uint8_t *out, const struct record *d, uint64_t ino, uint8_t type)
{
	size_t namelen = strlen(d->name), n = FUSE_NAME_OFFSET + namelen;
	struct fuse_dirent e = {.ino = ino,
				.off = (uint64_t)d->off,
				.namelen = (uint32_t)namelen,
				.type = type};

	memcpy(out, &e, FUSE_NAME_OFFSET);
	memcpy(out + FUSE_NAME_OFFSET, d->name, namelen);
	memset(out + n, 0, FUSE_DIRENT_ALIGN(n) - n);
	return FUSE_DIRENT_ALIGN(n);
}

/* Some file systems have longer names than a guest could ever ask for. */
static bool is_too_long(const char *name)
{
	return strlen(name) > NAME_LENGTH_MAX;
}

/* 0: it is gone, or not for the guest to see. */
static size_t put_plain(struct fs *fs, struct node *dir, const struct record *d,
			uint8_t *out)
{
	(void)fs;
	return put_dirent(out, d, attr_ino(dir->device, d->ino), d->type);
}

/* An entry with what a LOOKUP would say. Without it (a zero node number) the guest looks
 * it up when it needs it: so it is for "." and "..", and when there is no room for
 * another node. */
static size_t put_plus(struct fs *fs, struct node *dir, const struct record *d,
		       uint8_t *out)
{
	struct fuse_entry_out e = {0};
	uint64_t ino = attr_ino(dir->device, d->ino);
	uint8_t type = d->type;
	struct fs_stat st;
	struct node *n;
	int fd, r = 0;

	if (!is_dots(d->name)) {
		fd = open_dir(fs, dir);
		r = fd < 0 ? fd : fs_stat_at(fd, d->name, &st);
		if (r == 0)
			r = node_get(fs, dir, d->name, &st, &n);
		if (r == -ENOENT)
			return 0;
	}
	if (r == 0 && !is_dots(d->name)) {
		entry_fill(fs, n, &st, &e);
		ino = e.attr.ino;
		type = (uint8_t)IFTODT(st.mode);
	}
	memcpy(out, &e, sizeof(e));
	return sizeof(e) + put_dirent(out + sizeof(e), d, ino, type);
}

static ssize_t read_dir(struct fs *fs, struct request *q, uint8_t *out, bool plus)
{
	size_t fixed = FUSE_NAME_OFFSET + (plus ? sizeof(struct fuse_entry_out) : 0);
	size_t room, n = 0;
	const struct record *d;
	struct fuse_read_in in;
	struct dirstream *s;
	int r;

	request_take(q, &in);
	room = min_size(in.size, fs->max_data);
	if (!node_is_dir(q->node))
		return -ENOTDIR;
	if (q->node->device->hidden)
		return 0;
	watch_dir(fs, q->node);
	r = stream_at(fs, q->node, in.offset, &s);
	if (r < 0)
		return r;
	fresh_read(q->node, s->fd);
	while ((d = stream_peek(s, &r))) {
		if (FUSE_DIRENT_ALIGN(fixed + strlen(d->name)) > room - n)
			break;
		if (!is_too_long(d->name))
			n += (plus ? put_plus : put_plain)(fs, q->node, d, out + n);
		stream_pass(s, d);
	}
	if (n == 0) /* the end, or a failure: nobody will go on from here */
		stream_close(s);
	return n == 0 ? r : (ssize_t)n;
}

ssize_t do_readdir(struct fs *fs, struct request *q, uint8_t *out)
{
	return read_dir(fs, q, out, false);
}

ssize_t do_readdirplus(struct fs *fs, struct request *q, uint8_t *out)
{
	return read_dir(fs, q, out, true);
}

ssize_t do_fsyncdir(struct fs *fs, struct request *q, uint8_t *out)
{
	int fd;

	(void)out;
	if (!node_is_dir(q->node))
		return -ENOTDIR;
	fd = open_dir_stream(fs, q->node);
	if (fd < 0)
		return fd;
	return fsync(fd) < 0 ? -errno : 0;
}
