/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file - FILE requests. Paths are resolved as any process in the sandbox would: the guest
 * has no right that the agent lacks. WRITE, which is a stream of its own, is in write.c.
 */
#include "guest/file.h"

#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

/* One RESULT that says nothing but "done", or FAILED. */
static void answer(struct guest *g, struct stream *s, int err, const char *path)
{
	if (err < 0) {
		stream_failed(g, s, -err, path);
		return;
	}
	send_frame(g, WIRE_RESULT, 0, s->id, NULL, 0);
	stream_finish(g, s);
}

static void put_stat(struct wire_out *o, const struct stat *st)
{
	wire_put_u32(o, WIRE_A_MODE, st->st_mode);
	wire_put_u64(o, WIRE_A_SIZE, (uint64_t)st->st_size);
	wire_put_u64(o, WIRE_A_MTIME_NS,
		     (uint64_t)st->st_mtim.tv_sec * 1000000000u +
			     (uint64_t)st->st_mtim.tv_nsec);
	wire_put_u32(o, WIRE_A_UID, st->st_uid);
	wire_put_u32(o, WIRE_A_GID, st->st_gid);
}

static void file_stat(struct guest *g, struct stream *s, const struct request *r)
{
	const char *path = request_path(r);
	char target[PATH_MAX];
	uint8_t p[PATH_MAX + 256];
	struct wire_out o;
	struct stat st;
	ssize_t n;

	if (lstat(path, &st) < 0) {
		stream_failed(g, s, errno, path);
		return;
	}
	wire_out_init(&o, p, sizeof(p));
	put_stat(&o, &st);
	if (S_ISLNK(st.st_mode)) {
		n = readlink(path, target, sizeof(target));
		if (n < 0) {
			stream_failed(g, s, errno, path);
			return;
		}
		wire_put_attr(&o, WIRE_A_TARGET, target, (size_t)n);
	}
	send_frame(g, WIRE_RESULT, 0, s->id, p, o.len);
	stream_finish(g, s);
}

static void open_output(struct guest *g, struct stream *s, int fd, const struct stat *st)
{
	uint8_t p[256];
	struct wire_out o;

	wire_out_init(&o, p, sizeof(p));
	if (st)
		put_stat(&o, st);
	send_frame(g, WIRE_RESULT, 0, s->id, p, o.len);
	s->out[0].fd = fd;
	s->out[0].open = true;
	flow_init(&s->out[0].flow);
}

/* A file cut short must not look like a short file. */
static ssize_t read_some(struct stream *s, uint8_t *p, size_t n)
{
	ssize_t r;

	do
		r = read(s->out[0].fd, p, n);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

/* O_NONBLOCK: a fifo or a device must not stop us before we see what it is. */
static void file_read(struct guest *g, struct stream *s, const struct request *r)
{
	const char *path = request_path(r);
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0) {
		stream_failed(g, s, errno, path);
	} else if (!S_ISREG(st.st_mode)) {
		stream_failed(g, s, S_ISDIR(st.st_mode) ? EISDIR : EINVAL, path);
	} else {
		open_output(g, s, fd, &st);
		return;
	}
	close_fd(&fd);
}

/* Whole entries only; what does not fit any more is kept for the next frame. */
static ssize_t list_read(struct stream *s, uint8_t *p, size_t n)
{
	size_t used = 0;

	for (;;) {
		struct dirent *e = s->list.next ? s->list.next : readdir(s->list.dir);
		size_t len;

		s->list.next = NULL;
		if (!e)
			return (ssize_t)used;
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		len = strlen(e->d_name);
		if (n - used < 3 + len) {
			s->list.next = e;
			return used ? (ssize_t)used : -EAGAIN;
		}
		p[used] = e->d_type;
		wire_set16(p + used + 1, (uint16_t)len);
		memcpy(p + used + 3, e->d_name, len);
		used += 3 + len;
	}
}

