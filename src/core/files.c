/* SPDX-License-Identifier: Apache-2.0 */
#include "core/files.h"

#include "base/util.h"

#include <stdio.h>

#define CALL_TIMEOUT_MS 60000

static struct stream *open_file(struct session *s, enum wire_file_op op, const char *path,
				const char *path2, const mode_t *mode,
				struct cove_error *err)
{
	uint8_t payload[10240];
	struct wire_out o;

	wire_out_init(&o, payload, sizeof(payload));
	wire_put_str(&o, WIRE_A_PATH, path);
	if (path2)
		wire_put_str(&o, WIRE_A_PATH2, path2);
	if (mode)
		wire_put_u32(&o, WIRE_A_MODE, *mode);
	if (o.overflow) {
		fail(err, COVE_EINVAL, ENAMETOOLONG, "%.100s", path);
		return NULL;
	}
	return session_open(s, STREAM_CALL, WIRE_FILE, (uint8_t)op, payload, o.len, err);
}

/* Waits for the one answer of a request and releases it. */
static int finish(struct stream *st, const char *path, struct cove_error *err)
{
	int r;

	if (!st)
		return err->code;
	r = session_wait_result(st, true, CALL_TIMEOUT_MS, err);
	session_release(st);
	return r < 0 ? wrap(err, "%s", path) : 0;
}

int file_stat(struct session *s, const char *path, struct file_info *ret,
	      struct cove_error *err)
{
	struct stream *st = open_file(s, WIRE_FILE_STAT, path, NULL, NULL, err);
	struct file_info info = {0};
	uint64_t mode = 0;
	char *target;
	int r;

	if (!st)
		return err->code;
	r = session_wait_result(st, false, CALL_TIMEOUT_MS, err);
	if (r == 0) {
		stream_result_u64(st, WIRE_A_MODE, &mode);
		stream_result_u64(st, WIRE_A_SIZE, &info.size);
		info.mode = (uint32_t)mode;
		target = stream_result_str(st, WIRE_A_TARGET);
		if (target)
			snprintf(info.target, sizeof(info.target), "%s", target);
		free(target);
		*ret = info;
	}
	session_release(st);
	return r < 0 ? wrap(err, "%s", path) : 0;
}

int file_mkdir(struct session *s, const char *path, mode_t mode, struct cove_error *err)
{
	return finish(open_file(s, WIRE_FILE_MKDIR, path, NULL, &mode, err), path, err);
}

int file_symlink(struct session *s, const char *path, const char *target,
		 struct cove_error *err)
{
	return finish(open_file(s, WIRE_FILE_SYMLINK, path, target, NULL, err), path,
		      err);
}

/* Sends all of it, letting turns pass while there is no credit. */
static int send_all(struct stream *st, const char *data, size_t n, struct cove_error *err)
{
	while (n && !st->failed) {
		int64_t w = stream_write(st, data, n, err);

		if (w < 0)
			return (int)w;
		data += w;
		n -= (size_t)w;
		if (w == 0 && session_turn(st->session, CALL_TIMEOUT_MS, err) < 0)
			return err->code;
	}
	return 0;
}

int file_write(struct session *s, const char *path, mode_t mode, const void *data,
	       size_t n, struct cove_error *err)
{
	struct stream *st = open_file(s, WIRE_FILE_WRITE, path, NULL, &mode, err);

	if (!st)
		return err->code;
	st->in.open = true;
	if (send_all(st, data, n, err) < 0 || stream_eof(st, err) < 0) {
		session_release(st);
		return wrap(err, "%s", path);
	}
	return finish(st, path, err);
}

int file_put(struct session *s, const char *path, mode_t mode, int fd,
	     struct cove_error *err)
{
	struct stream *st = open_file(s, WIRE_FILE_WRITE, path, NULL, &mode, err);
	cleanup_free char *chunk = malloc(WIRE_PAYLOAD_MAX);
	ssize_t n = 0;
	int r = 0;

	if (!st)
		return err->code;
	st->in.open = true;
	while (chunk && r == 0 && !st->failed &&
	       (n = read(fd, chunk, WIRE_PAYLOAD_MAX)) > 0)
		r = send_all(st, chunk, (size_t)n, err);
	if (!chunk)
		r = fail_nomem(err);
	else if (n < 0)
		r = fail(err, COVE_EIO, errno, "read");
	if (r == 0)
		r = stream_eof(st, err);
	if (r < 0) {
		session_release(st); /* without EOF: nothing is put in place */
		return wrap(err, "%s", path);
	}
	return finish(st, path, err);
}

int file_get(struct session *s, const char *path, int fd, struct cove_error *err)
{
	struct sink sink = {.fd = fd};
	struct stream *st = open_file(s, WIRE_FILE_READ, path, NULL, NULL, err);
	int r;

	if (!st)
		return err->code;
	st->data_sink = &sink;
	r = session_wait_result(st, true, -1, err);
	if (r == 0 && !st->data_eof)
		r = fail(err, COVE_EIO, 0, "cut short");
	st->data_sink = NULL;
	session_release(st);
	return r < 0 ? wrap(err, "%s", path) : 0;
}

static bool name_safe(const char *name, size_t n)
{
	if (n == 0 || n > 255 || (n == 1 && name[0] == '.') ||
	    (n == 2 && !memcmp(name, "..", 2)))
		return false;
	for (size_t i = 0; i < n; i++)
		if (name[i] == '/' || name[i] == '\0')
			return false;
	return true;
}

static int each_entry(const struct buf *b, int (*fn)(void *, uint8_t, const char *),
		      void *arg, struct cove_error *err)
{
	const uint8_t *p = (const uint8_t *)b->data;
	size_t left = b->len;
	char name[256];
	int r = 0;

	while (left && r == 0) {
		size_t n = left >= 3 ? wire_get16(p + 1) : 0;

		if (left < 3 || n > left - 3 || !name_safe((const char *)p + 3, n))
			return fail(err, COVE_EPROTO, 0,
				    "a directory entry is malformed");
		memcpy(name, p + 3, n);
		name[n] = '\0';
		r = fn(arg, p[0], name);
		p += 3 + n;
		left -= 3 + n;
	}
	return r;
}

int file_list(struct session *s, const char *path,
	      int (*fn)(void *arg, uint8_t type, const char *name), void *arg,
	      struct cove_error *err)
{
	struct stream *st = open_file(s, WIRE_FILE_LIST, path, NULL, NULL, err);
	struct buf entries;
	int r;

	if (!st)
		return err->code;
	r = session_wait_result(st, true, CALL_TIMEOUT_MS, err);
	entries = st->data; /* fn may use the session: the stream is released first */
	buf_init(&st->data, 0);
	session_release(st);
	if (r == 0)
		r = each_entry(&entries, fn, arg, err);
	buf_clear(&entries);
	return r < 0 ? wrap(err, "%s", path) : 0;
}