static void list_release(struct stream *s)
{
	if (s->list.dir)
		closedir(s->list.dir);
	s->list.dir = NULL;
}

static void file_list(struct guest *g, struct stream *s, const struct request *r)
{
	const char *path = request_path(r);

	s->list.dir = opendir(path);
	if (!s->list.dir)
		stream_failed(g, s, errno, path);
	else
		open_output(g, s, -1, NULL);
	s->out[0].least = 3 + sizeof(((struct dirent *)0)->d_name);
}

/* Once everything was sent there is nothing left to do. */
void output_settle(struct guest *g, struct stream *s)
{
	if (!s->out[0].open)
		stream_finish(g, s);
}

static void file_mkdir(struct guest *g, struct stream *s, const struct request *r)
{
	const char *path = request_path(r);
	mode_t mode = request_has(r, WIRE_A_MODE) ? r->num[WIRE_A_MODE] & 07777 : 0755;
	struct stat st;
	int err = mkdir(path, mode) < 0 ? -errno : 0;

	if (err == 0) /* whatever the umask is */
		err = chmod(path, mode) < 0 ? -errno : 0;
	else if (err == -EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		err = 0;
	answer(g, s, err, path);
}

static void file_symlink(struct guest *g, struct stream *s, const struct request *r)
{
	const char *target = r->str[WIRE_A_PATH2];

	if (!target)
		stream_failed(g, s, EINVAL, "no target");
	else
		answer(g, s, symlink(target, request_path(r)) < 0 ? -errno : 0,
		       request_path(r));
}

static void file_remove(struct guest *g, struct stream *s, const struct request *r)
{
	const char *path = request_path(r);
	int err = unlink(path) < 0 ? -errno : 0;

	if (err == -EISDIR || err == -EPERM)
		err = rmdir(path) == 0 ? 0 : errno == ENOTDIR ? err : -errno;
	answer(g, s, err, path);
}

static const struct stream_ops simple_ops = {0};
static const struct stream_ops read_ops = {.settle = output_settle, .read = read_some};
static const struct stream_ops list_ops = {
	.settle = output_settle,
	.read = list_read,
	.release = list_release,
};

#define OWNER (TAG(WIRE_A_MODE) | TAG(WIRE_A_UID) | TAG(WIRE_A_GID))

static const struct {
	void (*run)(struct guest *g, struct stream *s, const struct request *r);
	const struct stream_ops *ops;
	uint64_t tags; /* besides PATH */
} file_ops[] = {
	[WIRE_FILE_STAT] = {file_stat,    &simple_ops, 0                },
	[WIRE_FILE_READ] = {file_read,    &read_ops,   0                },
	[WIRE_FILE_WRITE] = {file_write,   &write_ops,  OWNER            },
	[WIRE_FILE_LIST] = {file_list,    &list_ops,   0                },
	[WIRE_FILE_MKDIR] = {file_mkdir,   &simple_ops, TAG(WIRE_A_MODE) },
	[WIRE_FILE_SYMLINK] = {file_symlink, &simple_ops, TAG(WIRE_A_PATH2)},
	[WIRE_FILE_REMOVE] = {file_remove,  &simple_ops, 0                },
};

int on_file(struct guest *g, const struct wire_frame *f)
{
	cleanup_request struct request r = {0};
	int err = request_parse(&r, f, TAG(WIRE_A_PATH) | file_ops[f->sub].tags);
	struct stream *s;

	if (err == -EPROTO)
		return violation(g, "malformed FILE");
	s = stream_new(g, f->stream, file_ops[f->sub].ops);
	if (!s)
		return 0;
	if (err < 0)
		stream_failed(g, s, -err, "attribute of FILE");
	else if (r.count[WIRE_A_PATH] != 1 || *request_path(&r) != '/')
		stream_failed(g, s, EINVAL, "one absolute path is needed");
	else
		file_ops[f->sub].run(g, s, &r);
	return 0;
}
